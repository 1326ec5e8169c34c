"""Topics a bridge knows by name, topic patterns of participant records, and translation
of legacy names (bus §11.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from bridgehead.bus.wire.message import Message, is_topic
from bridgehead.errors import ConfigError

HANDLE: Final = "ovos.utterance.handle"
SPEAK: Final = "ovos.utterance.speak"
SPEAK_B64: Final = "ovos.utterance.speak.b64"
HANDLED: Final = "ovos.utterance.handled"
CANCELLED: Final = "ovos.utterance.cancelled"
MATCHED: Final = "ovos.intent.matched"
UNMATCHED: Final = "ovos.intent.unmatched"
STOP: Final = "ovos.stop"
SPEECH: Final = "ovos.audio.speech"
LISTEN: Final = "ovos.mic.listen"
AUDIO_STARTED: Final = "ovos.audio.output.started"
AUDIO_ENDED: Final = "ovos.audio.output.ended"
SYNC: Final = "ovos.session.sync"
UPDATE_DEFAULT: Final = "ovos.session.update_default"
SKILL_DEREGISTER: Final = "ovos.skill.deregister"
POLICY_DENIED: Final = "ovos.policy.denied"

NOTICE: Final = "bridgehead.notice"
HEALTH: Final = "bridgehead.bridge.health"
SUBSCRIBE: Final = "bridgehead.subscribe"
REFUSED: Final = "bridgehead.refused"
"""What a program without frames is told of a message that was not taken."""
UNDELIVERED: Final = "bridgehead.undelivered"
"""What the hub is told of speech that did not reach its participant, and of whatever
the operator sent.
"""
OPERATOR: Final = "bridgehead-cli"  # the source of what is sent by command
PROBE: Final = "bridgehead.check.probe"
"""A word that a tool sends to a hub to see it come back."""
PIECE: Final = "bridgehead.speak.piece"
"""A piece of an answer as the model makes it, for whoever asked with `pieces` in the
context; the whole follows.
"""
BRIDGE_ONLY: Final = frozenset({NOTICE, HEALTH, SUBSCRIBE, REFUSED, UNDELIVERED, PIECE})
"""What only a bridge says: forged, a notice would invite a wrong answer and a
subscription deafen the bridge.
"""
GATEWAY_ONLY: Final = frozenset({NOTICE, REFUSED})
"""What the gateway tells its own participants directly: on a hub these are forged,
whoever sends them.
"""
RESERVED_TOPIC: Final = "reserved_topic"
"""Why such a message takes no part."""

SESSION_BOOTSTRAP: Final = frozenset({SYNC, UPDATE_DEFAULT})
"""What stock clients send unasked when they begin (bus §11.2)."""

TWIN_MARKERS: Final = frozenset({"_namespace_compat_twin", "_intent_compat_twin"})
is_unmarked: Final = TWIN_MARKERS.isdisjoint
"""Whether a context holds none of the markers of a twin, as nearly all."""

LIFECYCLE: Final = frozenset(
    {HANDLE, SPEAK, HANDLED, CANCELLED, MATCHED, UNMATCHED, SYNC}
)
"""What hardened mode relays to everybody (B-16)."""

REGISTERING: Final = frozenset(
    {
        "ovos.intent.register.keyword",
        "ovos.intent.register.template",
        "ovos.entity.register",
        "ovos.skill.loaded",
        "ovos.fallback.register",
        # Legacy registrations are relayed as they are and only tracked (bus §11.3).
        "register_vocab",
        "register_intent",
        "padatious:register_intent",
        "padatious:register_entity",
        "mycroft.skills.loaded",
        "ovos.skills.fallback.register",
    }
)
DEREGISTERING: Final = frozenset({SKILL_DEREGISTER, "detach_skill"})
TRACKED: Final = REGISTERING | DEREGISTERING
"""What the bridge tracks for each participant (B-45)."""

PUBLISHED_BY_SATELLITES: Final = (
    HANDLE,
    "ovos.listener.record.started",
    "ovos.listener.record.ended",
    AUDIO_STARTED,
    AUDIO_ENDED,
    STOP,
)
PUBLISHED_BY_SKILL_HOSTS: Final = (
    *sorted(REGISTERING | DEREGISTERING),
    "ovos.intent.deregister",
    "ovos.intent.enable",
    "ovos.intent.disable",
    "ovos.entity.deregister",
    "ovos.fallback.deregister",
    "ovos.intent.list",
    "ovos.intent.list.response",
    "ovos.intent.describe",
    "ovos.intent.describe.response",
    "ovos.skills.list",
    "ovos.skills.list.response",
    SPEAK,
    "ovos.intent.handler.*",
)

_CACHED_TOPICS: Final = 2048
"""Topics repeat; what was found out about the last ones is kept."""
_POLLED: Final = frozenset({"converse", "fallback", "stop", "common_query"})
_POLL_QUERIES: Final = frozenset({"ovos.common_query.request", "question:query"})
_POLL_ANSWERS: Final = frozenset(
    {"ovos.common_query.response", "question:query.response"}
)


@lru_cache(maxsize=_CACHED_TOPICS)
def is_poll(topic: str) -> bool:
    """Return whether this is internal coordination between an orchestrator and skills
    (bus §4.6).
    """
    return (
        _poll_word(topic) is not None
        or topic in _POLL_QUERIES
        or topic in _POLL_ANSWERS
    )


def is_poll_answer(topic: str) -> bool:
    """Return whether this is a skill's answer to a poll."""
    return _poll_word(topic) == "pong" or topic in _POLL_ANSWERS


def _poll_word(topic: str) -> str | None:
    if not topic.endswith((".ping", ".pong")):
        return None
    before, _, word = topic.rpartition(".")
    return word if before.replace(":", ".").rpartition(".")[2] in _POLLED else None


def dispatched_skill(topic: str) -> str | None:
    """Return the skill of a dispatch topic `<skill_id>:<intent_name>`, None for every
    other topic.
    """
    skill, colon, _intent = topic.partition(":")
    return skill if colon else None


class TopicPatterns(msgspec.Struct, frozen=True):
    """A list of topic patterns: an exact topic, a prefix that ends in `.*` or `:*`, or
    `*` for everything.
    """

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> TopicPatterns:
        exact = set()
        prefixes = []
        everything = False
        for pattern in patterns:
            if pattern == "*":
                everything = True
            elif pattern.endswith((".*", ":*")) and is_topic(pattern[:-2]):
                prefixes.append(pattern[:-1])
            elif is_topic(pattern):
                exact.add(pattern)
            else:
                raise BadTopicPattern(pattern)
        return cls(frozenset(exact), tuple(prefixes), everything)

    def listed(self) -> list[str]:
        """Return the patterns as one writes them."""
        if self.everything:
            return ["*"]
        return sorted(self.exact) + [f"{prefix}*" for prefix in self.prefixes]

    def match(self, topic: str) -> bool:
        return self.everything or topic in self.exact or topic.startswith(self.prefixes)


class BadTopicPattern(ConfigError):
    """A publish or deliver list holds something that is not a topic pattern."""

    def __init__(self, pattern: str) -> None:
        super().__init__(
            f"{pattern!r} is not a topic pattern",
            hint="write a topic, a prefix that ends in .* or :*, or * for everything",
        )


_RENAMED: Final[dict[str, str]] = {
    "recognizer_loop:utterance": "ovos.utterance.handle",
    "speak": "ovos.utterance.speak",
    "speak:b64_audio": "ovos.utterance.speak.b64",
    "speak:b64_audio.response": "ovos.audio.speech",
    "complete_intent_failure": "ovos.intent.unmatched",
    "mycroft.skill.handler.start": "ovos.intent.handler.start",
    "mycroft.skill.handler.complete": "ovos.intent.handler.complete",
    "mycroft.skill.handler.error": "ovos.intent.handler.error",
    "recognizer_loop:audio_output_start": "ovos.audio.output.started",
    "recognizer_loop:audio_output_end": "ovos.audio.output.ended",
    "mycroft.mic.listen": "ovos.mic.listen",
    "mycroft.audio.queue": "ovos.audio.queue",
    "mycroft.audio.play_sound": "ovos.audio.play_sound",
    "mycroft.audio.speak.status": "ovos.audio.is_speaking",
    "mycroft.audio.speech.stop": "ovos.audio.stop",
    "recognizer_loop:record_begin": "ovos.listener.record.started",
    "recognizer_loop:record_end": "ovos.listener.record.ended",
    "recognizer_loop:sleep": "ovos.listener.sleep",
    "recognizer_loop:wake_up": "ovos.listener.wake",
    "mycroft.awoken": "ovos.listener.awoken",
    "recognizer_loop:speech.recognition.unknown": "ovos.stt.failed",
    "mycroft.stop": "ovos.stop",
    "skill.stop.pong": "ovos.stop.pong",
    "skill.converse.pong": "ovos.converse.pong",
    "ovos.skills.fallback.register": "ovos.fallback.register",
    "ovos.skills.fallback.deregister": "ovos.fallback.deregister",
    "ovos.skills.fallback.ping": "ovos.fallback.ping",
    "ovos.skills.fallback.pong": "ovos.fallback.pong",
    "question:query": "ovos.common_query.request",
    "question:query.response": "ovos.common_query.response",
    "detach_intent": "ovos.intent.deregister",
    "detach_skill": "ovos.skill.deregister",
    "mycroft.skill.enable_intent": "ovos.intent.enable",
    "mycroft.skill.disable_intent": "ovos.intent.disable",
    "mycroft.skills.loaded": "ovos.skill.loaded",
    "mycroft.skills.list": "ovos.skills.list",
}
_TO_LEGACY: Final = {spec: legacy for legacy, spec in _RENAMED.items()}
_CONVERSE_PING: Final = "ovos.converse.ping"
_HANDLER_EVENTS: Final = "ovos.intent.handler."


def is_twin(message: Message) -> bool:
    """Return whether the producer marked this as the second copy of a message under
    another name (bus §11.2).
    """
    context = message.context
    return not TWIN_MARKERS.isdisjoint(context) and any(
        context.get(marker) is True for marker in TWIN_MARKERS
    )


@lru_cache(maxsize=2048)
def spec_topic(topic: str) -> str:
    """Return the specification's name of a topic that has two.

    Other topics are returned as they are.
    """
    if topic.endswith(".converse.ping"):
        return _CONVERSE_PING
    return _RENAMED.get(topic, topic)


@lru_cache(maxsize=2048)
def has_counterpart(topic: str) -> bool:
    """Return whether this topic has another name in the other naming scheme."""
    return topic in _RENAMED or topic in _TO_LEGACY or topic.endswith(".converse.ping")


def to_spec(message: Message) -> Message | None:
    """Return what a message of a legacy producer means.

    None for a marked twin, which is never relayed.
    """
    if is_twin(message):
        return None
    topic = spec_topic(message.type)
    if topic == message.type:
        return message
    return Message(topic, _spec_data(message, topic), message.context)


def to_legacy(message: Message) -> Message | None:
    """Return the message as a legacy consumer expects it; None for a marked twin."""
    if is_twin(message):
        return None
    topic = _legacy_topic(message)
    if topic == message.type:
        return message
    return Message(topic, _legacy_data(message), message.context)


def _legacy_topic(message: Message) -> str:
    skill = message.data.get("skill_id")
    if message.type == _CONVERSE_PING and isinstance(skill, str) and ":" not in skill:
        # The skill is payload, so it may hold what no topic may; the specification's
        # name is always valid (B-06).
        named = f"{skill}.converse.ping"
        return named if is_topic(named) else message.type
    return _TO_LEGACY.get(message.type, message.type)


def _spec_data(message: Message, topic: str) -> dict[str, Any]:
    data = message.data
    if message.type == "speak" and isinstance(data.get("expect_response"), bool):
        return {**data, "listen": data["expect_response"]}
    if message.type == "detach_intent":
        return _split_intent_name(message)
    if topic.startswith(_HANDLER_EVENTS):
        return _spec_handler_event(message, topic)
    return data


def _legacy_data(message: Message) -> dict[str, Any]:
    data = message.data
    if message.type == "ovos.utterance.speak":
        return {"meta": {}, **data, "expect_response": data.get("listen") is True}
    if message.type == "ovos.intent.deregister":
        kept = {
            key: value for key, value in data.items() if key not in ("skill_id", "lang")
        }
        return {**kept, "intent_name": _joined_name(data)}
    if (
        message.type.startswith(_HANDLER_EVENTS)
        and "name" not in data
        and (name := _joined_name(data))
    ):
        return {**data, "name": name}
    return data


def _joined_name(data: dict[str, Any]) -> str:
    parts = [data.get("skill_id"), data.get("intent_name")]
    return ":".join(part for part in parts if isinstance(part, str) and part)


def _split_intent_name(message: Message) -> dict[str, Any]:
    munged = message.data.get("intent_name")
    if not isinstance(munged, str):
        return message.data
    skill, colon, name = munged.partition(":")
    if colon:
        return {**message.data, "skill_id": skill, "intent_name": name}
    owner = message.context.get("skill_id")
    if isinstance(owner, str) and owner:
        return {**message.data, "skill_id": owner}
    return message.data


def _spec_handler_event(message: Message, topic: str) -> dict[str, Any]:
    data = dict(message.data)
    owner = message.context.get("skill_id")
    if isinstance(owner, str) and owner and "skill_id" not in data:
        data["skill_id"] = owner
    # Legacy skills reuse one data object, so an exception stays on all later events of
    # that handler.
    if not topic.endswith(".error"):
        data.pop("exception", None)
    return data
