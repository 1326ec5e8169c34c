"""One seat's report for people: Markdown with front matter (council §18). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import Status

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


def seat_summary(report: BridgeReport, preflight: Sequence[Mapping[str, Any]], at: datetime) -> str:
    """The whole Markdown file of one seat."""
    parts = [
        _front_matter(report, at),
        f"# {_plain(report.bridge)}: {_status_line(report)}\n",
        _items("Outputs", report.outputs),
        _items("Withdrawn", report.withdrawn_outputs),
        _disputed(report),
        _preflight(preflight),
        f"## Report\n\n{_fenced(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False))}\n",
    ]
    return "\n".join(part for part in parts if part)


def _front_matter(report: BridgeReport, at: datetime) -> str:
    fields: dict[str, Any] = {
        "bridge": report.bridge,
        "session_id": report.session_id,
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "task_type": report.task_type.value,
        "domains": list(report.domains_covered),
        "verdict": report.verdict,
        "status": report.status.value,
        "connection_used": report.connection_used,
        "debate_rounds": report.debate_rounds,
        "confidence": report.confidence,
    }
    own = {name: getattr(report, name) for name in _OWN_FIELDS}
    fields |= {name: value for name, value in own.items() if value is not msgspec.UNSET}
    # JSON scalars and lists are YAML, whatever they hold; only `null` must not be quoted.
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "---\n" + "\n".join(lines) + "\n---\n"


def _status_line(report: BridgeReport) -> str:
    match report.status:
        case Status.SKIPPED:
            return f"SKIPPED, {_plain(report.skip_reason or '')}"
        case Status.HALTED:
            return f"HALTED, {_plain(report.halt_reason or '')}: {_plain(report.halt_message or '')}"
        case Status.ABORTED:
            return "ABORTED"
        case Status.COMPLETED:
            verdict = report.verdict.value if report.verdict else "no verdict"
            return f"{verdict}, {len(report.outputs)} outputs, {report.debate_rounds} debate rounds"


def _items(title: str, outputs: Sequence[Output]) -> str:
    if not outputs:
        return ""
    rows = [
        f"| {_cell(output.id)} | {output.severity or '–'} | {output.status or '–'} | {_cell(output.title)} "
        f"| {_cell(output.evidence or '')} | {_cell(output.domain)} |"
        for output in sorted(outputs, key=lambda output: -(output.severity.rank if output.severity else 0))
    ]
    head = "| id | severity | state | title | evidence | domain |\n|---|---|---|---|---|---|"
    return f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n"


def _disputed(report: BridgeReport) -> str:
    if not report.disputed_outputs:
        return ""
    blocks = [
        f"### {_plain(entry.output.id)} {_plain(entry.output.title)}\n\n"
        f"Position: {_plain(entry.output.description)}\n\n"
        f"Challenge: {_plain(entry.unresolved_challenge)}\n"
        for entry in report.disputed_outputs
    ]
    return "## Disputed\n\n" + "\n".join(blocks)


def _preflight(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return ""
    rows = [
        f"| {_cell(str(event.get('step', '')))} | {_cell(str(event.get('result', '')))} "
        f"| {_cell(_detail(event))} |"
        for event in events
    ]
    return "## Pre-flight\n\n| step | result | detail |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _detail(event: Mapping[str, Any]) -> str:
    names = ("connection", "path", "detail", "value_seconds", "basis")
    shown = [str(event[name]) for name in names if name in event and not isinstance(event[name], dict)]
    return ", ".join(shown)


def _cell(text: str) -> str:
    """Text for a table cell: one line, no markup of its own, not endless."""
    line = _plain(" ".join(text.split()))
    return (line if len(line) <= _CELL_CHARACTERS else line[:_CELL_CHARACTERS] + "…").replace("|", "\\|")


def _plain(text: str) -> str:
    """Foreign text without the power to be a link, an image or HTML."""
    return re.sub(r"([\[\]<>])", r"\\\1", text.replace("\x1b", ""))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}json\n{text}\n{fence}"
