"""Mask secrets in the words of a runtime, at the door by which they enter a council.

Whatever came back from a seat (a reply, an error message, the report of a rig or an
analyser) is masked before it is logged, recorded, parsed or shown. The rules are those
for the material of a review: a value that is given to a telling name is masked, a key or
token of a known shape is left out, and so is a value of the environment wherever it
stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from bridgehead.council.calls import (
    CallFailed,
    Reply,
    SeatEvent,
    SeatPending,
    SeatReady,
    SeatReported,
)
from bridgehead.host.secrets_scan import unescaped, with_secrets_masked

Mask = Callable[[str], str]
"""Hides the values that are known to be secret."""

FromSeat: TypeAlias = Reply | CallFailed | SeatReady | SeatReported | SeatPending
"""The inputs of a council that hold words of a runtime."""

SECRET_MASKED: Final = "secret_masked"

Said = TypeVar("Said", bound=FromSeat)


class Masked(NamedTuple):
    """A text without secrets, and the kinds of those that stood in it."""

    text: str
    kinds: tuple[str, ...]


def mask_words(text: str, mask: Mask) -> Masked:
    """Return what a runtime said as it may be kept."""
    plain = unescaped(text)
    hidden = mask(plain)
    known = text if hidden == plain else hidden
    return Masked(*with_secrets_masked(known))


def mask_input(happened: Said, mask: Mask) -> tuple[Said, SeatEvent | None]:
    """Return an input with its texts masked, and the line of the seat's log that says so."""
    kinds: dict[str, None] = {}
    said = msgspec.to_builtins(happened)
    masked = _masked_value(said, mask, kinds)
    if masked == said:
        return happened, None
    admitted = msgspec.convert(masked, type(happened))
    if not kinds:
        return admitted, None
    detail = f"{SECRET_MASKED}:{','.join(kinds)}"
    return admitted, SeatEvent(_seat_of(admitted), "warning", {"detail": detail})


def _seat_of(happened: FromSeat) -> str:
    match happened:
        case Reply() | CallFailed():
            return happened.key.seat
        case SeatReported():
            return happened.report.bridge
        case SeatReady():
            return happened.seat.name
        case SeatPending():
            return happened.seat


def mask_event(event: SeatEvent, mask: Mask) -> SeatEvent:
    """Return a line of a seat's log with its texts masked."""
    fields = _masked_value(msgspec.to_builtins(event.fields), mask, {})
    return replace(event, fields=fields)


def _masked_value(value: Any, mask: Mask, kinds: dict[str, None]) -> Any:
    """Return a JSON value with its texts masked; `kinds` gets the kinds of secrets."""
    match value:
        case str():
            text, found = mask_words(value, mask)
            kinds.update(dict.fromkeys(found))
            return text
        case Mapping():
            return {
                name: _masked_value(entry, mask, kinds) for name, entry in value.items()
            }
        case list() | tuple():
            return [_masked_value(entry, mask, kinds) for entry in value]
        case _:
            return value
