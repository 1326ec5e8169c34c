"""Notices for people on the bus (design §1), and answers to pending items typed as a line. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_ANSWER: Final = re.compile(r"/?answer\s+([a-z]-[0-9a-f]+)\s+(\S.*)", re.DOTALL | re.IGNORECASE)


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `bridgehead.notice` carries. `kind` says what `id` names; a pending item says how it is answered."""

    kind: str
    id: str
    title: str
    status: str
    """finished, failed or needs_you; for a pending item also answered and withdrawn."""
    choices: tuple[str, ...] = ()
    """The only answers a pending item takes; empty when any text will do."""
    by: str | None = None
    """Who answered."""

    def to_data(self) -> dict[str, Any]:
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


class ItemAnswer(msgspec.Struct, frozen=True):
    """An answer to a pending item."""

    id: str
    text: str


def typed_answer(line: object) -> ItemAnswer | None:
    """`answer q-12 yes` as an answer; None for anything else, which is meant for the assistant."""
    match = _ANSWER.fullmatch(line.strip()) if isinstance(line, str) else None
    return None if match is None else ItemAnswer(match[1].lower(), match[2].strip())
