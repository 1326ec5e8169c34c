"""The result in a terminal: the answer first, then the evidence, then who sat. Fits one screen before it scrolls."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.contract.words import OutputType, Severity, Verdict
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.render import sentences
from bridgehead.council.reporting.report import (
    DEBATE_FALLBACK,
    AbortedReport,
    CouncilReport,
    FindingEntry,
)
from bridgehead.errors import plural, shortened

SHOWN: Final = 10
"""Findings in full before the reader is sent to the report."""
LABEL_WIDTH: Final = 10

_COLOUR: Final = {
    Severity.CRITICAL: "31",
    Severity.HIGH: "33",
    Severity.MEDIUM: "34",
    Severity.LOW: "90",
    Severity.INFO: "90",
    Verdict.FAIL: "1;31",
    Verdict.CONCERNS: "1;33",
    Verdict.PASS: "1;32",
}

# Words that leave a gap before the title.
_UNRATED: Final = {
    OutputType.RECOMMENDATION: "advice",
    OutputType.PLAN_ITEM: "step",
    OutputType.IMPLEMENTATION_NOTE: "note",
    OutputType.OBSERVATION: "observed",
    OutputType.COMPLIANCE_GAP: "gap",
    OutputType.CONSTRAINT: "limit",
    OutputType.ASSUMPTION: "assumed",
    OutputType.EXPERIMENT: "try",
}


@dataclass(frozen=True, slots=True)
class Screen:
    """How wide it may be, whether colour is wanted, and where the report was saved."""

    width: int = 100
    colour: bool = False
    saved_at: str | None = None


DEFAULT_SCREEN = Screen()


def render_text(
    report: CouncilReport | AbortedReport,
    screen: Screen = DEFAULT_SCREEN,
    about: str = "",
) -> str:
    """The report as the command prints it; one finding of it opened instead of all, if it is `about` one."""
    if isinstance(report, CouncilReport):
        for entry in report.everything():
            if about.upper() in (entry.id, entry.was):
                ending = [
                    sentences.headline(report, sentences.ordered(report.findings())),
                    *_seats(report, screen),
                ]
                return render_finding(entry, screen) + "\n".join(["", *ending, ""])
    lines = (
        _aborted(report)
        if isinstance(report, AbortedReport)
        else _report(report, screen)
    )
    return "\n".join(lines) + "\n"


def render_finding(entry: FindingEntry, screen: Screen, *, why: bool = False) -> str:
    """One finding opened: claim, cited lines, the argument about it, what to do; `why`: and what joined it."""
    lines = list(_finding(entry, screen, (), compared=True))
    if why:
        lines += ["", *map(sentences.visible, sentences.why(entry))]
    for paragraph in filter(None, "\n".join(sentences.said(entry)).split("\n")):
        lines += ["", *textwrap.wrap(sentences.one_line(paragraph), screen.width)]
    for place, code in sentences.cited_code(entry):
        lines += ["", place, *sentences.visible(code).split("\n")]
    for what, text in sentences.argument(entry):
        told = textwrap.wrap(
            sentences.one_line(text),
            screen.width - 2,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        lines += ["", sentences.one_line(what), *told]
    return "\n".join(lines) + "\n"


def _report(report: CouncilReport, screen: Screen) -> Iterator[str]:
    entries = sentences.ordered(report.findings())
    word, _, rest = sentences.headline(report, entries).partition(" ")
    yield f"{_painted(word, report.verdict, screen)} {rest}"
    for line in lines_of(report):
        yield from textwrap.wrap(
            sentences.one_line(line), screen.width, subsequent_indent="  "
        )
    folded = sentences.beside(entries)
    inside = {entry.id for found in folded.values() for entry in found}
    listed = [entry for entry in entries if entry.id not in inside]
    for entry in listed[:SHOWN]:
        yield ""
        yield from _finding(
            entry,
            screen,
            folded.get(entry.id, ()),
            compared=bool(sentences.comparison_line(report)),
        )
    if len(listed) > SHOWN:
        yield ""
        yield f"… {plural(len(listed) - SHOWN, 'more finding')} in the report"
    yield from _below(report)
    yield from _seats(report, screen)


def _finding(
    entry: FindingEntry,
    screen: Screen,
    analysed: Sequence[FindingEntry],
    *,
    compared: bool,
) -> Iterator[str]:
    label = (
        entry.severity.value
        if entry.severity
        else _UNRATED.get(entry.type, entry.type.value)
    )
    where = sentences.place_of(entry)
    room = max(screen.width - LABEL_WIDTH - len(where) - 2, 20)
    title, *rest = textwrap.wrap(sentences.one_line(entry.title), room) or [""]
    gap = " " * max(screen.width - LABEL_WIDTH - len(title) - len(where), 2)
    yield (
        _painted(f"{label:<{LABEL_WIDTH}}", entry.severity, screen)
        + (title + gap + where).rstrip()
    )
    indent = " " * LABEL_WIDTH
    room = screen.width - LABEL_WIDTH
    *body, last = [
        shortened(line, room)
        for line in (*rest, *_details(entry, analysed, compared=compared))
    ]
    for line in body:
        yield indent + line
    if len(last) + len(entry.id) + 2 > room:
        yield indent + last
        last = ""
    yield indent + last + " " * max(room - len(last) - len(entry.id), 0) + entry.id


def _details(
    entry: FindingEntry, analysed: Sequence[FindingEntry], *, compared: bool
) -> Iterator[str]:
    yield sentences.standing(entry, compared=compared)
    for one in analysed:
        yield (
            f"static analysis there: {sentences.one_line(one.title)} "
            f"({one.severity or one.type}, {one.id})"
        )
    if code := sentences.quoted_code(entry):
        yield code
    if entry.remediation:
        yield f"→ {sentences.one_line(entry.remediation)}"
    if entry.dismissal_note:
        yield sentences.one_line(entry.dismissal_note)
    elif entry.resembles_dismissed:
        yield sentences.one_line(
            f"resembles a dismissed finding: {entry.resembles_dismissed}"
        )


def _below(report: CouncilReport) -> Iterator[str]:
    lines = []
    if report.disputed_findings:
        lines.append(
            f"disputed  {len(report.disputed_findings)}   both positions are in the "
            "report"
        )
    if report.withdrawn_findings:
        lines.append(
            f"withdrawn {len(report.withdrawn_findings)}   with the evidence against "
            "them in the report"
        )
    if report.dismissed_findings:
        new = sum(one.dismissed_in_this_change for one in report.dismissed_findings)
        by_change = f", {new} by this change itself" if new else ""
        lines.append(
            f"dismissed {len(report.dismissed_findings)}   "
            f"(.bridgehead/dismissals.toml{by_change})"
        )
    if report.untouched_findings:
        found = plural(len(report.untouched_findings), "finding")
        lines.append(
            f"{found} on lines the change did not touch, in the report; --whole-files "
            "counts them"
        )
    if requirements := sentences.requirements_line(report):
        lines.append(f"requirements: {requirements}")
    if compared := sentences.comparison_line(report):
        lines.append(f"since the last run: {compared}")
    if report.recommendation:
        lines.append(
            "recommended: "
            f"{sentences.one_line(str(report.recommendation.get('reason') or ''))}"
        )
    if report.contradictions:
        lines.append(
            f"contradictions: {len(report.contradictions)}, listed in the report"
        )
    if lines:
        yield ""
        yield from lines


def _seats(report: CouncilReport, screen: Screen) -> Iterator[str]:
    yield ""
    if screen.saved_at:
        yield f"report  {screen.saved_at}"
    skipped = sentences.skipped_line(report)
    seats = f"seats   {sentences.seats_line(report)}"
    left_out = f"skipped: {skipped}" if skipped else ""
    if len(seats) + len(left_out) + 6 <= screen.width:
        yield f"{seats}      {left_out}".rstrip()
    else:
        indent = " " * 8
        yield from textwrap.wrap(seats, screen.width, subsequent_indent=indent)
        yield from textwrap.wrap(left_out, screen.width, subsequent_indent=indent)
    yield from (f"note    {line}" for line in sentences.superseding(report))
    if again := sentences.way_back(report):
        yield f"again   {again}"
    for pending in report.bridges_pending:
        yield (
            f"waiting {pending['bridge']} since {pending['since']}; bridgehead "
            f"council resume {report.review_id}"
        )
    if report.type == DEBATE_FALLBACK:
        yield "note    there was no round of challenges: its agents looked and voted"
    for note in sentences.notes(report.warnings):
        yield f"note    {note}"


def _aborted(report: AbortedReport) -> Iterator[str]:
    yield f"ABORTED   {sentences.one_line(report.abort_reason)}"
    for seat, reason in report.skip_reasons.items():
        yield f"  {seat:<10} {sentences.reason_in_words(sentences.one_line(reason))}"
    yield (
        "  bridgehead runtimes shows which runtimes are available, and why others are "
        "not"
    )


def _painted(text: str, kind: Severity | Verdict | None, screen: Screen) -> str:
    if not screen.colour or kind is None:
        return text
    return f"\x1b[{_COLOUR[kind]}m{text}\x1b[0m"
