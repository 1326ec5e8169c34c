"""A participant's record (bus §10.3): what it is, what it may do, how much of it.

Pure.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from bridgehead.bus.participants.policy import NO_POLICY, SessionPolicy
from bridgehead.bus.wire.session import DEFAULT
from bridgehead.bus.wire.topics import (
    BRIDGE_ONLY,
    PUBLISHED_BY_SATELLITES,
    PUBLISHED_BY_SKILL_HOSTS,
    TopicPatterns,
    is_poll_answer,
)
from bridgehead.errors import ConfigError

PARTICIPANT_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""Nothing that a program could read as an option, a folder or a hidden file."""
MIB: Final = 1024 * 1024
MOST_TURNS: Final = 100
HARD_FRAME_BYTES: Final = 16 * MIB
"""Nothing larger is read to its end, whoever sends it (bus §10.5)."""

_EVERYTHING: Final = TopicPatterns(everything=True)
_SATELLITE_TOPICS: Final = TopicPatterns.parse(PUBLISHED_BY_SATELLITES)
_SKILL_HOST_TOPICS: Final = TopicPatterns.parse(
    (*PUBLISHED_BY_SATELLITES, *PUBLISHED_BY_SKILL_HOSTS)
)


class Role(StrEnum):
    """What kind of party is behind the bridge."""

    SATELLITE = "satellite"
    SKILL_HOST = "skill_host"
    PEER = "peer"
    OPAQUE = "opaque"


class Grant(StrEnum):
    """Rights nobody has by default.

    `register_skills` comes with the role skill_host.
    """

    DEFAULT_SESSION = "default_session"
    REGISTER_SKILLS = "register_skills"
    PEER_MESSAGING = "peer_messaging"
    NOTICES = "notices"
    APPROVE = "approve"


class Limits(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How much one participant may send (bus §10.5)."""

    max_frame_bytes: int | None = None
    """None: 1 MiB, and 16 MiB for a participant that receives audio."""
    max_depth: int = 64
    messages_per_second: float = 50
    burst: int = 100
    bytes_per_second: float | None = None
    """What large messages may add up to. None: 8 KiB for each message per second."""
    open_questions: int = 16
    """Utterances without an end marker."""


class AssistantProfile(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What the assistant is for one participant.

    What is not said here is as for everybody.
    """

    prompt: str | None = None
    memory: int | None = None
    """Turns of a conversation that it is reminded of; 0: none."""
    tools: tuple[str, ...] = ()
    """Names of `bus.assistant_tools` that may be used for this participant."""


class ParticipantRecord(msgspec.Struct, frozen=True):
    """One participant as the operator described it."""

    id: str
    role: Role = Role.SATELLITE
    mode: Literal["relay", "manage"] = "relay"
    claimed_id: Literal["verbatim", "prefixed", "ignored"] = "verbatim"
    names: Literal["spec", "legacy"] = "spec"
    grants: frozenset[Grant] = frozenset()
    publish: TopicPatterns | None = None
    deliver: TopicPatterns = _EVERYTHING
    policy: SessionPolicy = NO_POLICY
    site_determination: str | None = None
    lang: str | None = None
    managed_session_id: str | None = None
    tts: bool = True
    limits: Limits = Limits()
    assistant: AssistantProfile = AssistantProfile()
    person: str | None = None
    """Whose device it is: a late answer goes to whichever of the person's devices is
    used.
    """
    ephemeral: bool = False
    """Made for one browser session or the like; nothing of it outlives the process."""

    def has(self, grant: Grant) -> bool:
        return grant in self.grants

    def may_publish(self, topic: str) -> bool:
        """Return whether the participant may publish this topic.

        Topics that only a bridge may send are never allowed.
        """
        if topic in BRIDGE_ONLY:
            return False
        if self.publish is not None:
            return self.publish.match(topic)
        if Grant.REGISTER_SKILLS in self.grants:
            return _SKILL_HOST_TOPICS.match(topic) or is_poll_answer(topic)
        return _SATELLITE_TOPICS.match(topic)

    @property
    def publishable(self) -> list[str]:
        """Return the publish list in force, defaults filled in."""
        if self.publish is not None:
            return self.publish.listed()
        host = Grant.REGISTER_SKILLS in self.grants
        if host:
            return [*_SKILL_HOST_TOPICS.listed(), "answers to polls"]
        return _SATELLITE_TOPICS.listed()

    def effective(self) -> dict[str, Any]:
        """Return the record as it is in force, for people and programs to read."""
        limits = msgspec.structs.asdict(self.limits)
        shown = {
            **msgspec.structs.asdict(self),
            "grants": sorted(self.grants),
            "publish": self.publishable,
            "deliver": self.deliver.listed(),
            "policy": self.policy.to_table(),
            "limits": {
                **limits,
                "max_frame_bytes": self.max_frame_bytes,
                "bytes_per_second": self.bytes_per_second,
            },
        }
        del shown["ephemeral"]
        built: dict[str, Any] = msgspec.to_builtins(shown)
        return built

    def rights(self) -> str:
        """Return what the participant may do, for whoever is asked to let it in."""
        granted = ", ".join(sorted(self.grants)) or "none"
        more = (
            f", tools: {', '.join(self.assistant.tools)}"
            if self.assistant.tools
            else ""
        )
        more += f", late answers for {self.person}" if self.person else ""
        return (
            f"role {self.role}, grants: {granted}, may publish: "
            f"{', '.join(self.publishable)}{more}"
        )

    @property
    def max_frame_bytes(self) -> int:
        """Return the largest frame taken from this participant."""
        if self.limits.max_frame_bytes is not None:
            return self.limits.max_frame_bytes
        return MIB if self.tts else HARD_FRAME_BYTES

    @property
    def bytes_per_second(self) -> float:
        if self.limits.bytes_per_second is not None:
            return self.limits.bytes_per_second
        return 8192 * self.limits.messages_per_second

    @property
    def burst_bytes(self) -> int:
        """So much at once, and always one message of the largest size."""
        return max(self.max_frame_bytes, 65536 * self.limits.burst)


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """The record as it is written in participants.toml."""

    role: Role = Role.SATELLITE
    mode: Literal["relay", "manage"] = "relay"
    claimed_id: Literal["verbatim", "prefixed", "ignored"] = "verbatim"
    names: Literal["spec", "legacy"] = "spec"
    grants: dict[Grant, bool] = {}
    publish: tuple[str, ...] | None = None
    deliver: tuple[str, ...] = ("*",)
    policy: dict[str, Any] = {}
    site_determination: str | None = None
    lang: str | None = None
    managed_session_id: str | None = None
    tts: bool = True
    limits: Limits = Limits()
    assistant: AssistantProfile = AssistantProfile()
    person: str | None = None


RECORD_KEYS: Final = frozenset(_Table.__struct_fields__)


def parse_record(participant_id: str, table: dict[str, Any]) -> ParticipantRecord:
    """Read one table of participants.toml.

    Every mistake names the participant and the key.
    """
    check_participant_id(participant_id)
    try:
        read = msgspec.convert(table, _Table)
        parsed = {
            "grants": _grants(read.role, read.grants),
            "publish": None
            if read.publish is None
            else TopicPatterns.parse(read.publish),
            "deliver": TopicPatterns.parse(read.deliver),
            "policy": SessionPolicy.parse(read.policy),
            "managed_session_id": _managed_session(read.managed_session_id),
            "limits": _checked(read.limits),
            "assistant": _remembering(read.assistant),
        }
        return ParticipantRecord(
            participant_id, **{**msgspec.structs.asdict(read), **parsed}
        )
    except (msgspec.ValidationError, ConfigError) as error:
        hint = getattr(error, "hint", None) or f"keys: {', '.join(sorted(RECORD_KEYS))}"
        raise ConfigError(
            f"participant {participant_id!r}: {error!s}", hint=hint
        ) from error


def check_participant_id(participant_id: str) -> str:
    """Return the id, if it is one (bus §17)."""
    if PARTICIPANT_ID.fullmatch(participant_id) is None:
        raise ConfigError(
            f"{participant_id!r} is not a valid participant ID",
            hint=(
                "use 1 to 64 letters, digits, dots, underscores and hyphens, and no "
                "dot or hyphen at the beginning"
            ),
        )
    return participant_id


def _grants(role: Role, given: dict[Grant, bool]) -> frozenset[Grant]:
    granted = {grant for grant, yes in given.items() if yes}
    if role is Role.SKILL_HOST and given.get(Grant.REGISTER_SKILLS, True):
        granted.add(Grant.REGISTER_SKILLS)
    return frozenset(granted)


def _checked(limits: Limits) -> Limits:
    for name in limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"limits: {name} must be greater than zero")
    return limits


def _remembering(profile: AssistantProfile) -> AssistantProfile:
    if profile.memory is not None and not 0 <= profile.memory <= MOST_TURNS:
        raise ConfigError(
            f"assistant: memory must be a number of turns up to {MOST_TURNS}"
        )
    return profile


def _managed_session(session_id: str | None) -> str | None:
    if session_id in ("", DEFAULT):
        raise ConfigError("managed_session_id must not be empty or 'default'")
    return session_id
