"""The cells of the table that shows a running council: what each seat is doing, in a few words. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.assembly.council_live import LiveCouncil, LiveRound, LiveSeat
from bridgehead.council.render.reasons import can_be_tried_again, reason_in_words
from bridgehead.host.clock import parse_iso
from bridgehead.host.terminal import display_width, escape_controls, truncate

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


def table_title(verb: str, facts: Mapping[str, Any]) -> str:
    """`council k3v9qa  review of src/ (34 files, 4,120 lines)   standard   security, testing`."""
    size = f" ({_counted(facts['files'], 'file')}, {_counted(facts.get('loc') or 0, 'line')})"
    about = f"{verb} of {facts.get('scope')}" + (size if facts.get("files") else "")
    domains = ", ".join(facts.get("domains") or ())
    return f"council {facts.get('review_id')}  {about}   {facts.get('intensity')}   {domains}"


def table_lines(
    verb: str, facts: Mapping[str, Any], picture: LiveCouncil, now: dt.datetime, width: int
) -> list[str]:
    """The whole table, one line per seat and none wider than the terminal; what matters less is cut off first."""
    review_id = str(facts.get("review_id") or "")
    rows = [_cells(seat.bridge, seat, now, review_id) for seat in picture.seats]
    if picture.second_look is not None:
        rows.append(_cells(TOGETHER, picture.second_look, now, review_id))
    widths = [
        max([least, *map(display_width, column)])
        for least, column in zip(LEAST, zip(*rows, strict=True), strict=True)
    ]
    lines = [table_title(verb, facts)]
    lines += [
        "  " + GAP.join(_padded(cell, room) for cell, room in zip(row, widths, strict=True)) for row in rows
    ]
    hint = max(map(display_width, lines)) - len(STOP_HINT)
    lines.append(" " * max(0, min(hint, width - len(STOP_HINT) - 1)) + STOP_HINT)
    return [truncate(escape_controls(line, keep="").rstrip(), width - 1) for line in lines]


def _padded(cell: str, columns: int) -> str:
    return cell + " " * (columns - display_width(cell))


def _cells(label: str, seat: LiveSeat, now: dt.datetime, review_id: str) -> tuple[str, ...]:
    """Name, dots, what it is doing, how far, since when, and what it spent or how to get it back."""
    doing, detail = _doing(seat)
    return label, _dots(seat), doing, detail, _elapsed(seat, now), _last_cell(seat, review_id)


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
        return "needs you" if seat.state == "halted" else "skipped", reason_in_words(seat.reason or "")
    if seat.state == "done":
        looked_again = seat.round is not None and seat.round.step == STAGE_B
        return "done", "" if looked_again else _counted(seat.found, "finding")
    if seat.state == "pending":
        return "asked", "waits for its answer"
    step = seat.round
    if step is None:
        return "looking", ""
    return f"round {step.number}", _step(step, seat)


def _step(step: LiveRound, seat: LiveSeat) -> str:
    said = _STEPS.get(step.step, step.step)
    challenges = _counted(sum(one.outcome == "open" for one in seat.challenges), "challenge")
    return said.format(heard=min(step.heard, len(step.agents)), asked=len(step.agents), challenges=challenges)


def _elapsed(seat: LiveSeat, now: dt.datetime) -> str:
    if seat.started_at is None or seat.state in _LEFT_OUT:
        return ""
    until = parse_iso(seat.ended_at) if seat.ended_at else now
    return f"{max(0, round((until - parse_iso(seat.started_at)).total_seconds()))} s"


def _last_cell(seat: LiveSeat, review_id: str) -> str:
    if seat.state in _LEFT_OUT:
        again = can_be_tried_again(seat.reason or "")
        return f"later: bridgehead council resume {review_id} --retry {seat.bridge}" if again else ""
    tokens = (seat.tokens_in or 0) + (seat.tokens_out or 0)
    cost = f"  ${seat.cost_usd:.2f}" if seat.cost_usd else ""
    return (f"{tokens / 1000:.1f}k tokens" if tokens else "") + cost


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
