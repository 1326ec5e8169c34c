"""What a running bridge says about itself: participants, rates, outcomes, links, heads
of recent messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from bridgehead.bus.bridge.counters import OutcomeCounters
from bridgehead.bus.hub.health import HealthEvent, believed
from bridgehead.bus.interfaces import Announcer
from bridgehead.bus.participants.participants import Participant
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.wire.message import Message, destinations, encode
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import HEALTH
from bridgehead.host.clock import Clock, iso_ms
from bridgehead.host.terminal import escape_controls

MAX_LISTED = 500
"""Participants listed at most; the connected ones come first."""
RATE_SECONDS: Final = 120
MAX_HEADS: Final = 300
MAX_CONTENT_BYTES: Final = 64 * 1024
"""A larger message is shown by its head only, so that watching never fills memory."""
WATCHED_S: Final = 20.0
"""How long after the last look messages are still noted."""


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
    """Health of one link, as it was last announced (B-73).

    `unknown` after too long a silence (B-74).
    """

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
    """Why the files as they are now could not be taken over.

    The records in force are older.
    """
    tail: tuple[MessageHead, ...]
    """Heads since the number that was asked for, oldest first.

    Kept only while somebody looks.
    """


def participants_listed(
    known: Iterable[Participant],
    enrolled: Iterable[ParticipantRecord],
    counters: OutcomeCounters,
) -> tuple[ParticipantStatus, ...]:
    """Return those who are known and those who are enrolled but away.

    The connected ones first, then by name.
    """
    present = {participant.id: participant for participant in known}
    away = (record for record in enrolled if record.id not in present)
    ordered = sorted(
        present.values(),
        key=lambda participant: (not participant.connected, participant.id),
    )
    listed = [_present(participant, counters) for participant in ordered[:MAX_LISTED]]
    listed += [absent(record) for record in sorted(away, key=lambda record: record.id)]
    return tuple(listed[:MAX_LISTED])


def _present(participant: Participant, counters: OutcomeCounters) -> ParticipantStatus:
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
        outcomes=dict(counters.of(participant.id)),
    )


def absent(record: ParticipantRecord) -> ParticipantStatus:
    """Return a participant that is enrolled and not there."""
    return ParticipantStatus(
        id=record.id,
        role=record.role,
        mode=record.mode,
        state="absent",
        site=record.site_determination,
    )


def outcomes_counted(counters: OutcomeCounters) -> tuple[OutcomeCount, ...]:
    return tuple(
        OutcomeCount(*kind, count) for kind, count in sorted(counters.outcomes.items())
    )


class LinkStates:
    """The links of one bridge."""

    def __init__(
        self,
        bridge_id: str,
        announcer: Announcer,
        clock: Clock,
        publish: Callable[[Message], object] | None,
    ) -> None:
        """`publish` puts changes on the hub, too; None where that is not wanted."""
        self._bridge_id = bridge_id
        self._announcer = announcer
        self._clock = clock
        self._publish = publish
        self._latest: dict[str, tuple[HealthEvent, str, float]] = {}

    @property
    def links(self) -> tuple[LinkStatus, ...]:
        """Return what each link last said.

        `unknown` when it has been silent for too long.
        """
        now = self._clock.monotonic()
        return tuple(
            LinkStatus(link, believed(event, now - said_at), event.reason, at)
            for link, (event, at, said_at) in self._latest.items()
        )

    def announcing(self, link: str) -> Callable[[HealthEvent], None]:
        """Return what a link is to call with its events."""

        def announce(event: HealthEvent) -> None:
            facts: dict[str, Any] = {
                "at": iso_ms(self._clock.now()),
                "bridge": self._bridge_id,
                "link": link,
                **msgspec.to_builtins(event),
            }
            self._latest[link] = (event, facts["at"], self._clock.monotonic())
            self._announcer.announce("bus.bridge.health", facts)
            if self._publish is not None and not event.refresh:
                self._publish(Message(HEALTH, facts, {"source": self._bridge_id}))

        return announce


class Rates:
    """Messages per second, from counters that only grow."""

    def __init__(self) -> None:
        self._samples: deque[Rate] = deque(maxlen=RATE_SECONDS)
        self._last = (0, 0)

    def sample(self, taken: int, offered: int) -> None:
        """Take the counters once a second."""
        before_taken, before_offered = self._last
        self._samples.append(Rate(taken - before_taken, offered - before_offered))
        self._last = (taken, offered)

    @property
    def recent(self) -> tuple[Rate, ...]:
        return tuple(self._samples)


class Tail:
    """The last messages on the hub, noted only while somebody looks."""

    def __init__(self) -> None:
        self._noted: deque[tuple[MessageHead, Message | None]] = deque(maxlen=MAX_HEADS)
        self._number = 0
        self._read_at: float | None = None

    @property
    def is_watched(self) -> bool:
        return self._read_at is not None

    def heads(self, after: int, now: float) -> tuple[MessageHead, ...]:
        """Heads with a number above `after`, oldest first.

        From now on messages are noted.
        """
        self._read_at = now
        return tuple(head for head, _message in self._noted if head.number > after)

    def note(self, message: Message, at: str) -> None:
        self._number += 1
        facts = message_facts(message, at, with_data=False)
        head = MessageHead(
            **{**facts, "destination": tuple(facts["destination"])}, number=self._number
        )
        self._noted.append((head, message if head.bytes <= MAX_CONTENT_BYTES else None))

    def content(self, number: int) -> MessageContent | None:
        """Return what a message carries.

        None when it is gone, or too large to be kept.
        """
        kept = (
            message
            for head, message in self._noted
            if head.number == number and message is not None
        )
        return next(
            (MessageContent(number, message.data, message.context) for message in kept),
            None,
        )

    def expire(self, now: float) -> None:
        """Forget everything once nobody has looked for a while."""
        if self._read_at is not None and now - self._read_at >= WATCHED_S:
            self._read_at = None
            self._noted.clear()


def message_facts(message: Message, at: str, *, with_data: bool) -> dict[str, Any]:
    """Return the facts of a message; its payload only `with_data`."""
    source = message.context.get("source")
    facts: dict[str, Any] = {
        "at": at,
        "topic": message.type,
        "source": source if isinstance(source, str) else None,
        "destination": list(destinations(message.context)),
        "session_id": context_session_id(message.context),
        "bytes": len(encode(message)),
    }
    return {**facts, "data": message.data} if with_data else facts


def message_line(facts: dict[str, Any]) -> str:
    """Return the facts for a terminal: `10:15:02  ovos.utterance.speak  core → kitchen
    default  182 B`.
    """
    to = ", ".join(facts["destination"]) or "everybody"
    shown = (
        f"{facts['at'][11:19]}  {facts['topic']}  {facts['source'] or '?'} → {to}  "
        f"{facts['session_id']}  {facts['bytes']} B"
    )
    return escape_controls(f"{shown}  {facts['data']}" if "data" in facts else shown)
