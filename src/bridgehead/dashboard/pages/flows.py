"""Show the list of flows, and single ones with steps, requests and answer form."""

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
    """An open request, and its pending item in the record."""

    request: OpenFlowRequest
    item: PendingItem | None
    schema: str | None

    @property
    def text(self) -> str:
        """Return the prompt without the schema, which is shown beside it."""
        return self.request.prompt.partition(SAYS_SCHEMA)[0]

    @property
    def answer(self) -> Answer | None:
        return self.item.answer if self.item else None


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """An answer that was refused, and why, to be shown again in the form."""

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
        states=[str(run_state) for run_state in RunState],
        before=paging.before(),
        after=paging.after(len(flows)),
    )


def answer(context: PageContext, request: Request, form: Form) -> Response:
    """Record an answer, if the flow can use it and there is none yet."""
    view = _view(context, request)
    item_id = str(request.path_params["item_id"])
    matches = [opened for opened in view.requests if opened.item_id == item_id]
    opened = matches[0] if matches else None
    reply = answer_from(context, form, opened.schema if opened else None)
    page = address_of(view.summary.id)
    reason = _unfit(view, opened, reply)
    if reason:
        refused = RefusedAnswer(item_id, reply.text or "", reason, form)
        return show_flow(context, request, refused)
    try:
        item = context.pending.answer(item_id, reply, Door.PAGE)
    except UnfitAnswer as error:
        refused = RefusedAnswer(item_id, reply.text or "", error.message, form)
        return show_flow(context, request, refused)
    except AlreadyAnswered as error:
        return context.go(request, page, f"{error.message}.", bad=True)
    finally:
        context.forget_waiting()
    return context.go(
        request, page, f"{item.id} answered. Resume the flow to continue."
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
        asked=[_shown_request(context, opened) for opened in view.requests],
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


def _unfit(view: FlowView, opened: OpenFlowRequest | None, reply: Answer) -> str | None:
    """Return why the flow could not use this answer; None if it could.

    Answers to requests that are not open any more are refused elsewhere.
    """
    text = reply.text or ""
    if opened is None or reply.status is not AnswerStatus.SUCCESS or not text.strip():
        return None
    reason = why_unfit(view.summary.name, opened, text)
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
    """Return the steps with their bars; one that has not ended lasts until `now`."""
    spans = [_times(step, now) for step in steps]
    known_spans = [span for span in spans if span is not None]
    first = min((began for began, _ in known_spans), default=now)
    last = max((ended for _, ended in known_spans), default=now)
    total = max((last - first).total_seconds(), 0.001)
    return [
        _shown(step, span, first, total)
        for step, span in zip(steps, spans, strict=True)
    ]


def _shown(
    step: Step, times: tuple[datetime, datetime] | None, first: datetime, total: float
) -> ShownStep:
    css_class = _CLASSES.get(step.status, "info")
    if times is None:
        return ShownStep(step, None, 0.0, 0.0, css_class)
    began, ended = times
    seconds = max(0.0, (ended - began).total_seconds())
    length = max(SHORTEST, WHOLE * seconds / total)
    begin = min(WHOLE * (began - first).total_seconds() / total, WHOLE - length)
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
