"""What a bridge decides: small frozen values that its shell carries out in order.

Pure.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Literal

import msgspec

from bridgehead.bus.wire.message import Message

Direction = Literal["in", "out"]


class CloseCode(IntEnum):
    """WebSocket close codes of bus §10.2; the name in lower case is the reason text."""

    GOING_AWAY = 1001
    NOT_AUTHENTICATED = 4001
    REVOKED = 4003
    SLOW_CONSUMER = 4008
    REPLACED = 4009
    VIOLATIONS = 4029

    @property
    def reason(self) -> str:
        return self.name.lower()


class ToBus(msgspec.Struct, frozen=True, gc=False):
    """Write this message to the hub.

    One of a participant has an outcome, which is known once that is tried.
    """

    message: Message
    author: str | None = None
    """The participant it is of, None where the bridge itself writes."""
    topic: str = ""
    session_id: str | None = None
    size: int = 0
    concerns_author: bool = False
    """Whether its echo could only be its author's own: a hub of ours need not send it
    back then.
    """

    def outcome(self, obstacle: str | None = None) -> Outcome:
        """Return what became of the message for its author."""
        outcome: Literal["delivered", "dropped"] = (
            "delivered" if obstacle is None else "dropped"
        )
        return Outcome(
            self.author or "",
            "in",
            self.topic,
            outcome,
            obstacle,
            self.session_id,
            self.size,
        )

    def echo_outcome(self) -> Outcome:
        return Outcome(
            self.author or "", "out", self.topic, "dropped", "echo", self.session_id
        )


class Later(msgspec.Struct, frozen=True):
    """Give this message of our own back after a while, to be written then."""

    message: Message
    delay_s: float


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """Hand this message to the participant's transport, as the participant will read
    it; that ends it.
    """

    participant: str
    topic: str
    body: bytes
    """Compact JSON of the message; its length is what queues are bounded by (B-42)."""
    hops: int
    hub_session: str | None
    offered_at: float
    signal: str = "destination"
    waited_s: float = 0.0

    def outcome(self) -> Outcome:
        size = len(self.body)
        return Outcome(
            self.participant,
            "out",
            self.topic,
            "delivered",
            None,
            self.hub_session,
            size,
            self.waited_s,
        )


class Refused(msgspec.Struct, frozen=True):
    """Tell the participant that its message was not taken (bus §10.4)."""

    participant: str
    code: str
    details: dict[str, Any] = {}


class Joined(msgspec.Struct, frozen=True):
    """The participant is connected under this source."""

    participant: str
    source: str
    first: bool
    """Whether it was unknown before; False for a reconnect within grace."""


class Left(msgspec.Struct, frozen=True):
    """The participant's connection ended; `gone` when it is no longer known."""

    participant: str
    gone: bool
    reason: str


class Close(msgspec.Struct, frozen=True):
    """Close the participant's present connection."""

    participant: str
    code: CloseCode


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The one thing that became of one message for one participant (B-70)."""

    participant: str
    direction: Direction
    topic: str | None
    outcome: Literal["delivered", "dropped", "expired", "refused"]
    reason: str | None = None
    session_id: str | None = None
    size: int = 0
    waited_s: float = 0.0


class Undelivered(msgspec.Struct, frozen=True):
    """Speech, or what the operator sent, that a participant will not get: it is
    `absent`, may not, or was too slow.
    """

    participant: str
    reason: str
    about: Message | None = None
    """What was said, where it is still at hand."""


class HubIgnored(msgspec.Struct, frozen=True):
    """A hub message that takes no part in anything: `twin`, `duplicate` or `malformed`
    (B-72).
    """

    reason: str


class RememberSource(msgspec.Struct, frozen=True):
    """Remember the participant's source beyond this process."""

    participant: str
    source: str


class ForgetSource(msgspec.Struct, frozen=True):
    """The participant's credential was withdrawn: its source is free, and whoever is
    enrolled next is somebody else.
    """

    participant: str


class RememberHubId(msgspec.Struct, frozen=True):
    """Remember which hub session stands for the participant's local one."""

    participant: str
    hub_id: str
    local_id: str


class ForgetHubId(msgspec.Struct, frozen=True):
    """A mapping was given up to keep the map bounded."""

    participant: str
    hub_id: str


class RememberSkill(msgspec.Struct, frozen=True):
    """Remember that the participant registered this skill, so that it can be
    deregistered after a restart.
    """

    participant: str
    hub_id: str
    skill_id: str


class ForgetSkill(msgspec.Struct, frozen=True):
    """The skill is deregistered."""

    participant: str
    hub_id: str
    skill_id: str


StateChange = (
    RememberSource
    | ForgetSource
    | RememberHubId
    | ForgetHubId
    | RememberSkill
    | ForgetSkill
)
Effect = (
    ToBus
    | Later
    | Delivery
    | Refused
    | Joined
    | Left
    | Close
    | Outcome
    | Undelivered
    | HubIgnored
    | StateChange
)
