"""Find whom a hub message concerns and what keeps it from them. Pure.

Rules B-11 to B-21, B-49 and B-51.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.bus.bridge.admission import is_bare_sync, translate_sync
from bridgehead.bus.bridge.echoes import Echo
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.participants import Participant, Register
from bridgehead.bus.participants.record import Grant, ParticipantRecord, Role
from bridgehead.bus.wire import topics
from bridgehead.bus.wire.message import Message, destinations
from bridgehead.bus.wire.session import DEFAULT, Session
from bridgehead.bus.wire.topics import SYNC


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A hub message as it is offered to participants, in specification names."""

    message: Message
    session: Session | None
    """As the message carries it."""
    hub_session: str
    echo: Echo | None
    named_session: str | None
    """The session for the record of outcomes, None if the message names none."""
    hops: int
    """Bridges the message has crossed when the next participant reads it (B-56)."""


Match = tuple[Participant, str]
"""A participant and the signal that led to it."""


class Router:
    """The outbound side of one bridge."""

    def __init__(self, settings: BridgeSettings, register: Register) -> None:
        self._settings = settings
        self._register = register
        self._by_destination = "destination" in settings.routing
        self._by_session = "session_id" in settings.routing
        self._by_site = "site_id" in settings.routing
        self._always_by_session = settings.session_routing == "always"
        self._readiness = frozenset(settings.readiness_topics)
        self._beyond_sessions = self._readiness.union(
            settings.group_topics if self._by_site else ()
        )
        """Topics that may concern others than those who use the session."""
        self._hidden_source = settings.hidden_source
        self._hop_limit = settings.hop_limit
        self.keeps_to_sessions = (
            self._by_session and topics.HANDLE not in self._beyond_sessions
        )
        """Whether an utterance that names nobody concerns only its session (B-21)."""

    def recipients(self, offer: Offer) -> Sequence[Match]:
        """Return whom the message is offered to, in order of the participants.

        Each comes with the signal that matched first.
        """
        message = offer.message
        if message.type in self._beyond_sessions or self._always_by_session:
            return self._gathered(offer)
        named = message.context.get("destination")
        if named is None:
            return self._in_session(offer)
        if isinstance(named, str) and named and self._by_destination:
            # A function, not a method: see Bridge.received.
            find = self._register.by_source
            holder = find(named)
            return () if holder is None else ((holder, "destination"),)
        return self._gathered(offer)

    def _gathered(self, offer: Offer) -> Sequence[Match]:
        """Return the recipients if several signals may lead to somebody."""
        found: dict[Participant, str] = {}
        addressed = destinations(offer.message.context)
        if self._by_destination:
            for name in addressed:
                participant = self._register.by_source(name)
                if participant is not None:
                    found[participant] = "destination"
        if not addressed or self._always_by_session:
            for session_user, signal in self._in_session(offer):
                found.setdefault(session_user, signal)
        if offer.message.type in self._beyond_sessions:
            self._match_topic(offer, found, addressed=bool(addressed))
        return sorted(found.items(), key=lambda match: match[0].ordinal)

    def _in_session(self, offer: Offer) -> Sequence[Match]:
        if offer.hub_session == DEFAULT or not self._by_session:
            return ()
        matches = self._register.by_session(offer.hub_session)
        if offer.message.type != topics.SPEECH:
            return matches
        # A participant with TTS got the text; the audio is for those without (B-14).
        return [match for match in matches if not match[0].record.tts]

    def _match_topic(
        self, offer: Offer, found: dict[Participant, str], *, addressed: bool
    ) -> None:
        if not addressed:
            self._match_site(offer, found)
        if offer.message.type in self._readiness:
            for participant in self._register.skill_hosts():
                found.setdefault(participant, "readiness")

    def _match_site(self, offer: Offer, found: dict[Participant, str]) -> None:
        if not self._by_site or offer.message.type not in self._settings.group_topics:
            return
        site = self.site_of(offer.message)
        if site is None:
            return
        for participant in self._register.by_site(site):
            found.setdefault(participant, "site_id")

    def site_of(self, message: Message) -> str | None:
        """Return the group a message belongs to, None if it names no known one."""
        session = message.context.get("session")
        if not isinstance(session, dict):
            return None
        site = session.get("site_id")
        if not isinstance(site, str) or not site:
            return None
        # Some names stand for "not known".
        return None if site in self._settings.ignored_sites else site

    def obstacle(self, participant: Participant, offer: Offer) -> str | None:
        """Return the first reason of B-71 that keeps the message from a participant."""
        if offer.echo is not None and _is_own(participant, offer, offer.echo):
            return "echo"
        if offer.message.type not in participant.terms.freely_delivered:
            reason = self._topic_obstacle(participant, offer)
            if reason is not None:
                return reason
        return "hop_limit" if offer.hops > self._hop_limit else None

    def _topic_obstacle(self, participant: Participant, offer: Offer) -> str | None:
        message = offer.message
        record = participant.record
        if (
            self._settings.poll_filter
            and topics.is_poll(message.type)
            and not participant.hosts_skill_in(offer.hub_session)
        ):
            return "poll_filter"
        if message.type == SYNC and is_bare_sync(message):
            return "session_bootstrap"
        shows_default = message.type == topics.UPDATE_DEFAULT
        if shows_default and not record.has(Grant.DEFAULT_SESSION):
            return "not_granted"
        if self._is_hardened(record) and not self._passes_hardened(participant, offer):
            return "hardened"
        if not record.deliver.match(message.type):
            return "deliver_pattern"
        if message.type == topics.SPEAK and not record.tts:
            return "rendered"
        return None

    def _is_hardened(self, record: ParticipantRecord) -> bool:
        """Return whether this participant gets only the topics of a satellite."""
        if self._settings.hardened is not None:
            return self._settings.hardened
        return record.role is not Role.PEER

    def _passes_hardened(self, participant: Participant, offer: Offer) -> bool:
        topic = offer.message.type
        record = participant.record
        if topic in topics.LIFECYCLE or topic in self._settings.hardened_extra:
            return True
        # Readiness is a rule of its own, even for a host that the message names or that
        # owns its session (B-49).
        if topic in self._readiness and participant.skills:
            return True
        if (offer.hub_session, topics.dispatched_skill(topic)) in participant.skills:
            return True
        if topics.is_poll(topic) and participant.hosts_skill_in(offer.hub_session):
            return True
        if self._by_site and topic in self._settings.group_topics:
            return True
        if topic in (topics.SPEECH, topics.LISTEN):
            return not record.tts
        if topic == topics.NOTICE:
            return record.has(Grant.NOTICES)
        return topic == topics.PIECE and record.tts

    def addressed_to(self, participant: Participant, offer: Offer) -> Message:
        """Return the message with a participant's session id, source and names."""
        message = offer.message
        session = offer.session
        data = message.data
        context = message.context.copy()
        if session is not None:
            hub_session = offer.hub_session
            if participant.imposed.names:
                session = participant.imposed.left_out(hub_session, session)
            local = participant.sessions.get(hub_session, hub_session)
            if local != hub_session:
                session = session.copy()
                session["session_id"] = local
                if message.type == SYNC:
                    data = translate_sync(data, hub_session, local)
            context["session"] = session
        if self._hidden_source is not None and "source" in context:
            context["source"] = self._hidden_source
        message = Message(message.type, data, context)
        if participant.terms.speaks_legacy:
            return topics.to_legacy(message) or message
        return message


def _is_own(participant: Participant, offer: Offer, echo: Echo) -> bool:
    """Return whether a message is this participant's or the bridge's own (B-21)."""
    if echo.author is None:
        return True
    if echo.author != participant.id:
        return False
    # An author without TTS gets audio for its own speech (B-51): no echo for it.
    return offer.message.type != topics.SPEAK or participant.record.tts
