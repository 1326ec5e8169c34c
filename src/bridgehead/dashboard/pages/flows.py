"""The flow pages: which flows there are, one with its steps and open requests, and its answer form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.flows.views import (
    FlowView,
    OpenFlowRequest,
    fleet_load,
    list_flows,
    view_flow,
    why_unfit,
)
from bridgehead.assembly.pending import UnfitAnswer
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import SAYS_SCHEMA, Answer, PendingItem
from bridgehead.contract.record_words import AnswerStatus, RunState
from bridgehead.dashboard.page import (
    Form,
    Page,
    PageContext,
    Paging,
    answer_fields,
    answer_from,
)
from bridgehead.dashboard.templating import spelled
from bridgehead.errors import AlreadyAnswered, BridgeheadError, UserError
from bridgehead.flows.operations.inspect import Step
from bridgehead.host.clock import parse_iso

PAGE_LENGTH: Final = 50
STEPS_SHOWN: Final = 200
MOST_LISTED: Final = 5000
"""Flows looked through for a filter."""
WHOLE: Final = 100.0
SHORTEST: Final = 0.8
"""Of the bar: what took no time at all is still seen."""

_CLASSES: Final = {
    "completed": "completed",
    "fallback": "high",
    "failed": "failed",
    "pending": "waiting",
    "waiting": "waiting",
    "queued": "low",
}


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """An open request, and what the record knows of it."""

    request: OpenFlowRequest
    item: PendingItem | None
    schema: str | None

    @property
    def text(self) -> str:
        """The prompt without the schema, which stands beside it."""
        return self.request.prompt.partition(SAYS_SCHEMA)[0]

    @property
    def answer(self) -> Answer | None:
        return self.item.answer if self.item else None


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """What was written a moment ago and why it was not taken."""

    item_id: str = ""
    text: str = ""
    message: str = ""
    form: Form = field(default_factory=dict)


NOTHING_TYPED: Final = RefusedAnswer()


def show_list(context: PageContext, request: Request) -> Response:
    state = request.query_params.get("state", "")
    if state and state not in tuple(RunState):
        raise UserError(
            f"{state!r} is not a state of a flow", hint=f"states: {', '.join(RunState)}"
        )
    paging = Paging.of(PAGE.path, request.query_params, PAGE_LENGTH)
    limit = MOST_LISTED if state else paging.start + PAGE_LENGTH + 1
    flows = [
        flow
        for flow in list_flows(context.assembly, context.store, limit=limit)
        if state in ("", flow.state)
    ]
    return context.show(
        request,
        PAGE,
        "flows.html",
        flows=paging.cut(flows),
        fleet=fleet_load(context.assembly),
        state=state,
        states=[str(one) for one in RunState],
        before=paging.before(),
        after=paging.after(len(flows)),
    )


def answer(context: PageContext, request: Request, form: Form) -> Response:
    """Take the one answer, if the flow could use it. Whoever comes second is told who was first."""
    view = _view(context, request)
    item_id = str(request.path_params["item_id"])
    asked = next((one for one in view.requests if one.item_id == item_id), None)
    given = answer_from(context, form, asked.schema if asked else None)
    here = address_of(view.summary.id)
    if reason := _unfit(view, asked, given):
        return show_flow(
            context, request, RefusedAnswer(item_id, given.text or "", reason, form)
        )
    try:
        item = context.pending.answer(item_id, given, Door.PAGE)
    except UnfitAnswer as error:
        return show_flow(
            context,
            request,
            RefusedAnswer(item_id, given.text or "", error.message, form),
        )
    except AlreadyAnswered as error:
        return context.go(request, here, f"{error.message}.", bad=True)
    finally:
        context.forget_waiting()
    return context.go(
        request, here, f"{item.id} answered. Resume the flow to continue."
    )


def address_of(flow_id: str) -> str:
    return f"/flows/{quote(flow_id, safe='')}"


def show_flow(
    context: PageContext, request: Request, typed: RefusedAnswer = NOTHING_TYPED
) -> Response:
    view = _view(context, request)
    steps = shown_steps(view.steps, context.clock.now())
    paging = Paging.of(address_of(view.summary.id), request.query_params, STEPS_SHOWN)
    return context.show(
        request,
        PAGE,
        "flow.html",
        status=422 if typed.message else 200,
        view=view,
        flow=view.summary,
        address=address_of(view.summary.id),
        settings=[(name, spelled(value)) for name, value in view.settings.items()],
        asked=[_shown_request(context, one) for one in view.requests],
        typed=typed,
        answer_fields=answer_fields,
        steps=paging.cut(steps),
        steps_total=len(steps),
        before=paging.before(),
        after=paging.after(len(steps)),
    )


def _view(context: PageContext, request: Request) -> FlowView:
    return view_flow(
        context.assembly, context.store, str(request.path_params["flow_id"])
    )


def _unfit(view: FlowView, asked: OpenFlowRequest | None, given: Answer) -> str | None:
    """Why the flow would not use this answer; what it no longer asks is for the waiting list to refuse."""
    if given.status is not AnswerStatus.SUCCESS or not (given.text or "").strip():
        return None
    reason = why_unfit(view.summary.name, asked, given.text or "") if asked else None
    return f"The flow could not use this answer. {reason}" if reason else None


def _shown_request(context: PageContext, request: OpenFlowRequest) -> ShownRequest:
    schema = None
    if request.schema is not None:
        schema = msgspec.json.format(
            msgspec.json.encode(request.schema), indent=2
        ).decode()
    try:
        item = context.store.pending_item(request.item_id) if request.item_id else None
    except BridgeheadError:
        item = None
    return ShownRequest(request, item, schema)


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its bar: `begin` and `length` in hundredths of the whole run."""

    step: Step
    seconds: float | None
    begin: float
    length: float
    css_class: str
    """A class of the stylesheet."""

    @property
    def is_open(self) -> bool:
        return self.step.ended is None


def shown_steps(steps: Sequence[Step], now: datetime) -> list[ShownStep]:
    """All of them in order; what has not ended goes on until `now`."""
    times = [_times(step, now) for step in steps]
    known = [one for one in times if one is not None]
    first = min((began for began, _ in known), default=now)
    whole = max(
        (max((ended for _, ended in known), default=now) - first).total_seconds(), 0.001
    )
    return [
        _shown(step, one, first, whole) for step, one in zip(steps, times, strict=True)
    ]


def _shown(
    step: Step, times: tuple[datetime, datetime] | None, first: datetime, whole: float
) -> ShownStep:
    css_class = _CLASSES.get(step.status, "info")
    if times is None:
        return ShownStep(step, None, 0.0, 0.0, css_class)
    began, ended = times
    seconds = max(0.0, (ended - began).total_seconds())
    length = max(SHORTEST, WHOLE * seconds / whole)
    begin = min(WHOLE * (began - first).total_seconds() / whole, WHOLE - length)
    return ShownStep(
        step, seconds, round(max(0.0, begin), 2), round(length, 2), css_class
    )


def _times(step: Step, now: datetime) -> tuple[datetime, datetime] | None:
    try:
        return parse_iso(step.started), parse_iso(step.ended) if step.ended else now
    except ValueError:
        return None


PAGE: Final = Page(
    "Flows",
    "/flows",
    views={"/flows": show_list, "/flows/{flow_id}": show_flow},
    actions={"/flows/{flow_id}/answer/{item_id}": answer},
)
