"""The debate as a picture: a lane per seat, a dot per finding, lines to what became of it. Drawn as plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import OutputState, Severity, Status
from bridgehead.council.joint import FindingClass
from bridgehead.council.render.markup import Markup, element
from bridgehead.council.render.telling import one_line
from bridgehead.council.report import CouncilReport, FindingEntry

MOST_DOTS: Final = 60
LANE_HEIGHT: Final = 64
LABEL_WIDTH: Final = 120
RAISED_X: Final = 170
DEBATED_X: Final = 420
COUNCIL_X: Final = 700
WIDTH: Final = 900
TOP: Final = 44

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


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float
    output: Output


def draw_debate(report: CouncilReport, seats: Sequence[BridgeReport]) -> Markup | None:
    """The picture, or None when there is nothing to draw or too much to be read."""
    lanes = [seat for seat in seats if seat.status is Status.COMPLETED]
    items = sum(len(seat.outputs) + len(seat.withdrawn_outputs) for seat in lanes)
    if not lanes or not 0 < items <= MOST_DOTS:
        return None
    dots = {(seat.bridge, dot.output.id): dot for row, seat in enumerate(lanes) for dot in _dots(row, seat)}
    nodes = _nodes(list(report.findings()), len(lanes))
    height = TOP + max(len(lanes) * LANE_HEIGHT, len(nodes) * 26) + 20
    return element(
        "svg",
        element("title", "Findings of each seat, what debate made of them, and where they joined"),
        *_headings(),
        *(_lane(row, seat) for row, seat in enumerate(lanes)),
        *_joins(report, dots, nodes),
        *(_drawn(dot) for dot in dots.values()),
        *(_node(entry, y) for entry, y in nodes),
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="debate",
    )


def _headings() -> Iterator[Markup]:
    for x, text in ((RAISED_X, "raised"), (DEBATED_X, "after debate"), (COUNCIL_X, "council")):
        yield element("text", text, x=x, y=24, class_="heading")


def _lane(row: int, seat: BridgeReport) -> Markup:
    y = TOP + row * LANE_HEIGHT
    return element(
        "g",
        element("rect", x=0, y=y, width=WIDTH, height=LANE_HEIGHT - 8, class_="lane"),
        element("text", one_line(seat.bridge), x=10, y=y + 32, class_="seat"),
    )


def _dots(row: int, seat: BridgeReport) -> Iterator[_Dot]:
    """Findings of a seat from left to right; those of later rounds further on."""
    everything = [*seat.outputs, *seat.withdrawn_outputs]
    step = min(14.0, (DEBATED_X - RAISED_X - 40) / max(len(everything), 1))
    y = TOP + row * LANE_HEIGHT + (LANE_HEIGHT - 8) / 2
    for place, output in enumerate(everything):
        later = output.origin_round if isinstance(output.origin_round, int) else 1
        yield _Dot(RAISED_X + place * step + (later - 1) * 4, y, output)


def _drawn(dot: _Dot) -> Markup:
    output = dot.output
    challenged = len(output.challenges) if isinstance(output.challenges, tuple) else 0
    told = f"{output.id} {output.severity or output.type}: {output.title}"
    if challenged:
        told += f" ({challenged} challenges, {output.status})"
    return element(
        "g",
        element("title", told),
        element("circle", cx=dot.x, cy=dot.y, r=5, class_=_SEVERITY_CLASS[output.severity]),
        *([_arc(dot)] if challenged else []),
    )


def _arc(dot: _Dot) -> Markup:
    """A challenge, coloured by how it ended."""
    reach = DEBATED_X + (dot.x - RAISED_X) / 3
    path = f"M {dot.x} {dot.y - 5} C {dot.x} {dot.y - 24}, {reach} {dot.y - 24}, {reach} {dot.y}"
    return element("path", d=path, class_=f"challenge {_OUTCOME_CLASS[dot.output.status]}")


def _nodes(entries: Sequence[FindingEntry], lanes: int) -> list[tuple[FindingEntry, float]]:
    room = max(lanes * LANE_HEIGHT, len(entries) * 26)
    step = room / max(len(entries), 1)
    return [(entry, TOP + step * place + step / 2) for place, entry in enumerate(entries)]


def _joins(
    report: CouncilReport, dots: Mapping[tuple[str, str], _Dot], nodes: Sequence[tuple[FindingEntry, float]]
) -> Iterator[Markup]:
    for entry, y in nodes:
        for source in entry.source_findings:
            dot = dots.get((source.bridge, source.finding_id))
            if dot is not None:
                path = f"M {dot.x + 5} {dot.y} C {DEBATED_X + 120} {dot.y}, {COUNCIL_X - 120} {y}, {COUNCIL_X - 8} {y}"
                yield element("path", d=path, class_=f"join {_SEVERITY_CLASS[entry.severity]}")


def _node(entry: FindingEntry, y: float) -> Markup:
    shape = "disputed" if entry.cls is FindingClass.DISPUTED else ""
    label = f"{entry.id} {entry.severity or ''}".strip()
    return element(
        "g",
        element("title", entry.title),
        element(
            "circle", cx=COUNCIL_X, cy=y, r=7, class_=f"{_SEVERITY_CLASS[entry.severity]} {shape}".strip()
        ),
        element("text", label, x=COUNCIL_X + 14, y=y + 4, class_="node"),
    )
