"""Flows as `flow list` and `flow status` show them: documents for --json, aligned text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bridgehead.cli.text import ago, columns
from bridgehead.flows.calls import Call
from bridgehead.flows.journals.base import Run
from bridgehead.flows.moments import parse_moment, utc_text
from bridgehead.flows.operations.inspect import ListResult, StatusResult
from bridgehead.flows.timeline import PART, Step
from bridgehead.flows.words import AttemptStatus
from bridgehead.host.terminal import escape_controls


def list_document(listed: ListResult) -> dict[str, Any]:
    return {"flows": [_listed(run, listed.unfinished) for run in listed.runs]}


def list_text(listed: ListResult, now: datetime, width: int) -> str:
    if not listed.runs:
        return "no flow has run here\n"
    head = ("id", "flow", "version", "status", "last", "waits for")
    rows = [
        (run.id, run.name, run.version, run.status.value, _age(run.updated, now), _agents(run, listed))
        for run in listed.runs
    ]
    return columns([head, *rows], width=width, flexible=1)


def status_document(found: StatusResult) -> dict[str, Any]:
    return {
        **_run_document(found.run),
        "input": {key: value for key, value in found.run.input.items() if not key.startswith("_")},
        "steps": [step._asdict() for step in found.steps],
        "outstanding": _outstanding(found),
    }


def status_text(found: StatusResult, now: datetime, width: int) -> str:
    run = found.run
    lines = [f"{run.id}  {run.name} {run.version}  {run.status}, {_age(run.updated, now)}"]
    if run.error:
        lines.append(f"  {escape_controls(run.error)}")
    waiting = {call.path: _waiting(call) for call in found.outstanding}
    rows = [
        (f"  {step.path}", step.kind, waiting.get(step.path) or step.status, _took(step))
        for step in found.steps
        if step.kind != PART
    ]
    return "\n".join(lines) + "\n" + columns(rows, width=width, flexible=0)


def _run_document(run: Run) -> dict[str, Any]:
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


def _listed(run: Run, unfinished: StatusResult | None) -> dict[str, Any]:
    """A line of the list; the run that has not ended shows its steps and what it waits for as well."""
    if unfinished is None or unfinished.run.id != run.id:
        return {**_run_document(run), "outstanding": []}
    steps = [step._asdict() for step in unfinished.steps]
    return {**_run_document(run), "steps": steps, "outstanding": _outstanding(unfinished)}


def _outstanding(found: StatusResult) -> list[dict[str, Any]]:
    """The open requests as they stand in the request file, prompt and answer schema included."""
    return [
        {**call.current.document, "path": call.path, "deadline": _deadline(call)}
        for call in found.outstanding
    ]


def _deadline(call: Call) -> str | None:
    """Queued requests have none: their time starts when they are handed out."""
    return utc_text(call.current.deadline) if call.current.status is AttemptStatus.PENDING else None


def _waiting(call: Call) -> str:
    request = call.current
    if request.status is AttemptStatus.QUEUED:
        return f"queued for {request.document['agent_name']}"
    attempt = f", attempt {request.number + 1}" if request.number else ""
    return f"waits for {request.document['agent_name']} ({request.request_id}{attempt})"


def _agents(run: Run, listed: ListResult) -> str:
    if listed.unfinished is None or listed.unfinished.run.id != run.id:
        return ""
    waiting: Sequence[Call] = listed.unfinished.outstanding
    return ", ".join(str(call.current.document["agent_name"]) for call in waiting)


def _took(step: Step) -> str:
    started, ended = parse_moment(step.started), parse_moment(step.ended or "")
    if started is None or ended is None:
        return ""
    seconds = (ended - started).total_seconds()
    return ago(started, ended) if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 0.1 else ""


def _age(stamp: str, now: datetime) -> str:
    then = parse_moment(stamp)
    return f"{ago(then, now)} ago" if then else stamp
