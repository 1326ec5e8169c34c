"""Names of rigs: how they are typed, how they are spelled on the wire, which of them speak for a human (rigs §1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridgehead.errors import UserError
from bridgehead.rigs.ecmascript import trim

RELAY_SUFFIX = "-relay"
_SHAPE = re.compile("[a-z][a-z0-9-]*")


class RigId(str):
    """A canonical rig id. Made by `parse`; a value of this type needs no further checking."""

    __slots__ = ()

    @classmethod
    def parse(cls, typed: str, *, where: str | None = None) -> RigId:
        """Normalise what was typed, or raise RigIdInvalid; `where` names the flag or file it came from."""
        normal = normalise(typed)
        if not is_rig_id(normal):
            raise RigIdInvalid(normal, where=where)
        return cls(normal)

    @property
    def is_relay(self) -> bool:
        """Tell whether this rig speaks for a human operator."""
        return self.endswith(RELAY_SUFFIX)


def is_rig_id(text: str) -> bool:
    """Tell whether `text` is spelled canonically; files are never normalised."""
    return _SHAPE.fullmatch(text) is not None


def normalise(typed: str) -> str:
    """Trim and lowercase, without asking whether the result is a rig id."""
    return trim(typed).lower()


def suggestion(text: str) -> str | None:
    """Return the canonical spelling of an id that is merely written untidily."""
    normal = normalise(text)
    return normal if normal != text and is_rig_id(normal) else None


def parse_recipients(typed: Iterable[str]) -> tuple[RigId, ...]:
    """Split every `--to` at commas; order and repetitions are kept, at least one id must remain."""
    pieces = [trim(piece) for value in typed for piece in value.split(",")]
    recipients = tuple(RigId.parse(piece, where="--to") for piece in pieces if piece)
    if not recipients:
        raise RecipientMissing
    return recipients


class RigIdInvalid(UserError):
    """A rig was named in a way no rig can be named."""

    def __init__(self, text: str, *, where: str | None = None) -> None:
        prefix = f"{where}: " if where else ""
        better = suggestion(text)
        question = f'. Did you mean "{better}"?' if better else ""
        super().__init__(
            f'{prefix}rig id "{text}" is not a canonical kebab-case slug '
            f"(start with a letter, then lowercase letters, digits and hyphens only){question}"
        )
        self.text = text


class RecipientMissing(UserError):
    """An envelope was to be sent to nobody."""

    def __init__(self) -> None:
        super().__init__("`--to <rig-id>` is required (one or more)")
