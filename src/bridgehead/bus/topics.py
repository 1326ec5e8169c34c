"""Topics a bridge knows by name, and topic patterns as participant records write them.

Pure. Only what routing, permissions and tracking ask about; payloads belong to the components of the bus (bus §4).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from bridgehead.bus.message import is_topic
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
SYNC: Final = "ovos.session.sync"
UPDATE_DEFAULT: Final = "ovos.session.update_default"
SKILL_DEREGISTER: Final = "ovos.skill.deregister"
POLICY_DENIED: Final = "ovos.policy.denied"

NOTICE: Final = "bridgehead.notice"
HEALTH: Final = "bridgehead.bridge.health"
SUBSCRIBE: Final = "bridgehead.subscribe"
BRIDGE_ONLY: Final = frozenset({NOTICE, HEALTH, SUBSCRIBE})
"""What only a bridge says: forged, a notice would invite a wrong answer and a subscription deafen the bridge."""

SESSION_BOOTSTRAP: Final = frozenset({SYNC, UPDATE_DEFAULT})
"""What stock clients send unasked when they begin (bus §11.2)."""

TWIN_MARKERS: Final = ("_namespace_compat_twin", "_intent_compat_twin")

LIFECYCLE: Final = frozenset({HANDLE, SPEAK, HANDLED, CANCELLED, MATCHED, UNMATCHED, SYNC})
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
"""What the bridge keeps book of for each participant (B-45)."""

PUBLISHED_BY_SATELLITES: Final = (
    HANDLE,
    "ovos.listener.record.started",
    "ovos.listener.record.ended",
    "ovos.audio.output.started",
    "ovos.audio.output.ended",
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
_POLL_ANSWERS: Final = frozenset({"ovos.common_query.response", "question:query.response"})


@lru_cache(maxsize=_CACHED_TOPICS)
def is_poll(topic: str) -> bool:
    """Whether this is internal coordination between an orchestrator and skills (bus §4.6)."""
    return _poll_word(topic) is not None or topic in _POLL_QUERIES or topic in _POLL_ANSWERS


def is_poll_answer(topic: str) -> bool:
    """Whether this is what a skill answers to a poll."""
    return _poll_word(topic) == "pong" or topic in _POLL_ANSWERS


def _poll_word(topic: str) -> str | None:
    if not topic.endswith((".ping", ".pong")):
        return None
    before, _, word = topic.rpartition(".")
    return word if before.replace(":", ".").rpartition(".")[2] in _POLLED else None


def dispatched_skill(topic: str) -> str | None:
    """The skill of a dispatch topic `<skill_id>:<intent_name>`, None for every other topic."""
    skill, colon, _intent = topic.partition(":")
    return skill if colon else None


class TopicPatterns(msgspec.Struct, frozen=True):
    """A list of topic patterns: an exact topic, a prefix that ends in `.*` or `:*`, or `*` for everything."""

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> TopicPatterns:
        exact, prefixes, everything = set(), [], False
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
        """The patterns as one writes them."""
        return ["*"] if self.everything else sorted(self.exact) + [f"{prefix}*" for prefix in self.prefixes]

    def match(self, topic: str) -> bool:
        return self.everything or topic in self.exact or topic.startswith(self.prefixes)


class BadTopicPattern(ConfigError):
    """A publish or deliver list holds something that is no topic pattern."""

    def __init__(self, pattern: str) -> None:
        super().__init__(
            f"{pattern!r} is no topic pattern",
            hint="write a topic, a prefix that ends in .* or :*, or * for everything",
        )
