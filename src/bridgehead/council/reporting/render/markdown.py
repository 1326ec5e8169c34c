"""Markdown summaries of a council and of one seat: front matter, findings, who said what, the whole report as JSON
(council §18).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import Status, severity_rank
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.render import sentences
from bridgehead.council.reporting.report import (
    AbortedReport,
    CouncilReport,
    FindingClass,
    FindingEntry,
)
from bridgehead.errors import plural

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+!|~])")
_OWN_FIELDS: Final = (
    *(
        "agents_spawned",
        "dispatch_mode",
        "subagent_mode",
        "multi_agent_enabled",
        "reasoning_level",
    ),
    *(
        "models_configured",
        "models_used",
        "instances_spawned",
        "instances_completed",
        "intra_bridge_confirmed",
    ),
)
_CELL_CHARACTERS: Final = 200


def render_markdown(
    report: CouncilReport | AbortedReport, *, context_summary: str = ""
) -> str:
    """The summary file of a council."""
    if isinstance(report, AbortedReport):
        return "\n".join(_aborted(report, context_summary)) + "\n"
    return "\n".join(_council(report, context_summary)) + "\n"


def escaped(text: str) -> str:
    """Foreign text as plain Markdown text on one line: no links, no HTML, no emphasis."""
    # Entities rather than backslashes for angle brackets: every renderer agrees on those.
    without_html = (
        sentences.one_line(text)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return _SPECIAL.sub(r"\\\1", without_html)


def fenced(text: str, language: str = "") -> str:
    """Foreign text in a code fence it cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{sentences.visible(text)}\n{fence}"


def front_matter(fields: dict[str, Any]) -> str:
    """YAML front matter; JSON scalars and lists are YAML, so nothing foreign can break out of it."""
    lines = [
        f"{name}: {sentences.visible(json.dumps(value, ensure_ascii=False))}"
        for name, value in fields.items()
    ]
    return "\n".join(["---", *lines, "---"])


def _council(report: CouncilReport, context_summary: str) -> Iterator[str]:
    judged = {"domains": list(report.domains_covered), "verdict": report.verdict}
    yield _council_matter(report, judged, report.bridges_available, context_summary)
    entries = sentences.ordered(report.findings())
    yield (
        f"\n# Council {escaped(report.review_id)}: "
        f"{sentences.headline(report, entries)}\n"
    )
    yield f"{report.task_type} of {escaped(report.scope)}, {report.intensity}."
    yield from _list("Not looked at", [escaped(line) for line in lines_of(report)])
    yield from (escaped(line) for line in sentences.superseding(report))
    if compared := sentences.comparison_line(report):
        yield f"Since the last run: {compared}."
    yield from _table(entries)
    for entry in entries:
        yield from _finding(entry, compared=bool(sentences.comparison_line(report)))
    for title, apart in sentences.set_apart(report).items():
        yield f"\n## {title}"
        for told, entry in apart:
            yield from _finding(entry, compared=False, told=told)
    if report.recommendation:
        yield "\n## Recommendation"
        yield fenced(
            json.dumps(report.recommendation, indent=2, ensure_ascii=False), "json"
        )
    contradictions = [
        escaped(json.dumps(one, ensure_ascii=False)) for one in report.contradictions
    ]
    yield from _list("Contradictions", contradictions)
    yield from _seats(report)
    yield from _list(
        "Points of view", [escaped(line) for line in sentences.domain_lines(report)]
    )
    remarks = (*report.synthesis_notes, *sentences.notes(report.warnings, codes=True))
    yield from _list("Notes", [escaped(note) for note in remarks])
    yield from _json(report)


def _council_matter(
    report: CouncilReport | AbortedReport,
    judged: dict[str, Any],
    available: Sequence[str],
    context_summary: str,
) -> str:
    fields = {
        "skill": "deep-council",
        "timestamp": report.timestamp,
        "artifact_type": "council",
        **judged,
    }
    fields |= {
        "bridges_available": list(available),
        "bridges_skipped": list(report.bridges_skipped),
    }
    fields |= {"review_id": report.review_id, "context_summary": context_summary}
    return front_matter({**fields, "partial_coverage": report.partial_coverage})


def _table(entries: Sequence[FindingEntry]) -> Iterator[str]:
    if not entries:
        return
    yield "\n| severity | id | finding | place | seats |"
    yield "|---|---|---|---|---|"
    for entry in entries:
        severity = entry.severity or entry.type
        seats = escaped(
            ", ".join(dict.fromkeys(one.bridge for one in entry.source_findings))
        )
        yield (
            f"| {severity} | {entry.id} | {escaped(entry.title)} | "
            f"{escaped(sentences.place_of(entry))} | {seats} |"
        )


def _finding(
    entry: FindingEntry, *, compared: bool, told: str | None = None
) -> Iterator[str]:
    """One finding with its argument; `told`: why it stands apart from the others."""
    heading = "##" if told is None else "###"
    yield (
        f"\n{heading} {entry.id} {entry.severity or entry.type}: "
        f"{escaped(entry.title)}\n"
    )
    if told:
        yield f"{escaped(told)}\n"
    where = (
        f"{escaped(sentences.place_of(entry))}: " if sentences.place_of(entry) else ""
    )
    standing = escaped(sentences.standing(entry, compared=compared))
    yield f"{where}{standing}, {sentences.likelihood(entry)}"
    description, evidence = sentences.said(entry)
    if description:
        yield f"\n{escaped(description)}"
    if evidence:
        yield f"\n{fenced(evidence)}"
    for place, code in sentences.cited_code(entry):
        yield f"\n{escaped(place)}\n\n{fenced(code)}"
    if entry.remediation:
        yield f"\n**Action:** {escaped(entry.remediation)}"
    if steps := sentences.argument(entry):
        yield "\nThe argument:"
        yield from (f"- **{escaped(what)}**: {escaped(text)}" for what, text in steps)
    if entry.cls is FindingClass.DISPUTED:
        yield "\nPositions:"
        for position in entry.positions:
            yield (
                f"- {escaped(position.bridge)} ({position.severity}): "
                f"{escaped(position.position)}"
            )
    yield from (
        f"\n_{escaped(note)}_"
        for note in (entry.dismissal_note, entry.resembles_dismissed)
        if note
    )


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n## {title}"
        yield from (f"- {line}" for line in lines)


def _seats(report: CouncilReport) -> Iterator[str]:
    yield "\n## Seats\n"
    yield (
        "| seat | status | connection | models | items | rounds | calls | tokens "
        "in/out | cost |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in report.participants:
        status = (
            one.status
            if one.status == Status.COMPLETED
            else f"{one.status}: {escaped(one.reason or '')}"
        )
        usage = one.usage
        rounds = "-" if one.debate_rounds is None else one.debate_rounds
        tokens = f"{_known(usage.tokens_in)} / {_known(usage.tokens_out)}"
        yield (
            f"| {escaped(one.bridge)} | {status} | {escaped(one.connection or '-')} | "
            f"{escaped(', '.join(one.models)) or '-'} | {one.outputs} | {rounds} | "
            f"{usage.calls} | {tokens} | {_known(usage.cost_usd)} |"
        )


def _json(report: CouncilReport | AbortedReport) -> Iterator[str]:
    yield "\n## Report\n"
    yield fenced(
        msgspec.json.format(msgspec.json.encode(report), indent=2).decode(), "json"
    )


def _aborted(report: AbortedReport, context_summary: str) -> Iterator[str]:
    yield _council_matter(
        report,
        {"domains": [], "verdict": None, "status": report.status},
        (),
        context_summary,
    )
    yield f"\n# Council {escaped(report.review_id)}: ABORTED\n"
    yield escaped(report.abort_reason)
    for seat, reason in report.skip_reasons.items():
        yield f"- {escaped(seat)}: {escaped(reason)}"
    yield from _json(report)


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def render_seat(
    report: BridgeReport, preflight: Sequence[Mapping[str, Any]], *, timestamp: str
) -> str:
    """The summary file of one seat; `preflight` are the lines of its log."""
    parts = [
        front_matter(_fields(report, timestamp)),
        f"\n# {escaped(report.bridge)}: {_status(report)}\n",
        *_seat_table("Outputs", report.outputs),
        *_seat_table("Withdrawn", report.withdrawn_outputs),
        *_disputed(report),
        *_preflight(preflight),
        "## Report\n",
        fenced(
            json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False),
            "json",
        ),
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
            return (
                f"HALTED, {escaped(report.halt_reason or '')}: "
                f"{escaped(report.halt_message or '')}"
            )
        case Status.ABORTED:
            return "ABORTED"
        case Status.COMPLETED:
            verdict = report.verdict.value if report.verdict else "no verdict"
            rounds = plural(report.debate_rounds or 0, "debate round")
            return f"{verdict}, {plural(len(report.outputs), 'output')}, {rounds}"


def _seat_table(title: str, outputs: Sequence[Output]) -> Iterator[str]:
    if not outputs:
        return
    yield f"## {title}\n"
    yield "| id | severity | state | title | evidence | domain |"
    yield "|---|---|---|---|---|---|"
    for output in sorted(outputs, key=lambda output: -severity_rank(output.severity)):
        state = output.status.value if output.status else "–"
        cells = (
            output.id,
            output.severity or "–",
            state,
            output.title,
            output.evidence or "",
            output.domain,
        )
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
    names = ("connection", "path", "detail", "value_seconds", "basis")
    for event in events:
        step = str(event.get("step", ""))
        result = str(event.get("result", ""))
        told = [
            str(event[name])
            for name in names
            if name in event and not isinstance(event[name], dict)
        ]
        yield f"| {_cell(step)} | {_cell(result)} | {_cell(', '.join(told))} |"
    yield ""


def _cell(text: str) -> str:
    return escaped(
        text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"
    )
