"""How flows are shown on a terminal and as JSON: a list, one with a page of its steps,
the runs that were checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from bridgehead.cli.output import ago, columns
from bridgehead.errors import UserError, plural
from bridgehead.flows.calls import Call
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.inspect import (
    PART,
    CheckedRun,
    ListResult,
    StatusResult,
    Step,
)
from bridgehead.flows.values.times import parse_time, utc_text
from bridgehead.flows.words import AttemptStatus
from bridgehead.host.terminal import escape_controls

STEPS_PER_PAGE: Final = 50


class StepPage(NamedTuple):
    """The steps that are shown, and where they stand among all."""

    steps: tuple[Step, ...]
    total: int
    first: int = 1

    @classmethod
    def of(
        cls, steps: Sequence[Step], page: int | None = None, *, everything: bool = False
    ) -> StepPage:
        """Return a page by its number; without one the last, where the run stands."""
        total = len(steps)
        pages = max(1, math.ceil(total / STEPS_PER_PAGE))
        if everything:
            return cls(tuple(steps), total)
        if page is not None and page > pages:
            raise UserError(
                f"there is no page {page}: the steps of this flow take "
                f"{plural(pages, 'page')}"
            )
        number = page or pages
        start = (number - 1) * STEPS_PER_PAGE
        return cls(tuple(steps[start : start + STEPS_PER_PAGE]), total, start + 1)

    @property
    def note(self) -> str:
        if len(self.steps) == self.total:
            return ""
        last = self.first + len(self.steps) - 1
        return (
            f"  steps {self.first:,} to {last:,} of {self.total:,}; --page 1 shows "
            "the first, --all every one\n"
        )


def list_text(listed: ListResult, now: datetime, width: int) -> str:
    if not listed.runs:
        return "no flow has run here\n"
    head = ("id", "flow", "version", "status", "last", "waits for")
    rows = [
        (
            run.id,
            run.name,
            run.version,
            run.status.value,
            _age(run.updated, now),
            _agents(run, listed),
        )
        for run in listed.runs
    ]
    return columns([head, *rows], width=width, flexible=1)


def check_text(name: str, checked: Sequence[CheckedRun]) -> str:
    if not checked:
        return f"no run of {name} is paused\n"
    lines = [
        f"{'ok     ' if one.goes_on else 'refused'}  {one.run.id}  "
        f"{escape_controls(one.run.root)}\n"
        f"         {escape_controls(one.detail)}"
        for one in checked
    ]
    refused = sum(not one.goes_on for one in checked)
    return (
        "\n".join(
            [
                *lines,
                (
                    f"{len(checked) - refused} of {len(checked)} paused runs can be "
                    "resumed"
                ),
            ]
        )
        + "\n"
    )


def status_document(found: StatusResult, shown: StepPage) -> dict[str, Any]:
    return {
        **run_document(found.run),
        "input": {
            key: value
            for key, value in found.run.input.items()
            if not key.startswith("_")
        },
        "steps": [step._asdict() for step in shown.steps],
        "steps_total": shown.total,
        "first_step": shown.first,
        "outstanding": _outstanding(found),
    }


def status_text(found: StatusResult, shown: StepPage, now: datetime, width: int) -> str:
    run = found.run
    lines = [
        f"{run.id}  {run.name} {run.version}  {run.status}, {_age(run.updated, now)}"
    ]
    if run.error:
        lines.append(f"  {escape_controls(run.error)}")
    waiting = {call.path: _waiting(call) for call in found.outstanding}
    rows = [
        (
            f"  {step.path}",
            step.kind,
            waiting.get(step.path) or step.status,
            _took(step),
        )
        for step in shown.steps
        if step.kind != PART
    ]
    return "\n".join(lines) + "\n" + columns(rows, width=width, flexible=0) + shown.note


def run_document(run: Run) -> dict[str, Any]:
    return {
        "flow_id": run.id,
        "name": run.name,
        "version": run.version,
        "status": run.status.value,
        "root": run.root,
        "created": run.created,
        "updated": run.updated,
        "error": run.error,
    }


def listed_run(run: Run, unfinished: StatusResult | None) -> dict[str, Any]:
    """Return a line of the list.

    The run that has not ended shows its steps and what it waits for as well.
    """
    if unfinished is None or unfinished.run.id != run.id:
        return {**run_document(run), "outstanding": []}
    shown = StepPage.of(unfinished.steps)
    steps = [step._asdict() for step in shown.steps]
    outstanding = _outstanding(unfinished)
    return {
        **run_document(run),
        "steps": steps,
        "steps_total": shown.total,
        "outstanding": outstanding,
    }


def _outstanding(found: StatusResult) -> list[dict[str, Any]]:
    """Return the open requests as they stand in the request file, prompt and answer
    schema included.
    """
    return [
        {**call.current.document, "path": call.path, "deadline": _deadline(call)}
        for call in found.outstanding
    ]


def _deadline(call: Call) -> str | None:
    """Queued requests have none: their time starts when they are handed out."""
    return (
        utc_text(call.current.deadline)
        if call.current.status is AttemptStatus.PENDING
        else None
    )


def _waiting(call: Call) -> str:
    request = call.current
    if request.status is AttemptStatus.QUEUED:
        return f"queued for {request.document['agent_name']}"
    attempt = f", attempt {request.number + 1}" if request.number else ""
    return f"waits for {request.document['agent_name']} ({request.request_id}{attempt})"


def _agents(run: Run, listed: ListResult) -> str:
    if listed.unfinished is None or listed.unfinished.run.id != run.id:
        return ", ".join(listed.waits_for.get(run.id, ()))
    waiting: Sequence[Call] = listed.unfinished.outstanding
    return ", ".join(str(call.current.document["agent_name"]) for call in waiting)


def _took(step: Step) -> str:
    started = parse_time(step.started)
    ended = parse_time(step.ended or "")
    if started is None or ended is None:
        return ""
    seconds = (ended - started).total_seconds()
    if seconds >= 10:
        return ago(started, ended)
    if seconds >= 0.1:
        return f"{seconds:.1f} s"
    return ""


def _age(stamp: str, now: datetime) -> str:
    then = parse_time(stamp)
    return f"{ago(then, now)} ago" if then else stamp
