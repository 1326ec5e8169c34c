"""The report as one page that opens from disk: no network, no script, everything foreign escaped (council §18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Status
from bridgehead.council.render.debate_picture import draw_debate
from bridgehead.council.render.markup import Markup, element, joined
from bridgehead.council.render.notes import notes
from bridgehead.council.render.reasons import reason_in_words
from bridgehead.council.render.telling import (
    beside,
    comparison_line,
    headline,
    one_line,
    ordered,
    place,
    plural,
    standing,
)
from bridgehead.council.report import AbortedReport, CouncilReport, FindingClass, FindingEntry, Participant

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
OPEN_FINDINGS: Final = 3
UNKNOWN: Final = "–"


def render_html(report: CouncilReport | AbortedReport, seats: Sequence[BridgeReport] = ()) -> str:
    """The whole page; `seats` are the bridges' own reports, for the picture of the debate."""
    body = _aborted(report) if isinstance(report, AbortedReport) else _council(report, seats)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"Council {report.review_id}"),
        element("style", Markup(_style())),
    )
    return "<!doctype html>\n" + element("html", head, element("body", *body), lang="en") + "\n"


def _council(report: CouncilReport, seats: Sequence[BridgeReport]) -> Iterator[Markup]:
    entries = ordered(report.findings())
    told = headline(report, entries)
    word, _, rest = told.partition(" ")
    yield element("h1", element("span", word, class_=str(report.verdict or "soft")), " ", rest.strip())
    yield element(
        "p",
        f"{report.task_type} of {report.scope}, {report.intensity}; council {report.review_id}, {report.timestamp}",
        class_="soft",
    )
    compared = comparison_line(report)
    if compared:
        yield element("p", f"Since the last run: {compared}.")
    analysed = beside(entries)
    for number, entry in enumerate(entries):
        there = analysed.get(entry.id, ())
        yield _finding(entry, there, is_open=number < OPEN_FINDINGS, compared=bool(compared))
    picture = draw_debate(report, seats)
    if picture is not None:
        yield element("h2", "The debate")
        yield picture
        yield element(
            "p",
            "From left to right: what each seat raised, what was left of it after its debate, and where it joined. "
            "Dashed and bent: challenged; green held, blue was revised, amber stayed in dispute, red was withdrawn.",
            class_="soft",
        )
    yield from _list(
        "Withdrawn", [f"{one.id} {one.title}: {one.reason}" for one in report.withdrawn_findings]
    )
    yield from _list(
        "Dismissed",
        [
            f"{one.id} {one.title}: {one.reason} ({one.author})"
            + (", by this change itself" if one.dismissed_in_this_change else "")
            for one in report.dismissed_findings
        ],
    )
    yield from _seats(report)
    yield from _list("Notes", [*report.synthesis_notes, *notes(report.warnings, codes=True)])


def _finding(
    entry: FindingEntry, analysed: Sequence[FindingEntry], *, is_open: bool, compared: bool
) -> Markup:
    severity = str(entry.severity or entry.type)
    parts: list[Markup] = [
        element(
            "summary",
            element("span", severity, class_=f"label {severity}"),
            entry.title,
            element("span", place(entry), class_="place mono"),
        ),
        element(
            "p",
            f"{standing(entry, compared=compared)}; confidence {entry.confidence}; {entry.id}",
            class_="soft",
        ),
    ]
    parts += [
        element("p", f"static analysis there: {one.title} ({one.severity}, {one.id})", class_="soft")
        for one in analysed
    ]
    if entry.description:
        parts.append(element("p", entry.description))
    if entry.evidence:
        parts.append(element("pre", entry.evidence))
    if entry.remediation:
        parts.append(element("p", element("strong", "Action: "), entry.remediation))
    if entry.cls is FindingClass.DISPUTED:
        positions = [f"{one.bridge} ({one.severity}): {one.position}" for one in entry.positions]
        parts.append(element("ul", *(element("li", position) for position in positions)))
    parts += [element("p", note, class_="soft") for note in _dismissal_notes(entry)]
    return element("details", *parts, id=entry.id, open="" if is_open else None)


def _dismissal_notes(entry: FindingEntry) -> Iterator[str]:
    if entry.dismissal_note:
        yield entry.dismissal_note
    if entry.resembles_dismissed:
        yield f"resembles a dismissed finding: {entry.resembles_dismissed}"


def _list(title: str, entries: Sequence[str]) -> Iterator[Markup]:
    if entries:
        yield element("h2", title)
        yield element("ul", *(element("li", entry) for entry in entries))


def _seats(report: CouncilReport) -> Iterator[Markup]:
    names = ("seat", "status", "over", "models", "findings", "rounds", "calls", "tokens in", "out", "cost")
    yield element("h2", f"Seats: {plural(len(report.bridges_available), 'seat')} completed")
    yield element(
        "table",
        element("tr", *(element("th", name) for name in names)),
        *(element("tr", *_seat_cells(one)) for one in report.participants),
    )


def _seat_cells(one: Participant) -> Iterator[Markup]:
    done = one.status == Status.COMPLETED
    status = "completed" if done else f"{one.status.lower()}: {reason_in_words(one_line(one.reason or ''))}"
    for words in (one.bridge, status, one.connection or UNKNOWN):
        yield element("td", words)
    yield element("td", ", ".join(one.models) or _claimed(one) or UNKNOWN, class_="long")
    usage = one.usage
    numbers = (one.outputs, one.debate_rounds, usage.calls or None, usage.tokens_in, usage.tokens_out)
    for number in numbers:
        yield element("td", UNKNOWN if number is None else f"{number:,}", class_="number")
    cost = UNKNOWN if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    yield element("td", cost, class_="number")


def _claimed(one: Participant) -> str:
    """What a rig says about its models; nobody has checked it."""
    claim = one.remote or {}
    named = [str(claim.get("model_family") or ""), *map(str, claim.get("models_used") or ())]
    said = ", ".join(filter(None, named))
    return f"says: {said}" if said else ""


def _aborted(report: AbortedReport) -> Iterator[Markup]:
    yield element("h1", element("span", "ABORTED", class_="FAIL"), " ", report.abort_reason)
    reasons = [f"{bridge}: {reason}" for bridge, reason in report.skip_reasons.items()]
    yield joined(*_list("Seats", reasons))


@cache
def _style() -> str:
    return resources.files("bridgehead.council.render").joinpath("page.css").read_text(encoding="utf-8")
