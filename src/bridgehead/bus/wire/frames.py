"""Frames of the layer between gateway and participant (bus §10.4).

Pure: bytes in, values out, and back.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Literal

import msgspec

from bridgehead.bus.wire.message import Malformed, Message, decode_json, is_topic

SUBPROTOCOL: Final = "bridgehead.v1"
_encoder: Final = msgspec.json.Encoder()


class Frame(msgspec.Struct, frozen=True):
    """One frame a participant sent; keys that its kind does not have are absent."""

    l2: str = ""
    m: Any = msgspec.UNSET
    hops: Any = 0
    ref: Any = msgspec.UNSET
    t: Any = None
    participant: Any = None
    nonce: Any = None
    mac: Any = None
    claimed_id: Any = None
    reason: Any = None
    id: Any = None
    text: Any = None
    shown: Any = None


class MessageFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A `msg` frame whose message gives no cause for remarks, which is what nearly all
    frames are.
    """

    l2: Literal["msg"]
    m: Message
    hops: Any = 0
    ref: Any = msgspec.UNSET


_decoder: Final = msgspec.json.Decoder(Frame)
_message_decoder: Final = msgspec.json.Decoder(MessageFrame)


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def from_base64(text: object, size: int | None = None) -> bytes | None:
    """Return the bytes of strict base64, None for anything else or another length."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if size is None or len(raw) == size else None


def read_message(payload: bytes) -> MessageFrame | None:
    """Return the message frame in one WebSocket message.

    None if `read` must say what it is.
    """
    try:
        frame = _message_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return frame if is_topic(frame.m.type) else None


def read(payload: bytes) -> Frame | Malformed:
    """Return the frame in one WebSocket message.

    The whole of it is decoded, so nothing bad hides inside `m`.
    """
    try:
        return _decoder.decode(payload)
    except msgspec.ValidationError:
        value = decode_json(payload)
        if isinstance(value, Malformed):
            return value
        return Malformed(
            "type_missing_or_not_string" if isinstance(value, dict) else "not_object"
        )
    except (msgspec.DecodeError, UnicodeError):
        return Malformed("not_json")
    except RecursionError:
        return Malformed("not_json", too_deep=True)


def message(body: bytes, hops: int) -> bytes:
    """Return a message for a participant; its bytes go into the frame as they are."""
    if hops == 1:
        return b'{"l2":"msg","m":%b,"hops":1}' % body
    return b'{"l2":"msg","m":%b,"hops":%d}' % (body, hops)


def bridges_crossed(hops: object) -> int:
    """Return how many bridges a message of a gateway has crossed: one at least.

    A lower number would let a message between bridges go round for ever.
    """
    return hops if type(hops) is int and hops > 1 else 1


def outgoing(body: bytes, hops: int = 0) -> bytes:
    """Return a message from a participant; only a bridge counts hops."""
    return b'{"l2":"msg","m":%b}' % body if not hops else message(body, hops)


def error(code: str, details: dict[str, Any], ref: object = msgspec.UNSET) -> bytes:
    frame = {"l2": "err", "code": code, **details}
    if ref is not msgspec.UNSET:
        frame["ref"] = ref
    return _encoder.encode(frame)


def challenge(nonce: bytes, server_time: str) -> bytes:
    return _encoder.encode(
        {"l2": "challenge", "nonce": to_base64(nonce), "server_time": server_time}
    )


def auth(participant: str, nonce: bytes, mac: bytes, claimed_id: str | None) -> bytes:
    frame = {
        "l2": "auth",
        "participant": participant,
        "nonce": to_base64(nonce),
        "mac": to_base64(mac),
    }
    return _encoder.encode(
        frame if claimed_id is None else {**frame, "claimed_id": claimed_id}
    )


def welcome(source: str, mac: bytes | None) -> bytes:
    frame = {"l2": "welcome", "source": source}
    return _encoder.encode(frame if mac is None else {**frame, "mac": to_base64(mac)})


def ping(t: float) -> bytes:
    return _encoder.encode({"l2": "ping", "t": t})


def pong(t: object) -> bytes:
    return _encoder.encode({"l2": "pong", "t": t})


def bye(reason: str) -> bytes:
    return _encoder.encode({"l2": "bye", "reason": reason})


def answer(item_id: str, text: str, shown: str) -> bytes:
    return _encoder.encode(
        {"l2": "answer", "id": item_id, "text": text, "shown": shown}
    )


def answered(became: dict[str, Any]) -> bytes:
    return _encoder.encode({"l2": "answered", **became})
