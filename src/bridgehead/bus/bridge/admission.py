"""Check what a participant sent to the hub, in the order of bus §6. Pure.

Nothing after the policy gate alters the session; what `admit` returns is injected as it
is.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.limits import is_deeper_than
from bridgehead.bus.participants.participants import ManagedSessions, Participant, Terms
from bridgehead.bus.participants.record import Grant
from bridgehead.bus.participants.sources import Sources
from bridgehead.bus.wire.message import (
    Malformed,
    Message,
    decode_json,
    destinations,
    has_malformed_carrier,
    read_value,
    session_rejected,
    sound_message,
)
from bridgehead.bus.wire.session import DEFAULT, Session, hub_session_id, session_id
from bridgehead.bus.wire.topics import (
    HANDLE,
    POLICY_DENIED,
    SYNC,
    UPDATE_DEFAULT,
    is_twin,
    is_unmarked,
    to_spec,
)

LIGHT_BYTES: Final = 4096
"""Messages up to this size are bounded by their number alone."""

ABSENT: Final = object()
"""No decoded value was given."""


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A message that may go to the hub, in specification names."""

    message: Message
    hub_session: str
    local_session: str
    hops: int


class Denied(msgspec.Struct, frozen=True):
    """A message that is refused with an error frame (bus §10.4)."""

    code: str
    details: dict[str, Any] = {}
    topic: str | None = None
    announce: Message | None = None
    """What the hub is told about it."""
    session: Session | None = None
    """Its session after translation, for `ovos.policy.denied` (B-54)."""

    def diagnostic(self, bridge_id: str) -> Message:
        """Return what a bridge that is set to do so tells the hub of a refusal."""
        context: dict[str, Any] = {"source": bridge_id}
        if self.session is not None:
            context["session"] = self.session
        return Message(POLICY_DENIED, dict(self.details), context)


class Ignored(msgspec.Struct, frozen=True):
    """A message that stock clients send unasked: dropped without an error."""

    reason: str
    topic: str


class Admission:
    """The inbound side of one bridge."""

    def __init__(
        self,
        settings: BridgeSettings,
        sources: Sources,
        secret: bytes,
        managed: ManagedSessions,
    ) -> None:
        self._hop_limit = settings.hop_limit
        self._hidden_source = settings.hidden_source
        self._nat = settings.nat
        self._no_sites = settings.ignored_sites
        self._sources = sources
        self._secret = secret
        self._managed = managed

    def admit(
        self,
        participant: Participant,
        frame: bytes,
        value: object,
        hops: object,
        now: float,
    ) -> Admitted | Denied | Ignored:
        """Decide about a frame; `value` is its message if it is already decoded."""
        terms = participant.terms
        size = len(frame)
        if size > terms.max_frame_bytes:
            return Denied("too_large")
        read = value
        channel = ""
        if not isinstance(value, Message):
            read, channel = _read(terms, frame, value)
        if not _keeps_to_rate(participant, size, now):
            return Denied("rate_limited", topic=_topic_of(read))
        if type(hops) is not int or hops < 0:
            return Denied("malformed", {"reason": "hops_invalid"}, _topic_of(read))
        if hops > self._hop_limit:
            return Denied("hop_limit", topic=_topic_of(read))
        # Without that many brackets nothing is nested too deeply, so few messages need
        # be walked through.
        brackets = frame.count(b"{") + frame.count(b"[")
        if brackets > terms.max_depth and _is_too_deep(read, terms.max_depth):
            return Denied("too_large", topic=_topic_of(read))
        if not isinstance(read, Message):
            accepted = read_value(read)
            if isinstance(accepted, Malformed):
                if accepted.too_deep:
                    return Denied("too_large")
                return Denied("malformed", {"reason": accepted.reason}, _topic_of(read))
            read = accepted.message
        return self._consider(participant, read, hops, channel)

    def _consider(
        self, participant: Participant, message: Message, hops: int, channel: str
    ) -> Admitted | Denied | Ignored:
        """Judge a readable message and give it its session on the hub."""
        terms = participant.terms
        context = message.context
        carried = context.get("session")
        is_plain = (
            isinstance(carried, dict)
            and is_unmarked(context)
            and terms.freely_published[message.type]
        )
        if not is_plain:
            objection = self._objection(participant, message)
            if objection is not None:
                return objection
            if terms.speaks_legacy:
                message = to_spec(message) or message
        context = context.copy()
        if "destination" in context:
            foreign = self._readdress(participant, context)
            if foreign:
                return self._policy_denied(participant, message, "destination", foreign)
        located = self._session_on_hub(participant, carried, channel)
        if located is None:
            return self._policy_denied(participant, message, "session_id", DEFAULT)
        local, hub_session, session = located
        if "site_id" in session and not terms.is_placed:
            session = self._without_claimed_site(session)
        if terms.gates_sessions:
            participant.imposed.note(participant.record.policy, hub_session, session)
            session = terms.gate(session)
        data = message.data
        if not is_plain and message.type == SYNC and local != hub_session:
            data = translate_sync(data, local, hub_session)
        context["source"] = participant.source
        context["session"] = session
        return Admitted(Message(message.type, data, context), hub_session, local, hops)

    def _without_claimed_site(self, session: Session) -> Session:
        """Return the session of a participant that the operator put into no group.

        Whoever only claims to be in a group could stop the speech of another.
        """
        if session["site_id"] in self._no_sites:
            return session
        return {key: value for key, value in session.items() if key != "site_id"}

    def _objection(
        self, participant: Participant, message: Message
    ) -> Denied | Ignored | None:
        """Return what keeps the message out, in the order of bus §6, if anything."""
        if message.type.count(":") > 1:
            # A bridge is a producer, so one colon is the most it writes (B-06).
            return Denied("malformed", {"reason": "type_syntax"}, message.type)
        if has_malformed_carrier(message):
            return Denied(
                "malformed",
                {"reason": "malformed_carrier"},
                message.type,
                session_rejected(message),
            )
        if is_twin(message):
            return Ignored("twin", message.type)
        if message.type == UPDATE_DEFAULT or is_bare_sync(message):
            return Ignored("session_bootstrap", message.type)
        named = to_spec(message) if participant.terms.speaks_legacy else message
        if named is not None and not participant.record.may_publish(named.type):
            return self._policy_denied(participant, named, "type", named.type)
        return None

    def _readdress(
        self, participant: Participant, context: dict[str, Any]
    ) -> str | None:
        """Take the hidden id out of `context`; return a source that needs a grant.

        To speak to another participant needs one (B-55).
        """
        addressed = destinations(context)
        if self._hidden_source is not None and self._hidden_source in addressed:
            _remove_destination(context, self._hidden_source)
        if participant.record.has(Grant.PEER_MESSAGING):
            return None
        for name in addressed:
            if self._sources.belongs_to_another(name, participant.id):
                return name
        return None

    def _session_on_hub(
        self, participant: Participant, carried: Session | None, channel: str = ""
    ) -> tuple[str, str, Session] | None:
        """Return the local id, the hub's, and the session with it.

        None if that is the default session and it is not granted.
        """
        if participant.terms.is_managed:
            session = self._managed.current(participant.record, channel)
            own = session_id(session)
            return channel or own, own, session
        local = session_id(carried)
        if local == DEFAULT and participant.terms.may_use_default_session:
            session = {"session_id": DEFAULT} if carried is None else carried
            return DEFAULT, DEFAULT, session
        if not self._nat:
            if local == DEFAULT or carried is None:
                return None
            return local, local, carried
        hub_id = participant.hub_ids.get(local) or hub_session_id(
            self._secret, participant.id, local
        )
        session = {} if carried is None else carried.copy()
        session["session_id"] = hub_id
        return local, hub_id, session

    def _policy_denied(
        self, participant: Participant, message: Message, field: str, value: str
    ) -> Denied:
        session: Session | None = None
        located = self._session_on_hub(participant, message.context.get("session"))
        if located is not None and located[1] != DEFAULT:
            session = located[2]
        details = {"field": field, "value": value}
        return Denied("policy_denied", details, message.type, None, session)


def translate_sync(data: dict[str, Any], known_as: str, becomes: str) -> dict[str, Any]:
    """Return the payload of a session sync with the id inside it translated (B-23)."""
    inner = data.get("session")
    if not isinstance(inner, dict) or "session_id" not in inner:
        return data
    if session_id(inner) != known_as:
        return data
    return {**data, "session": {**inner, "session_id": becomes}}


def is_bare_sync(message: Message) -> bool:
    """Return whether a legacy client asks for the default session (bus §11.2).

    It does so with a sync that carries no session.
    """
    return message.type == SYNC and not isinstance(message.data.get("session"), dict)


def _read(terms: Terms, frame: bytes, value: object) -> tuple[object, str]:
    """Return what the frame says, and the channel that a managed participant named."""
    if value is ABSENT:
        message = sound_message(frame)
        if message is not None:
            return message, ""
        value = decode_json(frame)
    if not terms.is_managed or not isinstance(value, dict):
        return value, ""
    if "type" in value and "channel" not in value:
        return value, ""
    channel = value.get("channel", "")
    if not isinstance(channel, str) or not is_channel(channel):
        channel = ""
    if "type" not in value:
        return _spoken(value), channel
    return {key: value[key] for key in value if key != "channel"}, channel


def _keeps_to_rate(participant: Participant, size: int, now: float) -> bool:
    """Count a message of this size; return whether the participant may send it now."""
    if not participant.bucket.take(now):
        return False
    return size <= LIGHT_BYTES or participant.bytes_bucket.take(now, size)


def is_channel(name: str) -> bool:
    """Return whether a managed participant may give a channel this name."""
    return 0 < len(name) <= 128 and name.isprintable() and name != DEFAULT


def _is_too_deep(read: object, limit: int) -> bool:
    value = [read.data, read.context] if isinstance(read, Message) else read
    return isinstance(value, dict | list) and is_deeper_than(value, limit)


def _spoken(read: dict[str, Any]) -> object:
    """Return text of an opaque channel as an utterance (B-34).

    It has a language only if the channel states it for this text.
    """
    text = read.get("text")
    lang = read.get("lang")
    channel = read.get("channel", "")
    if not isinstance(text, str) or not text.strip() or not isinstance(channel, str):
        return read
    if channel and not is_channel(channel):
        return read
    data: dict[str, Any] = {"utterances": [text]}
    if isinstance(lang, str) and lang:
        data["lang"] = lang
    utterance_id = read.get("utterance_id")
    context: dict[str, Any] = {}
    if isinstance(utterance_id, str) and utterance_id:
        context["utterance_id"] = utterance_id
    if read.get("pieces") is True:
        context["pieces"] = True
    return {"type": HANDLE, "data": data, "context": context}


def _remove_destination(context: dict[str, Any], hidden: str) -> None:
    value = context.pop("destination")
    if not isinstance(value, list):
        return
    left = {"destination": [name for name in value if name != hidden]}
    if destinations(left):
        context |= left


def _topic_of(read: object) -> str | None:
    if isinstance(read, Message):
        return read.type
    topic = read.get("type") if isinstance(read, dict) else None
    return topic if isinstance(topic, str) and topic else None
