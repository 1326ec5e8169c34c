"""Long lists in pages: where one begins, and the addresses of its neighbours. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")

_MOST_DIGITS = 7


@dataclass(frozen=True, slots=True)
class Paging:
    """A window of `length` rows from `start`; `given` is the rest of the address's query."""

    path: str
    given: Mapping[str, str]
    start: int
    length: int

    @classmethod
    def of(cls, path: str, query: Mapping[str, str], length: int) -> Paging:
        given = {name: value for name, value in query.items() if value and name != "start"}
        return cls(path, given, start_of(query) or 0, length)

    @property
    def is_first(self) -> bool:
        return self.start == 0

    def cut(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows[self.start : self.start + self.length]

    def before(self) -> str | None:
        return None if self.is_first else self.at(max(0, self.start - self.length))

    def after(self, total: int) -> str | None:
        following = self.start + self.length
        return self.at(following) if following < total else None

    def at(self, start: int) -> str:
        query = urlencode({**self.given, **({"start": start} if start else {})})
        return f"{self.path}?{query}" if query else self.path


def start_of(query: Mapping[str, str]) -> int | None:
    """What the address says; anything that is no number says nothing."""
    start = query.get("start", "")
    return int(start) if start.isascii() and start.isdecimal() and len(start) <= _MOST_DIGITS else None
