"""What the operations of the record see of a database: statements inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    """Runs statements. Placeholders are `?` in every dialect."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return what it yields."""
        ...

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """Run one statement for each row of values, in order, and return what each yields."""
        ...


class NoRows:
    """A record that does not exist yet, to a reader: an empty one."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return []

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        return [[] for _ in values]
