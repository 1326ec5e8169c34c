"""Canaries: code that an analyser has to find fault with before its silence is believed (council §23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from bridgehead.council.runtimes.static.base import RULES, Message

# A folder that is never part of a scope, so that no file of the tree can pass for a canary.
_FOLDER: Final = ".bridgehead/canaries"


@dataclass(frozen=True, slots=True)
class Canary:
    """One bad file: what language it speaks for, and which rule has to find it."""

    language: str
    name: str
    text: str
    rule: str
    endings: tuple[str, ...] = ()

    def speaks_for(self, name: str) -> bool:
        """Return whether a file is in its language."""
        return not self.endings or name.endswith(self.endings)

    def is_found(self, said: Mapping[str, Sequence[Message]]) -> bool:
        """Return whether an analyser found what is wrong with it."""
        return any(message.rule == self.rule for message in said.get(self.name, ()))


def is_canary(name: str) -> bool:
    """Return whether a copy is ours and no file of the tree."""
    return name.startswith(f"{_FOLDER}/")


def canaries_for(analyser: str, names: Iterable[str] | None = None) -> list[Canary]:
    """Return the canaries of an analyser, of the languages of these files or of all."""
    known = _canaries().get(analyser, [])
    if names is None:
        return known
    asked = list(names)
    return [canary for canary in known if any(map(canary.speaks_for, asked))]


@cache
def _canaries() -> dict[str, list[Canary]]:
    table = yaml.safe_load((RULES / "canaries.yml").read_bytes())
    return {
        analyser: [_canary(analyser, row) for row in rows]
        for analyser, rows in table.items()
    }


def _canary(analyser: str, row: Mapping[str, Any]) -> Canary:
    return Canary(
        language=row["language"],
        name=f"{_FOLDER}/{analyser}/{row['name']}",
        text=row["text"],
        rule=row["rule"],
        endings=tuple(row.get("endings", ())),
    )
