"""The message envelope (bus §1): reading it, refusing what breaks it, deriving one
message from another.

Pure. A `Message` that exists has a valid topic and two JSON objects; nobody changes one
in place, derivations copy. JSON has no cycles, so messages and what is made of them are
no business of the garbage collector (`gc=False`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from bridgehead.errors import UserError

TYPE_SYNTAX: Final = re.compile(r"[A-Za-z0-9_-]+(?:[.:][A-Za-z0-9_-]+)*")
ENVELOPE_KEYS: Final = frozenset({"type", "data", "context"})
REJECTED: Final = "ovos.session.rejected"
HUB_PATH: Final = "/core"
HUB_GREETING: Final = (
    b'{"type":"connected","data":{},"context":{"session":{"session_id":"default"}}}'
)
"""The first message of a hub on a new connection."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder()
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One message on the bus: a topic, what belongs to the topic, and what belongs to
    every message.
    """

    type: str
    data: dict[str, Any] = {}
    context: dict[str, Any] = {}

    def forward(self, topic: str, data: dict[str, Any]) -> Message:
        """Return the next message of the same conversation, context as it is (bus
        §1.2).
        """
        return Message(topic, json_copy(data), json_copy(self.context))

    def reply(self, topic: str, data: dict[str, Any]) -> Message:
        """Return the answer to this message: source and destination change places where
        there are values to exchange.
        """
        context, data = json_copy((self.context, data))
        source = context.get("source")
        if not isinstance(source, str) or not source:
            context.pop("source", None)
            source = None
        if "destination" in context:
            addressed = destinations(context)
            if addressed:
                context["source"] = addressed[0]
            else:
                del context["destination"]
        # A side without a counterpart stays as it was, so a reply to a broadcast goes
        # to its source.
        if source is not None:
            context["destination"] = source
        return Message(topic, data, context)

    def response(self, data: dict[str, Any]) -> Message:
        """Return `reply` under this topic plus `.response`, which only some topics
        have.
        """
        if self.type.endswith(".response") or ":" in self.type:
            raise UserError(
                f"no response topic can be derived from {self.type!r}",
                hint="give the reply topic explicitly",
            )
        return self.reply(f"{self.type}.response", data)


class Accepted(msgspec.Struct, frozen=True):
    """A readable message, and what was overlooked in reading it."""

    message: Message
    warnings: tuple[str, ...] = ()


class Malformed(msgspec.Struct, frozen=True):
    """What arrived is no message; `reason` is one of the codes of bus §1.1."""

    reason: str
    too_deep: bool = False
    """JSON nested beyond what anybody reads.

    A gateway answers `too_large` (bus §10.5).
    """


def decode_json(frame: bytes | str) -> Any:
    """Return the JSON value of a frame, or `Malformed`.

    The whole frame is read, so nothing bad hides inside `data`.
    """
    try:
        return _decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeError):
        return Malformed("not_json")
    except RecursionError:
        return Malformed("not_json", too_deep=True)


_message_decoder: Final = msgspec.json.Decoder(Message)


def sound_message(frame: bytes | str) -> Message | None:
    """Return the message of a flawless frame.

    None if `read_value` must say what is wrong.
    """
    try:
        message = _message_decoder.decode(frame)
    except _UNREADABLE:
        return None
    return message if is_topic(message.type) else None


def read_frame(frame: bytes | str) -> Accepted | Malformed:
    """Read one frame as a consumer does."""
    message = sound_message(frame)
    return read_value(decode_json(frame)) if message is None else Accepted(message)


def read_value(value: object) -> Accepted | Malformed:
    """Check the envelope of a decoded JSON value, in the order of bus §1.1."""
    if not isinstance(value, dict):
        return value if isinstance(value, Malformed) else Malformed("not_object")
    topic = value.get("type")
    data = value.get("data")
    context = value.get("context")
    if not isinstance(topic, str) or not topic:
        return Malformed("type_missing_or_not_string")
    if not is_topic(topic):
        return Malformed("type_syntax")
    if not isinstance(data, dict) and data is not None:
        return Malformed("data_not_object")
    if not isinstance(context, dict) and context is not None:
        return Malformed("context_not_object")
    message = Message(
        topic, {} if data is None else data, {} if context is None else context
    )
    if data is not None and context is not None and len(value) == len(ENVELOPE_KEYS):
        return Accepted(message)
    return Accepted(message, _warnings(value))


@lru_cache(maxsize=2048)
def is_topic(text: str) -> bool:
    """Return whether this can be the type of a message.

    Topics repeat, so the last ones are remembered.
    """
    return TYPE_SYNTAX.fullmatch(text) is not None


def _warnings(value: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if not value.keys() <= ENVELOPE_KEYS:
        found.append("unknown_top_level_key")
    found += [
        f"{key}_null"
        for key in ("data", "context")
        if key in value and value[key] is None
    ]
    return tuple(found)


def has_malformed_carrier(message: Message) -> bool:
    """Return whether `context.session` is neither an object nor null (bus §1.1)."""
    session = message.context.get("session")
    return session is not None and not isinstance(session, dict)


def session_rejected(dropped: Message) -> Message:
    """Return the announcement that a message was dropped for its session."""
    utterance_id = dropped.context.get("utterance_id")
    context = {"utterance_id": utterance_id} if isinstance(utterance_id, str) else {}
    return Message(
        REJECTED, {"msg_type": dropped.type, "reason": "malformed_carrier"}, context
    )


def destinations(context: dict[str, Any]) -> tuple[str, ...]:
    """Return whom a message names; empty for a broadcast.

    Today's producers write arrays, so both forms are read.
    """
    value = context.get("destination")
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        return ()
    return tuple(name for name in value if isinstance(name, str) and name)


encode: Final[Callable[[Message], bytes]] = _encoder.encode
"""Compact UTF-8 JSON with the three keys."""

encode_ordered: Final[Callable[[object], bytes]] = msgspec.json.Encoder(
    order="deterministic"
).encode
"""JSON whose bytes do not depend on key order; for digests."""

json_copy: Final[Callable[[Any], Any]] = msgspec.to_builtins
"""An independent copy of a JSON value."""
