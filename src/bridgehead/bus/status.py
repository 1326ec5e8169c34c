"""What a running bridge says about itself: participants, rates, outcomes, health, heads of messages. Pure data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from bridgehead.bus.ledger import Ledger
from bridgehead.bus.participants import Participant
from bridgehead.bus.record import ParticipantRecord

MAX_LISTED = 500
"""Participants listed at most; the connected ones come first."""


class ParticipantStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One participant as it stands."""

    id: str
    role: str
    mode: str
    state: Literal["connected", "grace", "absent"]
    source: str | None = None
    site: str | None = None
    held: int = 0
    queued: int = 0
    skills: tuple[str, ...] = ()
    outcomes: dict[str, int] = {}
    """`out delivered`, `in refused:malformed`, … since it became known."""


class OutcomeCount(msgspec.Struct, frozen=True):
    """How many messages ended in one way (B-70)."""

    direction: str
    outcome: str
    reason: str
    count: int


class LinkStatus(msgspec.Struct, frozen=True):
    """Health of one link, as it was last announced (B-73); `unknown` after too long a silence (B-74)."""

    link: str
    state: str
    reason: str | None
    at: str


class Rate(msgspec.Struct, frozen=True):
    """Messages within one second: taken from participants, offered to them."""

    taken: int
    offered: int


class MessageHead(msgspec.Struct, frozen=True, kw_only=True):
    """A message on the hub without what it carries."""

    number: int
    at: str
    topic: str
    source: str | None
    destination: tuple[str, ...]
    session_id: str
    bytes: int


class MessageContent(msgspec.Struct, frozen=True):
    """What one message carries, for somebody who asked to see it."""

    number: int
    data: dict[str, Any]
    context: dict[str, Any]


class BusStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One bridge at one moment."""

    bridge: str
    since: str
    at: str
    hub: str
    gateway: str
    known: int
    """Participants known to the bridge, listed or not."""
    participants: tuple[ParticipantStatus, ...]
    rates: tuple[Rate, ...]
    """The last seconds, oldest first."""
    outcomes: tuple[OutcomeCount, ...]
    hub_ignored: dict[str, int]
    links: tuple[LinkStatus, ...]
    problem: str | None = None
    """Why the files as they are now could not be taken over; the records in force are older."""
    tail: tuple[MessageHead, ...]
    """Heads since the number that was asked for, oldest first; kept only while somebody looks."""


def participants_listed(
    known: Iterable[Participant], enrolled: Iterable[ParticipantRecord], ledger: Ledger
) -> tuple[ParticipantStatus, ...]:
    """Those who are known and those who are enrolled but away; the connected ones first, then by name."""
    present = {participant.id: participant for participant in known}
    away = (record for record in enrolled if record.id not in present)
    standing = sorted(present.values(), key=lambda participant: (not participant.connected, participant.id))
    listed = [_standing(participant, ledger) for participant in standing[:MAX_LISTED]]
    listed += [absent(record) for record in sorted(away, key=lambda record: record.id)]
    return tuple(listed[:MAX_LISTED])


def absent(record: ParticipantRecord) -> ParticipantStatus:
    """A participant that is enrolled and not there."""
    return ParticipantStatus(
        id=record.id, role=record.role, mode=record.mode, state="absent", site=record.site_determination
    )


def outcomes_counted(ledger: Ledger) -> tuple[OutcomeCount, ...]:
    return tuple(OutcomeCount(*kind, count) for kind, count in sorted(ledger.outcomes.items()))


def _standing(participant: Participant, ledger: Ledger) -> ParticipantStatus:
    return ParticipantStatus(
        id=participant.id,
        role=participant.record.role,
        mode=participant.record.mode,
        state="connected" if participant.connected else "grace",
        source=participant.source,
        site=participant.site or participant.record.site_determination,
        held=len(participant.held),
        queued=len(participant.queued),
        skills=tuple(sorted({skill for _session, skill in participant.skills})),
        outcomes=dict(ledger.of(participant.id)),
    )
