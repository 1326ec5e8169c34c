"""Who is known to a bridge: connection state, sources, sessions, skills, and what each
record permits. Pure.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

import msgspec

from bridgehead.bus.participants.limits import (
    Backlog,
    OpenQuestions,
    TokenBucket,
    ViolationCount,
)
from bridgehead.bus.participants.policy import Imposed, place_session
from bridgehead.bus.participants.record import Grant, ParticipantRecord
from bridgehead.bus.wire.message import encode_ordered, json_copy
from bridgehead.bus.wire.session import DENYLISTS, Session, hub_session_id
from bridgehead.bus.wire.topics import LIFECYCLE, SESSION_BOOTSTRAP, SPEAK, SYNC
from bridgehead.errors import BridgeheadError

_REMEMBERED_TOPICS: Final = 64
MAX_SESSION_BYTES: Final = 256 * 1024


class FreelyPublished(dict[str, bool]):
    """Whether nothing about a topic can keep a message out.

    Topics repeat, so some answers are remembered.
    """

    def __init__(self, record: ParticipantRecord) -> None:
        self._record = record

    def __missing__(self, topic: str) -> bool:
        if len(self) >= _REMEMBERED_TOPICS:
            self.clear()
        self[topic] = (
            self._record.names != "legacy"
            and self._record.may_publish(topic)
            and topic not in SESSION_BOOTSTRAP
            and topic.count(":") <= 1
        )
        return self[topic]


class Terms:
    """The answers a record gives to the questions every message asks."""

    def __init__(self, record: ParticipantRecord) -> None:
        self._record = record
        self.max_frame_bytes = record.max_frame_bytes
        self.max_depth = record.limits.max_depth
        self.is_managed = record.mode == "manage"
        self.speaks_legacy = record.names == "legacy"
        self.may_use_default_session = record.has(Grant.DEFAULT_SESSION)
        self.is_placed = record.site_determination is not None
        self.gates_sessions = not record.policy.is_empty or self.is_placed
        self.freely_delivered = frozenset(
            topic
            for topic in LIFECYCLE - {SYNC}
            if record.deliver.match(topic) and (record.tts or topic != SPEAK)
        )
        """Topics of which only an echo and the hop limit keep a message from the
        participant (B-16, B-71).
        """
        self.freely_published = FreelyPublished(record)

    def gate(self, session: Session) -> Session:
        """Return `session` where the bridge knows it to be, narrowed by policy.

        Its id stays as it is.
        """
        return self._record.policy.apply(
            place_session(session, self._record.site_determination)
        )


class Participant:
    """One known participant and everything that lives as long as it is known."""

    def __init__(
        self, record: ParticipantRecord, source: str, ordinal: int, now: float
    ) -> None:
        self.id = record.id
        self.record = record
        self.terms = Terms(record)
        self.source = source
        self.ordinal = ordinal
        self.connected = True
        self.stalled = False
        self.left_at = now
        self.sessions: dict[str, str] = {}
        """Hub session id to the participant's own; in order of last use."""
        self.latest_session: str | None = None
        """The hub session it used last."""
        self.hub_ids: dict[str, str] = {}
        """The same the other way round."""
        self.hops: dict[str, int] = {}
        """Bridges crossed by the last message of a session; only peers have any."""
        self.skills: dict[tuple[str, str], None] = {}
        self.site: str | None = None
        self.held = Backlog()
        self.queued = Backlog()
        self.bucket = TokenBucket(
            record.limits.messages_per_second, record.limits.burst, now
        )
        self.bytes_bucket = TokenBucket(
            record.bytes_per_second, record.burst_bytes, now
        )
        self.questions = OpenQuestions(record.limits.open_questions)
        self.violations = ViolationCount()
        self.denied_event_at: float | None = None
        self.imposed = Imposed()

    def apply(self, record: ParticipantRecord, now: float) -> None:
        """Take over a changed record; it counts from the next message on."""
        if record.limits != self.record.limits:
            self.bucket = TokenBucket(
                record.limits.messages_per_second, record.limits.burst, now
            )
            self.bytes_bucket = TokenBucket(
                record.bytes_per_second, record.burst_bytes, now
            )
            self.questions.allow(record.limits.open_questions)
        self.record = record
        self.terms = Terms(record)

    def hosts_skill_in(self, hub_session: str) -> bool:
        return any(session == hub_session for session, _skill in self.skills)


class RememberedState(msgspec.Struct, frozen=True):
    """What outlives a process: sources, hub ids and tracked skills by participant (bus
    §13).
    """

    sources: dict[str, str] = {}
    hub_ids: dict[str, dict[str, str]] = {}
    """Participant to {hub id: local id}, oldest first."""
    skills: dict[str, tuple[tuple[str, str], ...]] = {}
    """Participant to (hub id, skill id) pairs."""


class Register:
    """All known participants, and the indexes routing asks."""

    def __init__(self) -> None:
        self._by_id: dict[str, Participant] = {}
        self._by_source: dict[str, Participant] = {}
        self.get: Final = self._by_id.get
        """The participant of an id, None if it is not known."""
        self.by_source: Final = self._by_source.get
        """Who has this source, None if nobody has."""
        self._by_session: dict[str, dict[str, Participant]] = {}
        self._matches: dict[str, tuple[tuple[Participant, str], ...]] = {}
        self._by_site: dict[str, dict[str, Participant]] = {}
        self._hosts: dict[str, Participant] = {}
        self.skill_hosts: Final = self._hosts.values
        self._leaving: list[tuple[float, int, str]] = []
        self.due_at = math.inf
        """When `expired` can find somebody at the earliest."""
        self._ordinal = 0
        self.changes = 0
        """Grows whenever sources or sites do not stay the same."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Participant]:
        return iter(self._by_id.values())

    def by_session(self, hub_session: str) -> tuple[tuple[Participant, str], ...]:
        """Return those who use this session in the order they came, each with
        `session_id`, the signal that leads to them.
        """
        matches = self._matches.get(hub_session)
        if (
            matches is None
            and (members := self._by_session.get(hub_session)) is not None
        ):
            ordered = sorted(members.values(), key=attrgetter("ordinal"))
            matches = self._matches[hub_session] = tuple(
                (member, "session_id") for member in ordered
            )
        return matches or ()

    def by_site(self, site: str) -> Iterable[Participant]:
        return self._by_site.get(site, {}).values()

    def sources(self) -> frozenset[str]:
        return frozenset(self._by_source)

    def sites(self) -> frozenset[str]:
        return frozenset(self._by_site)

    def add(self, record: ParticipantRecord, source: str, now: float) -> Participant:
        self._ordinal += 1
        self.changes += 1
        participant = Participant(record, source, self._ordinal, now)
        self._by_id[record.id] = participant
        self._by_source[source] = participant
        return participant

    def remove(self, participant: Participant) -> None:
        self.changes += 1
        del self._by_id[participant.id]
        del self._by_source[participant.source]
        for hub_session in list(participant.sessions):
            self.disown(participant, hub_session)
        self.place(participant, None)
        self._hosts.pop(participant.id, None)

    def own(self, participant: Participant, hub_session: str, local_id: str) -> None:
        """Note that the participant used this session.

        Routing finds it from now on (B-14).
        """
        # Taken out and put back, so that the order stays that of last use.
        participant.sessions.pop(hub_session, None)
        participant.sessions[hub_session] = local_id
        participant.latest_session = hub_session
        self._by_session.setdefault(hub_session, {})[participant.id] = participant
        self._matches.pop(hub_session, None)

    def disown(self, participant: Participant, hub_session: str) -> None:
        participant.hops.pop(hub_session, None)
        local_id = participant.sessions.pop(hub_session, None)
        if local_id is not None:
            participant.hub_ids.pop(local_id, None)
        participant.latest_session = next(reversed(participant.sessions), None)
        _discard(self._by_session, hub_session, participant.id)
        self._matches.pop(hub_session, None)

    def place(self, participant: Participant, site: str | None) -> None:
        """Put the participant into the group of its last message (B-15)."""
        if site == participant.site:
            return
        self.changes += 1
        if participant.site is not None:
            _discard(self._by_site, participant.site, participant.id)
        participant.site = site
        if site is not None:
            self._by_site.setdefault(site, {})[participant.id] = participant

    def track(self, participant: Participant, hub_session: str, skill_id: str) -> bool:
        """Note a registered skill; False when it was known already."""
        if (hub_session, skill_id) in participant.skills:
            return False
        participant.skills[hub_session, skill_id] = None
        self._hosts[participant.id] = participant
        return True

    def untrack(
        self, participant: Participant, hub_session: str, skill_id: str
    ) -> bool:
        """Forget a skill; False when it was not known."""
        if (hub_session, skill_id) not in participant.skills:
            return False
        del participant.skills[hub_session, skill_id]
        if not participant.skills:
            self._hosts.pop(participant.id, None)
        return True

    def leaves(self, participant: Participant, now: float, grace_s: float) -> None:
        """Note that a connection ended.

        The participant stays known until its grace is over.
        """
        participant.connected = False
        participant.stalled = False
        participant.left_at = now
        heapq.heappush(
            self._leaving, (now + grace_s, participant.ordinal, participant.id)
        )
        self.due_at = self._leaving[0][0]

    def expired(self, now: float, grace_s: float) -> list[Participant]:
        """Participants whose grace is over at this moment, in the order they left."""
        due: dict[str, Participant] = {}
        while self._leaving and self._leaving[0][0] <= now:
            _at, ordinal, participant_id = heapq.heappop(self._leaving)
            participant = self._by_id.get(participant_id)
            # Each departure leaves an entry behind; only the last one counts, and
            # somebody late finds several.
            if (
                participant is None
                or participant.ordinal != ordinal
                or participant.connected
            ):
                continue
            if now - participant.left_at >= grace_s:
                due[participant_id] = participant
        self.due_at = self._leaving[0][0] if self._leaving else math.inf
        return list(due.values())


def _discard(
    index: dict[str, dict[str, Participant]], key: str, participant_id: str
) -> None:
    members = index.get(key)
    if members is not None:
        members.pop(participant_id, None)
        if not members:
            del index[key]


class TooManyParticipants(BridgeheadError):
    """The process serves as many participants as it is allowed to."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} participants are the maximum; no more are accepted",
            hint="raise max_participants in [bus]",
        )


class ManagedSessions:
    """The last known session of every participant that knows nothing of sessions (B-33
    to B-35); bounded.
    """

    def __init__(self, secret: bytes, *, limit: int = 10_000) -> None:
        self._secret = secret
        self._limit = limit
        self._stored: dict[tuple[str, str], Session] = {}
        """By participant and channel."""

    def session_id(self, record: ParticipantRecord, channel: str = "") -> str:
        """Return the session of the participant, or of one of its channels: configured,
        or made from the names.
        """
        if channel:
            # No participant id holds a line feed, so no local id is mistaken for this.
            return hub_session_id(self._secret, f"{record.id}\nchannel", channel)
        return record.managed_session_id or hub_session_id(
            self._secret, record.id, record.id
        )

    def current(self, record: ParticipantRecord, channel: str = "") -> Session:
        """Return the session the next utterance travels with."""
        stored = self._stored.get((record.id, channel), {})
        session = {**stored, "session_id": self.session_id(record, channel)}
        if record.lang is not None and not isinstance(session.get("lang"), str):
            session["lang"] = record.lang
        return session

    def adopt(
        self, record: ParticipantRecord, session: Session, channel: str = ""
    ) -> None:
        """Take over the session of an end marker.

        What policy imposes is not stored but computed anew.
        """
        imposed = {*DENYLISTS, *record.policy.preferences}
        if record.policy.pipeline is not None:
            imposed.add("pipeline")
        kept = {
            field: value for field, value in session.items() if field not in imposed
        }
        if len(encode_ordered(kept)) > MAX_SESSION_BYTES:
            return
        self._stored.pop((record.id, channel), None)
        while len(self._stored) >= self._limit:
            del self._stored[next(iter(self._stored))]
        self._stored[record.id, channel] = json_copy(kept)

    def forget(self, participant_id: str) -> None:
        for key in [key for key in self._stored if key[0] == participant_id]:
            del self._stored[key]
