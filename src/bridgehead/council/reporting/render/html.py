"""The report as one page that opens from disk, with the debate drawn in SVG: no network, no script, all foreign
text escaped (§18).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Final

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import OutputState, Severity, Status
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.render import sentences
from bridgehead.council.reporting.report import (
    AbortedReport,
    CouncilReport,
    FindingClass,
    FindingEntry,
    Participant,
)
from bridgehead.errors import plural, shortened

_VOID: Final = frozenset({"meta", "br", "hr", "circle", "path", "line", "rect"})
MOST_DOTS: Final = 60
LANE_HEIGHT: Final = 64
RAISED_X: Final = 120
DEBATED_X: Final = 370
COUNCIL_X: Final = 640
WIDTH: Final = 960
COLUMN: Final = 170
"""Room for the dots of one seat in one column."""
MOST_LABEL: Final = 42
TOP: Final = 44
NODE_HEIGHT: Final = 26

_SEVERITY_CLASS: Final = {
    Severity.CRITICAL: "critical",
    Severity.HIGH: "high",
    Severity.MEDIUM: "medium",
    Severity.LOW: "low",
    Severity.INFO: "low",
    None: "low",
}
_OUTCOME_CLASS: Final = {
    OutputState.CONFIRMED: "held",
    OutputState.REVISED: "revised",
    OutputState.DISCOVERED: "held",
    OutputState.DISPUTED: "disputed",
    OutputState.WITHDRAWN: "gone",
    None: "held",
}
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
OPEN_FINDINGS: Final = 3
UNKNOWN: Final = "–"


class Markup(str):
    """Markup made by `element`; every other string is text."""

    __slots__ = ()


def element(
    name: str, /, *children: str, **attributes: str | int | float | None
) -> Markup:
    """One element. `class_` and `stroke_width` spell `class` and `stroke-width`; None leaves an attribute out."""
    spelled = "".join(
        (
            " "
            f'{key.rstrip("_").replace("_", "-")}="{escape(sentences.visible(str(value)), quote=True)}"'
        )
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(
            f"<{name}{spelled}/>"
            if name not in ("meta", "br", "hr")
            else f"<{name}{spelled}>"
        )
    return Markup(f"<{name}{spelled}>{''.join(map(_child, children))}</{name}>")


def joined(*children: str) -> Markup:
    """Children one after the other, without an element around them."""
    return Markup("".join(map(_child, children)))


def _child(child: str) -> str:
    return (
        child
        if isinstance(child, Markup)
        else escape(sentences.visible(child), quote=False)
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """One output of a seat: where it was raised, and where it stood after the debate."""

    output: Output
    raised: float
    debated: float
    y: float

    @property
    def challenges(self) -> int:
        return (
            len(self.output.challenges)
            if isinstance(self.output.challenges, tuple)
            else 0
        )

    @property
    def is_gone(self) -> bool:
        return self.output.status is OutputState.WITHDRAWN


def draw_debate(report: CouncilReport, seats: Sequence[BridgeReport]) -> Markup | None:
    """The picture, or None when there is nothing to draw or too much to be read."""
    lanes = [seat for seat in seats if seat.status is Status.COMPLETED]
    count = sum(len(seat.outputs) + len(seat.withdrawn_outputs) for seat in lanes)
    if not lanes or not 0 < count <= MOST_DOTS:
        return None
    items = {
        (seat.bridge, item.output.id): item
        for row, seat in enumerate(lanes)
        for item in _items(row, seat)
    }
    entries = list(report.findings())
    room = max(len(lanes) * LANE_HEIGHT, len(entries) * NODE_HEIGHT)
    step = room / max(len(entries), 1)
    nodes = [
        (entry, TOP + step * place + step / 2) for place, entry in enumerate(entries)
    ]
    headings = (
        (RAISED_X, "raised"),
        (DEBATED_X, "after debate"),
        (COUNCIL_X, "council"),
    )
    picture = element(
        "svg",
        element(
            "title",
            "Findings of each seat, what debate made of them, and where they joined",
        ),
        *(
            element("text", text, x=x - 5, y=24, class_="heading")
            for x, text in headings
        ),
        *(_lane(row, seat) for row, seat in enumerate(lanes)),
        *_joins(items, nodes),
        *(_drawn(item) for item in items.values()),
        *(_node(entry, y) for entry, y in nodes),
        viewBox=f"0 0 {WIDTH} {TOP + room + 20}",
        role="img",
        class_="debate",
    )
    return element("div", picture, class_="wide")


def _lane(row: int, seat: BridgeReport) -> Markup:
    y = TOP + row * LANE_HEIGHT
    return element(
        "g",
        element(
            "rect",
            x=0,
            y=y,
            width=DEBATED_X + COLUMN + 20,
            height=LANE_HEIGHT - 8,
            class_="lane",
        ),
        element("text", sentences.one_line(seat.bridge), x=10, y=y + 32, class_="seat"),
    )


def _items(row: int, seat: BridgeReport) -> Iterator[_Item]:
    """Findings of a seat from left to right, in both columns at the same place."""
    everything = [*seat.outputs, *seat.withdrawn_outputs]
    step = min(16.0, COLUMN / max(len(everything), 1))
    y = TOP + row * LANE_HEIGHT + (LANE_HEIGHT - 8) / 2
    for place, output in enumerate(everything):
        yield _Item(output, RAISED_X + place * step, DEBATED_X + place * step, y)


def _drawn(item: _Item) -> Markup:
    output = item.output
    told = f"{output.id} {output.severity or output.type}: {output.title}"
    if item.challenges:
        told += f" ({plural(item.challenges, 'challenge')}, {output.status})"
    severity = _SEVERITY_CLASS[output.severity]
    outcome = "gone" if item.is_gone else severity
    if output.status is OutputState.DISPUTED:
        outcome += " disputed"
    way = f"challenge {_OUTCOME_CLASS[output.status]}" if item.challenges else "quiet"
    return element(
        "g",
        element("title", told),
        element("path", d=_way(item), class_=way),
        element("circle", cx=item.raised, cy=item.y, r=5, class_=severity),
        element("circle", cx=item.debated, cy=item.y, r=5, class_=outcome),
    )


def _way(item: _Item) -> str:
    """From where it was raised to where it stood after the debate; a challenge bends it."""
    if not item.challenges:
        return f"M {item.raised} {item.y} L {item.debated} {item.y}"
    top = item.y - min(14 + 4 * item.challenges, 26)
    return (
        f"M {item.raised} {item.y} C {item.raised + 30} {top}, {item.debated - 30} "
        f"{top}, {item.debated} {item.y}"
    )


def _joins(
    items: Mapping[tuple[str, str], _Item], nodes: Sequence[tuple[FindingEntry, float]]
) -> Iterator[Markup]:
    for entry, y in nodes:
        for source in entry.source_findings:
            item = items.get((source.bridge, source.finding_id))
            if item is not None:
                middle = (DEBATED_X + COLUMN + COUNCIL_X) / 2
                path = (
                    f"M {item.debated + 5} {item.y} C {middle} {item.y}, {middle} "
                    f"{y}, {COUNCIL_X - 8} {y}"
                )
                yield element(
                    "path", d=path, class_=f"join {_SEVERITY_CLASS[entry.severity]}"
                )


def _node(entry: FindingEntry, y: float) -> Markup:
    shape = "disputed" if entry.cls is FindingClass.DISPUTED else ""
    label = shortened(sentences.one_line(f"{entry.id} {entry.title}"), MOST_LABEL)
    return element(
        "g",
        element("title", f"{entry.severity or entry.type}: {entry.title}"),
        element(
            "circle",
            cx=COUNCIL_X,
            cy=y,
            r=7,
            class_=f"{_SEVERITY_CLASS[entry.severity]} {shape}".strip(),
        ),
        element("text", label, x=COUNCIL_X + 14, y=y + 4, class_="node"),
    )


def render_html(
    report: CouncilReport | AbortedReport, seats: Sequence[BridgeReport] = ()
) -> str:
    """The whole page; `seats` are their own reports, for the picture of the debate."""
    body = (
        _aborted(report)
        if isinstance(report, AbortedReport)
        else _council(report, seats)
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"Council {report.review_id}"),
        element("style", Markup(_style())),
    )
    return (
        "<!doctype html>\n"
        + element("html", head, element("body", element("main", *body)), lang="en")
        + "\n"
    )


def _council(report: CouncilReport, seats: Sequence[BridgeReport]) -> Iterator[Markup]:
    entries = sentences.ordered(report.findings())
    told = sentences.headline(report, entries)
    word, _, rest = told.partition(" ")
    yield element(
        "h1",
        element("span", word, class_=str(report.verdict or "soft")),
        " ",
        rest.strip(),
    )
    yield element(
        "p",
        f"{report.task_type} of {report.scope}, {report.intensity}; council "
        f"{report.review_id}, {report.timestamp}",
        class_="soft",
    )
    for line in lines_of(report):
        yield element("p", line, class_="CONCERNS")
    yield from (element("p", line) for line in sentences.superseding(report))
    compared = sentences.comparison_line(report)
    if compared:
        yield element("p", f"Since the last run: {compared}.")
    analysed = sentences.beside(entries)
    for number, entry in enumerate(entries):
        there = analysed.get(entry.id, ())
        yield _finding(
            entry, there, is_open=number < OPEN_FINDINGS, compared=bool(compared)
        )
    picture = draw_debate(report, seats)
    if picture is not None:
        yield element("h2", "The debate")
        yield picture
        yield element(
            "p",
            "From left to right: what each seat raised, what was left of it after its "
            "debate, and where it joined. "
            "Dashed and bent: challenged; green held, blue was revised, amber stayed "
            "in dispute, red was withdrawn.",
            class_="soft",
        )
    for title, apart in sentences.set_apart(report).items():
        yield element("h2", title)
        yield from (
            _finding(entry, (), is_open=False, compared=False, told=told)
            for told, entry in apart
        )
    yield from _seats(report)
    yield from _list("Points of view", sentences.domain_lines(report))
    yield from _list(
        "Notes",
        [*report.synthesis_notes, *sentences.notes(report.warnings, codes=True)],
    )


def _finding(
    entry: FindingEntry,
    analysed: Sequence[FindingEntry],
    *,
    is_open: bool,
    compared: bool,
    told: str = "",
) -> Markup:
    severity = str(entry.severity or entry.type)
    parts: list[Markup] = [
        element(
            "summary",
            element("span", severity, class_=f"label {severity}"),
            entry.title,
            element("span", sentences.place_of(entry), class_="place mono"),
        ),
        element(
            "p",
            f"{sentences.standing(entry, compared=compared)}; "
            f"{sentences.likelihood(entry)}; {entry.id}",
            class_="soft",
        ),
    ]
    parts += [
        element(
            "p",
            f"static analysis there: {one.title} ({one.severity}, {one.id})",
            class_="soft",
        )
        for one in analysed
    ]
    description, evidence = sentences.said(entry)
    parts += [element("p", words) for words in (told, description) if words]
    if evidence:
        parts.append(element("pre", evidence))
    if entry.remediation:
        parts.append(element("p", element("strong", "Action: "), entry.remediation))
    if entry.cls is FindingClass.DISPUTED:
        positions = [
            f"{one.bridge} ({one.severity}): {one.position}" for one in entry.positions
        ]
        parts.append(
            element("ul", *(element("li", position) for position in positions))
        )
    code = [
        joined(element("p", place, class_="soft mono"), element("pre", text))
        for place, text in sentences.cited_code(entry)
    ]
    argued = [
        joined(element("dt", what), element("dd", text))
        for what, text in sentences.argument(entry)
    ]
    if code or argued:
        both = [element("div", *code), *([element("dl", *argued)] if argued else [])]
        parts.append(element("div", *both, class_="argued"))
    alike = (
        entry.resembles_dismissed
        and f"resembles a dismissed finding: {entry.resembles_dismissed}"
    )
    parts += [
        element("p", note, class_="soft")
        for note in (entry.dismissal_note, alike)
        if note
    ]
    return element("details", *parts, id=entry.id, open="" if is_open else None)


def _list(title: str, entries: Sequence[str]) -> Iterator[Markup]:
    if entries:
        yield element("h2", title)
        yield element("ul", *(element("li", entry) for entry in entries))


def _seats(report: CouncilReport) -> Iterator[Markup]:
    names = (
        "seat",
        "status",
        "over",
        "models",
        "findings",
        "rounds",
        "calls",
        "tokens in",
        "out",
        "cost",
    )
    yield element(
        "h2", f"Seats: {plural(len(report.bridges_available), 'seat')} completed"
    )
    yield element(
        "table",
        element("tr", *(element("th", name) for name in names)),
        *(element("tr", *_seat_cells(one)) for one in report.participants),
    )


def _seat_cells(one: Participant) -> Iterator[Markup]:
    why = sentences.reason_in_words(sentences.one_line(one.reason or ""))
    status = (
        "completed"
        if one.status == Status.COMPLETED
        else f"{one.status.lower()}: {why}"
    )
    for words in (one.bridge, status, one.connection or UNKNOWN):
        yield element("td", words)
    yield element(
        "td", ", ".join(one.models) or _claimed(one) or UNKNOWN, class_="long"
    )
    usage = one.usage
    numbers = (
        one.outputs,
        one.debate_rounds,
        usage.calls or None,
        usage.tokens_in,
        usage.tokens_out,
    )
    for number in numbers:
        yield element(
            "td", UNKNOWN if number is None else f"{number:,}", class_="number"
        )
    cost = UNKNOWN if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    yield element("td", cost, class_="number")


def _claimed(one: Participant) -> str:
    """What a rig says about its models; nobody has checked it."""
    claim = one.remote or {}
    named = [
        str(claim.get("model_family") or ""),
        *map(str, claim.get("models_used") or ()),
    ]
    said = ", ".join(filter(None, named))
    return f"says: {said}" if said else ""


def _aborted(report: AbortedReport) -> Iterator[Markup]:
    yield element(
        "h1", element("span", "ABORTED", class_="FAIL"), " ", report.abort_reason
    )
    reasons = [f"{seat}: {reason}" for seat, reason in report.skip_reasons.items()]
    yield joined(*_list("Seats", reasons))


@cache
def _style() -> str:
    return (
        resources.files("bridgehead.council.reporting.render")
        .joinpath("page.css")
        .read_text(encoding="utf-8")
    )
