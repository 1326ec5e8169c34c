"""One seat's Markdown summary, beside its event log: status, outputs, pre-flight, the whole report (council §18)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import Status, severity_rank
from bridgehead.council.render.markdown import escaped, fenced, front_matter

_OWN_FIELDS: Final = (
    *("agents_spawned", "dispatch_mode", "subagent_mode", "multi_agent_enabled", "reasoning_level"),
    *(
        "models_configured",
        "models_used",
        "instances_spawned",
        "instances_completed",
        "intra_bridge_confirmed",
    ),
)
_CELL_CHARACTERS: Final = 200


def render_seat(report: BridgeReport, preflight: Sequence[Mapping[str, Any]], *, timestamp: str) -> str:
    """The summary file of one seat; `preflight` are the lines of its log."""
    parts = [
        front_matter(_fields(report, timestamp)),
        f"\n# {escaped(report.bridge)}: {_status(report)}\n",
        *_table("Outputs", report.outputs),
        *_table("Withdrawn", report.withdrawn_outputs),
        *_disputed(report),
        *_preflight(preflight),
        "## Report\n",
        fenced(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False), "json"),
    ]
    return "\n".join(parts) + "\n"


def _fields(report: BridgeReport, timestamp: str) -> dict[str, Any]:
    own = {name: getattr(report, name) for name in _OWN_FIELDS}
    return {
        "bridge": report.bridge,
        "session_id": report.session_id,
        "timestamp": timestamp,
        "task_type": report.task_type.value,
        "domains": list(report.domains_covered),
        "verdict": report.verdict,
        "status": report.status.value,
        "connection_used": report.connection_used,
        "debate_rounds": report.debate_rounds,
        "confidence": report.confidence,
        **{name: value for name, value in own.items() if value is not msgspec.UNSET},
    }


def _status(report: BridgeReport) -> str:
    match report.status:
        case Status.SKIPPED:
            return f"SKIPPED, {escaped(report.skip_reason or '')}"
        case Status.HALTED:
            return f"HALTED, {escaped(report.halt_reason or '')}: {escaped(report.halt_message or '')}"
        case Status.ABORTED:
            return "ABORTED"
        case Status.COMPLETED:
            verdict = report.verdict.value if report.verdict else "no verdict"
            return f"{verdict}, {len(report.outputs)} outputs, {report.debate_rounds} debate rounds"


def _table(title: str, outputs: Sequence[Output]) -> Iterator[str]:
    if not outputs:
        return
    yield f"## {title}\n"
    yield "| id | severity | state | title | evidence | domain |"
    yield "|---|---|---|---|---|---|"
    for output in sorted(outputs, key=lambda output: -severity_rank(output.severity)):
        state = output.status.value if output.status else "–"
        cells = (output.id, output.severity or "–", state, output.title, output.evidence or "", output.domain)
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""


def _disputed(report: BridgeReport) -> Iterator[str]:
    if not report.disputed_outputs:
        return
    yield "## Disputed\n"
    for entry in report.disputed_outputs:
        yield f"### {escaped(entry.output.id)} {escaped(entry.output.title)}\n"
        yield f"Position: {escaped(entry.output.description)}\n"
        yield f"Challenge: {escaped(entry.unresolved_challenge)}\n"


def _preflight(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not events:
        return
    yield "## Pre-flight\n"
    yield "| step | result | detail |"
    yield "|---|---|---|"
    for event in events:
        step, result = str(event.get("step", "")), str(event.get("result", ""))
        yield f"| {_cell(step)} | {_cell(result)} | {_cell(_detail(event))} |"
    yield ""


def _detail(event: Mapping[str, Any]) -> str:
    names = ("connection", "path", "detail", "value_seconds", "basis")
    return ", ".join(
        str(event[name]) for name in names if name in event and not isinstance(event[name], dict)
    )


def _cell(text: str) -> str:
    return escaped(text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…")
