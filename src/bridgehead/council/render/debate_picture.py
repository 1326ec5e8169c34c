"""The debate as a picture: a lane per seat, a dot per finding, lines to what became of it. Drawn as plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import OutputState, Severity, Status
from bridgehead.council.render.markup import Markup, element
from bridgehead.council.render.telling import one_line
from bridgehead.council.report import CouncilReport, FindingClass, FindingEntry

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


@dataclass(frozen=True, slots=True)
class _Item:
    """One output of a seat: where it was raised, and where it stood after the debate."""

    output: Output
    raised: float
    debated: float
    y: float

    @property
    def challenges(self) -> int:
        return len(self.output.challenges) if isinstance(self.output.challenges, tuple) else 0

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
        (seat.bridge, item.output.id): item for row, seat in enumerate(lanes) for item in _items(row, seat)
    }
    nodes = _nodes(list(report.findings()), len(lanes))
    height = TOP + max(len(lanes) * LANE_HEIGHT, len(nodes) * NODE_HEIGHT) + 20
    picture = element(
        "svg",
        element("title", "Findings of each seat, what debate made of them, and where they joined"),
        *_headings(),
        *(_lane(row, seat) for row, seat in enumerate(lanes)),
        *_joins(items, nodes),
        *(_drawn(item) for item in items.values()),
        *(_node(entry, y) for entry, y in nodes),
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="debate",
    )
    return element("div", picture, class_="wide")


def _headings() -> Iterator[Markup]:
    for x, text in ((RAISED_X, "raised"), (DEBATED_X, "after debate"), (COUNCIL_X, "council")):
        yield element("text", text, x=x - 5, y=24, class_="heading")


def _lane(row: int, seat: BridgeReport) -> Markup:
    y = TOP + row * LANE_HEIGHT
    return element(
        "g",
        element("rect", x=0, y=y, width=DEBATED_X + COLUMN + 20, height=LANE_HEIGHT - 8, class_="lane"),
        element("text", one_line(seat.bridge), x=10, y=y + 32, class_="seat"),
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
        told += f" ({item.challenges} challenges, {output.status})"
    severity = _SEVERITY_CLASS[output.severity]
    outcome = "gone" if item.is_gone else severity
    if output.status is OutputState.DISPUTED:
        outcome += " disputed"
    return element(
        "g",
        element("title", told),
        element("path", d=_way(item), class_=_way_class(item)),
        element("circle", cx=item.raised, cy=item.y, r=5, class_=severity),
        element("circle", cx=item.debated, cy=item.y, r=5, class_=outcome),
    )


def _way(item: _Item) -> str:
    """From where it was raised to where it stood after the debate; a challenge bends it."""
    if not item.challenges:
        return f"M {item.raised} {item.y} L {item.debated} {item.y}"
    top = item.y - min(14 + 4 * item.challenges, 26)
    return f"M {item.raised} {item.y} C {item.raised + 30} {top}, {item.debated - 30} {top}, {item.debated} {item.y}"


def _way_class(item: _Item) -> str:
    return f"challenge {_OUTCOME_CLASS[item.output.status]}" if item.challenges else "quiet"


def _nodes(entries: Sequence[FindingEntry], lanes: int) -> list[tuple[FindingEntry, float]]:
    room = max(lanes * LANE_HEIGHT, len(entries) * NODE_HEIGHT)
    step = room / max(len(entries), 1)
    return [(entry, TOP + step * place + step / 2) for place, entry in enumerate(entries)]


def _joins(
    items: Mapping[tuple[str, str], _Item], nodes: Sequence[tuple[FindingEntry, float]]
) -> Iterator[Markup]:
    for entry, y in nodes:
        for source in entry.source_findings:
            item = items.get((source.bridge, source.finding_id))
            if item is not None:
                middle = (DEBATED_X + COLUMN + COUNCIL_X) / 2
                path = f"M {item.debated + 5} {item.y} C {middle} {item.y}, {middle} {y}, {COUNCIL_X - 8} {y}"
                yield element("path", d=path, class_=f"join {_SEVERITY_CLASS[entry.severity]}")


def _node(entry: FindingEntry, y: float) -> Markup:
    shape = "disputed" if entry.cls is FindingClass.DISPUTED else ""
    label = one_line(f"{entry.id} {entry.title}")
    label = label if len(label) <= MOST_LABEL else label[: MOST_LABEL - 1] + "…"
    return element(
        "g",
        element("title", f"{entry.severity or entry.type}: {entry.title}"),
        element(
            "circle", cx=COUNCIL_X, cy=y, r=7, class_=f"{_SEVERITY_CLASS[entry.severity]} {shape}".strip()
        ),
        element("text", label, x=COUNCIL_X + 14, y=y + 4, class_="node"),
    )
