"""A council as it goes, rebuilt from its events: seats with rounds, what was raised,
who challenged whom, how it ended.

Pure: the same events give the same picture, whether the council runs, waits or is long
over. Events this version does not know are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from bridgehead.contract.events import Event
from bridgehead.council.calls import sum_known

COUNCIL: Final = "council"
ABOUT_A_SEAT: Final = ("bridge_converted", "seat_pending")
"""Lines of the council's own log that name a seat."""


class LiveOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Something a seat raised, in its present state."""

    id: str
    title: str
    severity: str | None
    domain: str
    agent: str
    round: int
    state: str | None = None
    """`confirmed revised withdrawn disputed discovered`, `merged`, or None while nobody
    has challenged it.
    """


class LiveChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """One doubt: `by` and `to` name agents, and `code` is the check of the evidence."""

    id: str
    finding_id: str
    by: str
    to: str
    round: int
    text: str
    outcome: str = "open"
    """`open defend revise withdraw no_response`, then the ruling:
    `withdraw maintain escalate`.
    """


class LiveRound(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a round: `agents` were asked, `heard` of them have come back."""

    number: int
    step: str
    agents: tuple[str, ...]
    heard: int = 0


class LiveSeat(msgspec.Struct, frozen=True, kw_only=True):
    bridge: str
    state: str = "waiting"
    """`waiting` until its first line, then `running`, `pending` (a rig that was asked),
    `done skipped halted`.
    """
    reason: str | None = None
    connection: str | None = None
    rounds: tuple[LiveRound, ...] = ()
    outputs: tuple[LiveOutput, ...] = ()
    challenges: tuple[LiveChallenge, ...] = ()
    verdict: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    calls: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    last_at: str | None = None

    @property
    def found(self) -> int:
        """How many of its outputs stand."""
        return sum(one.state not in ("merged", "withdrawn") for one in self.outputs)

    @property
    def round(self) -> LiveRound | None:
        """Where it is now."""
        return self.rounds[-1] if self.rounds else None


class JoinedFinding(msgspec.Struct, frozen=True, kw_only=True, rename={"cls": "class"}):
    """A finding of the council and the outputs it was made from, as (seat, id)."""

    id: str
    cls: str
    title: str
    severity: str | None
    sources: tuple[tuple[str, str], ...] = ()


class LiveNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the second look said about a finding of the council."""

    finding_id: str
    challenge: str
    outcome: str


class LiveCouncil(msgspec.Struct, frozen=True, kw_only=True):
    seats: tuple[LiveSeat, ...]
    second_look: LiveSeat | None = None
    """The debate over the joined findings (Stage B); its outputs and challenges are
    `joined` and `notes`.
    """
    joined: tuple[JoinedFinding, ...] = ()
    notes: tuple[LiveNote, ...] = ()

    @property
    def calls(self) -> int:
        return sum(seat.calls for seat in self._everybody)

    @property
    def tokens(self) -> int | None:
        counts: list[int | None] = []
        for seat in self._everybody:
            counts += [seat.tokens_in, seat.tokens_out]
        return sum_known(counts)

    @property
    def cost_usd(self) -> float | None:
        return sum_known([seat.cost_usd for seat in self._everybody])

    @property
    def _everybody(self) -> list[LiveSeat]:
        return [*self.seats, *([self.second_look] if self.second_look else [])]


def rebuild(bridges: Iterable[str], events: Iterable[Event]) -> LiveCouncil:
    """Return the picture after `events`, in the order in which they were recorded."""
    picture = LiveCouncil(seats=tuple(LiveSeat(bridge=seat) for seat in bridges))
    for event in events:
        if event.kind == "council.event":
            picture = picture_after(picture, str(event.data.get("bridge")), event.data)
    return picture


def picture_after(
    picture: LiveCouncil, bridge: str, line: Mapping[str, Any]
) -> LiveCouncil:
    """Return the picture after one more line of a seat's log, or of the council's own."""
    if bridge == COUNCIL or line.get("event") in ABOUT_A_SEAT:
        return _after_council_line(picture, line)
    return _with_seat(picture, bridge, line)


def _with_seat(
    picture: LiveCouncil, bridge: str, line: Mapping[str, Any]
) -> LiveCouncil:
    seats = {seat.bridge: seat for seat in picture.seats}
    seats[bridge] = seat_after(seats.get(bridge) or LiveSeat(bridge=bridge), line)
    return replace(picture, seats=tuple(seats.values()))


def _after_council_line(picture: LiveCouncil, line: Mapping[str, Any]) -> LiveCouncil:
    match line.get("event"):
        case "seat_pending":
            return _with_seat(picture, str(line["bridge"]), line)
        case "joined":
            sources = tuple(
                (str(one["bridge"]), str(one["finding_id"]))
                for one in line.get("sources") or ()
            )
            found = JoinedFinding(
                id=str(line["id"]),
                cls=str(line["class"]),
                title=str(line["title"]),
                severity=line.get("severity"),
                sources=sources,
            )
            return replace(picture, joined=(*picture.joined, found))
        case "challenge_note":
            note = LiveNote(
                finding_id=str(line["finding_id"]),
                challenge=str(line["challenge"]),
                outcome=str(line["outcome"]),
            )
            return replace(picture, notes=(*picture.notes, note))
        case "stage_a":
            # Everything is joined anew when a late answer is folded in.
            return replace(picture, joined=(), notes=())
        case "stage_b_start":
            seat = LiveSeat(
                bridge=str(line.get("coordinator")),
                state="running",
                started_at=line.get("ts"),
            )
            return replace(picture, second_look=seat)
        case "stage_b" if picture.second_look is not None:
            done = replace(picture.second_look, state="done", ended_at=line.get("ts"))
            return replace(picture, second_look=done)
        case "asked" | "agent_reply" | "agent_failed" if (
            picture.second_look is not None
        ):
            return replace(picture, second_look=seat_after(picture.second_look, line))
        case _:
            return picture


def seat_after(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    """Return the seat after one line of its log."""
    change = _CHANGES.get(str(line.get("event")))
    changed = change(seat, line) if change else seat
    return replace(changed, last_at=line.get("ts"))


def _started(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    # A seat that is taken again begins anew.
    return LiveSeat(bridge=seat.bridge, state="running", started_at=line.get("ts"))


def _asked(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    asked = LiveRound(
        number=line["round"], step=line["step"], agents=tuple(line.get("agents") or ())
    )
    return replace(seat, rounds=(*seat.rounds, asked))


def _came_back(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    rounds = seat.rounds
    if rounds:
        rounds = (*rounds[:-1], replace(rounds[-1], heard=rounds[-1].heard + 1))
    return replace(
        seat,
        rounds=rounds,
        calls=seat.calls + 1,
        tokens_in=sum_known([seat.tokens_in, line.get("tokens_in")]),
        tokens_out=sum_known([seat.tokens_out, line.get("tokens_out")]),
        cost_usd=sum_known([seat.cost_usd, line.get("cost_usd")]),
    )


def _raised(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    output = LiveOutput(
        id=line["id"],
        title=line.get("title") or "",
        severity=line.get("severity"),
        domain=line.get("domain") or "",
        agent=line.get("agent") or line.get("domain") or "",
        round=line.get("round") or 1,
    )
    return replace(seat, outputs=(*seat.outputs, output))


def _challenged(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    challenge = LiveChallenge(
        id=line["challenge_id"],
        finding_id=line["target_finding_id"],
        by=line.get("by") or "challenger",
        to=line.get("to") or "",
        round=line.get("round") or 1,
        text=line.get("text") or "",
    )
    return replace(seat, challenges=(*seat.challenges, challenge))


def _answered(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    outcome = str(line.get("ruling") or line.get("stance"))
    challenges = tuple(
        replace(one, outcome=outcome) if one.id == line.get("challenge_id") else one
        for one in seat.challenges
    )
    return replace(seat, challenges=challenges)


def _merged(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    discarded = line.get("discarded")
    gone = (
        {discarded}
        if isinstance(discarded, str)
        else set(discarded or ()) - {line.get("kept")}
    )
    return _in_state(seat, gone, "merged")


def _in_state(seat: LiveSeat, ids: Container[object], state: str | None) -> LiveSeat:
    outputs = tuple(
        replace(one, state=state) if one.id in ids else one for one in seat.outputs
    )
    return replace(seat, outputs=outputs)


def _ended(seat: LiveSeat, line: Mapping[str, Any]) -> LiveSeat:
    status = str(line.get("status")).lower()
    return replace(
        seat,
        state="done" if status == "completed" else status,
        verdict=line.get("verdict"),
        reason=line.get("reason"),
        ended_at=line.get("ts"),
    )


_CHANGES: Final[Mapping[str, Callable[[LiveSeat, Mapping[str, Any]], LiveSeat]]] = {
    "bridge_start": _started,
    "dispatch": lambda seat, line: replace(seat, connection=line.get("connection")),
    "asked": _asked,
    "agent_reply": _came_back,
    "agent_failed": _came_back,
    "output": _raised,
    "challenge": _challenged,
    "response": _answered,
    "ruling": _answered,
    "merge": _merged,
    "state": lambda seat, line: _in_state(seat, (line.get("id"),), line.get("to")),
    "seat_pending": lambda seat, line: LiveSeat(
        bridge=seat.bridge, state="pending", started_at=line.get("since")
    ),
    "bridge_complete": _ended,
}
