"""What a council shows: a table that updates in place on a terminal, NDJSON for
programs, warnings, and the dry run.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from bridgehead.assembly.council.live import (
    COUNCIL,
    LiveCouncil,
    LiveRound,
    LiveSeat,
    picture_after,
)
from bridgehead.cli.output import App
from bridgehead.contract.words import CouncilProtocol
from bridgehead.council.interfaces import Observer
from bridgehead.council.reporting.render.sentences import (
    can_be_tried_again,
    one_line,
    reason_in_words,
)
from bridgehead.council.running.dry_run import DryRun, PlannedSeat
from bridgehead.errors import plural
from bridgehead.host.clock import SystemClock, parse_iso
from bridgehead.host.terminal import display_width, escape_controls, pad, truncate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

MOST_DOTS: Final = 6
STAGE_B: Final = "stage_b"
TOGETHER: Final = "together"
STOP_HINT: Final = "Ctrl-C stops and keeps what is there"
GAP: Final = "  "
# Columns keep their width while what they say changes.
LEAST: Final = (8, MOST_DOTS, 9, 22, 5, 0)
_LEFT_OUT: Final = ("skipped", "halted", "aborted")
_STEPS: Final = {
    "analysis": "{heard} of {asked} agents",
    "challenge": "challenging, {heard} of {asked}",
    "response": "answering {challenges}",
    "ruling": "weighing the answers",
    "consolidation": "looking across domains",
    "position": "final positions, {heard} of {asked}",
    STAGE_B: "second look, {heard} of {asked}",
}
_PROTOCOL: Final = {
    CouncilProtocol.SHARED: "one call for all roles of a seat; --protocol full: one a role",
    CouncilProtocol.FULL: "one call a role; --protocol shared: one for all of a seat",
}
REFRESHES_PER_SECOND: Final = 4
ABOUT_SECRETS: Final = {
    "secret_left_out": "removed from the prompts because it looks like a secret",
    "secret_masked": "masked in what a seat said because it looks like a secret",
}
TOLD: Final = (
    "round",
    "step",
    "agent",
    "result",
    "severity",
    "title",
    "outcome",
    "status",
    "verdict",
    "reason",
)


class LiveDisplay(Observer):
    """The table of seats on stderr, in place.

    It comes with the first line and vanishes before the result.

    `earlier` gives the picture of a council that is taken up again.
    """

    def __init__(self, verb: str, earlier: Callable[[str], LiveCouncil]) -> None:
        self._verb = verb
        self._earlier = earlier
        self._facts: Mapping[str, Any] = {}
        self._picture = LiveCouncil(seats=())
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Make room for a question."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        event = line["event"]
        if bridge == COUNCIL and event in ("council_start", "council_resumed"):
            self._begin(line)
        self._picture = picture_after(self._picture, bridge, line)

    def _begin(self, line: Mapping[str, Any]) -> None:
        self._facts = line
        seats = tuple(LiveSeat(bridge=str(name)) for name in line.get("bridges") or ())
        self._picture = LiveCouncil(seats=seats)
        if line["event"] == "council_resumed":
            self._picture = self._earlier(str(line["review_id"]))
        self._show()

    def _show(self) -> None:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._table,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._live.start()

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def _hide(self) -> None:
        live = self._live
        self._live = None
        if live is not None:
            live.stop()

    def _table(self) -> Text:
        from rich.text import Text

        now = SystemClock().now()
        width = self._console.width
        head, *seats = table_lines(self._verb, self._facts, self._picture, now, width)
        table = Text(head, style="bold", no_wrap=True, overflow="crop")
        table.append("\n" + "\n".join(seats[:-1]), style="not bold")
        return table.append(f"\n{seats[-1]}", style="not bold dim")


class WatchLines(Observer):
    """Every event as one JSON line on stdout, flushed at once."""

    def __init__(self, app: App) -> None:
        self._app = app

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        self.write({"bridge": bridge, **line})

    def write(self, document: Mapping[str, Any]) -> None:
        """A reader who has gone away misses the rest.

        The council and its report are worth more than the reader.
        """
        try:
            self._app.stdout.write(
                json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
            )
            self._app.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._app.stdout.fileno())


class SpokenWarnings(Observer):
    """A line on stderr for a halted bridge that nobody could be asked about (council
    §3), and for what is kept back.

    With --verbose, one for everything that happens.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept_back: set[str] = set()

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        if self._app.verbose:
            told = [
                str(line["event"]).replace("_", " "),
                *(str(line[name]) for name in TOLD if line.get(name)),
            ]
            self._app.say(one_line(f"{bridge}: {', '.join(told)}"))
        if line["event"] == "bridge_converted":
            self._app.warn(
                f"{line.get('bridge')} needs attention ({line.get('halt_reason')}) "
                "and was skipped"
            )
        detail = str(line.get("detail", ""))
        event, _, kinds = detail.partition(":")
        if event in ABOUT_SECRETS and detail not in self._kept_back:
            self._kept_back.add(detail)
            self._app.warn(f"{ABOUT_SECRETS[event]}: {kinds}")


def table_title(verb: str, facts: Mapping[str, Any]) -> str:
    """Return `council k3v9qa  review of src/ (34 files, 4,120 lines)   standard
    security, testing`.
    """
    size = (
        f" ({plural(facts['files'], 'file')}, {plural(facts.get('loc') or 0, 'line')})"
    )
    about = f"{verb} of {facts.get('scope')}" + (size if facts.get("files") else "")
    domains = ", ".join(facts.get("domains") or ())
    return (
        f"council {facts.get('review_id')}  {about}   {facts.get('intensity')}   "
        f"{domains}"
    )


def table_lines(
    verb: str,
    facts: Mapping[str, Any],
    picture: LiveCouncil,
    now: dt.datetime,
    width: int,
) -> list[str]:
    """Return the whole table, one line per seat and none wider than the terminal.

    What matters less is cut off first.
    """
    review_id = str(facts.get("review_id") or "")
    rows = [_cells(seat.bridge, seat, now, review_id) for seat in picture.seats]
    if picture.second_look is not None:
        rows.append(_cells(TOGETHER, picture.second_look, now, review_id))
    widths = [
        max([least, *map(display_width, column)])
        for least, column in zip(LEAST, zip(*rows, strict=True), strict=True)
    ]
    lines = [table_title(verb, facts)]
    for row in rows:
        cells = [pad(cell, columns) for cell, columns in zip(row, widths, strict=True)]
        lines.append("  " + GAP.join(cells))
    widest = max(map(display_width, lines))
    # The hint ends where the widest line does, within the terminal.
    lines.append(STOP_HINT.rjust(min(widest, width - 1)))
    return [
        truncate(escape_controls(line, keep="").rstrip(), width - 1) for line in lines
    ]


def _cells(
    label: str, seat: LiveSeat, now: dt.datetime, review_id: str
) -> tuple[str, ...]:
    """Return the cells of a seat's line.

    Its name, dots, what it is doing, how far, since when, and what it spent or how to
    get it back.
    """
    doing, detail = _doing(seat)
    return (
        label,
        _dots(seat),
        doing,
        detail,
        _elapsed(seat, now),
        _last_cell(seat, review_id),
    )


def _dots(seat: LiveSeat) -> str:
    if seat.state in _LEFT_OUT:
        return "–"
    step = seat.round
    asked = min(len(step.agents), MOST_DOTS) if step else 1
    if seat.state == "done":
        return "●" * asked
    heard = min(step.heard, asked) if step else 0
    return "●" * heard + "○" * (asked - heard)


def _doing(seat: LiveSeat) -> tuple[str, str]:
    if seat.state in _LEFT_OUT:
        return "needs you" if seat.state == "halted" else "skipped", reason_in_words(
            seat.reason or ""
        )
    if seat.state == "done":
        looked_again = seat.round is not None and seat.round.step == STAGE_B
        return "done", "" if looked_again else plural(seat.found, "finding")
    if seat.state == "pending":
        return "asked", "waiting for its answer"
    step = seat.round
    if step is None:
        return "looking", ""
    return f"round {step.number}", _step(step, seat)


def _step(step: LiveRound, seat: LiveSeat) -> str:
    said = _STEPS.get(step.step, step.step)
    challenges = plural(
        sum(one.outcome == "open" for one in seat.challenges), "challenge"
    )
    return said.format(
        heard=min(step.heard, len(step.agents)),
        asked=len(step.agents),
        challenges=challenges,
    )


def _elapsed(seat: LiveSeat, now: dt.datetime) -> str:
    if seat.started_at is None or seat.state in _LEFT_OUT:
        return ""
    until = parse_iso(seat.ended_at) if seat.ended_at else now
    return f"{max(0, round((until - parse_iso(seat.started_at)).total_seconds()))} s"


def _last_cell(seat: LiveSeat, review_id: str) -> str:
    if seat.state in _LEFT_OUT:
        if not can_be_tried_again(seat.reason or ""):
            return ""
        return f"later: bridgehead council resume {review_id} --retry {seat.bridge}"
    tokens = (seat.tokens_in or 0) + (seat.tokens_out or 0)
    spent = f"{tokens / 1000:.1f}k tokens" if tokens else ""
    cost = f"  ${seat.cost_usd:.2f}" if seat.cost_usd else ""
    return spent + cost


def calls_document(planned: DryRun) -> dict[str, Any]:
    return {
        "seats": [
            {
                "bridge": seat.name,
                "connection": seat.connection,
                "models": list(seat.models),
                "first_calls": [
                    {"key": str(call.key), "characters": len(call.prompt)}
                    for call in seat.first_calls
                ],
                "most_calls": seat.most_calls,
            }
            for seat in planned.seats
        ],
        "domains": dict(planned.domains),
        "notes": list(planned.notes),
        "coordinator": planned.coordinator,
        "stage_b_calls": planned.stage_b_calls,
        "no_calls": dict(planned.no_calls),
        "last_refusals": dict(planned.refusals),
        "protocol": planned.protocol,
        "first_calls": planned.first_calls,
        "most_calls": planned.most_calls,
        "call_prices_usd": dict(planned.call_prices),
        "cost_usd": list(planned.cost_usd),
    }


def calls_text(planned: DryRun) -> str:
    """Return the calls of a council that were planned and not made."""
    lines = [
        f"domain {name}   {one_line(why)}" for name, why in planned.domains.items()
    ]
    lines += [f"note   {one_line(note)}" for note in planned.notes]
    for seat in planned.seats:
        lines += _seat_lines(seat, planned.refusals.get(seat.name))
    if planned.coordinator:
        lines.append(
            f"second look   {planned.coordinator}   at most "
            f"{plural(planned.stage_b_calls, 'call')}"
        )
    lines += [
        f"{bridge}   no model call: {reason_in_words(one_line(reason))}"
        for bridge, reason in planned.no_calls.items()
    ]
    if planned.seats:
        lines.append(f"protocol {planned.protocol}   {_PROTOCOL[planned.protocol]}")
    lines.append(
        f"at least {plural(planned.first_calls, 'call')}, at most "
        f"{planned.most_calls}; none was made"
    )
    least, most = planned.cost_usd
    unpriced = [
        seat.name for seat in planned.seats if seat.name not in planned.call_prices
    ]
    if most:
        lines.append(
            f"about ${least:.2f} to ${most:.2f} at what calls of earlier councils cost"
        )
    if unpriced:
        lines.append(
            f"no price is known yet for {', '.join(unpriced)}; --max-cost sets a limit"
        )
    return "\n".join(lines) + "\n"


def _seat_lines(seat: PlannedSeat, refusal: str | None) -> list[str]:
    """Return what one seat would be asked."""
    models = ", ".join(model or "default model" for model in seat.models)
    most = plural(seat.most_calls, "call")
    lines = [f"{seat.name}   {seat.connection}, {models}   at most {most}"]
    if refusal is not None:
        lines.append(f"  its last call was refused: {one_line(refusal)}")
    for call in seat.first_calls:
        lines.append(f"  {call.key}   {len(call.prompt):,} characters")
    return lines
