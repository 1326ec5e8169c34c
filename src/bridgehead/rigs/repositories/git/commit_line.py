"""A history in which each commit has one parent, from the table git keeps of its commits (gitformat-commit-graph)."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from struct import error, unpack_from

from bridgehead.rigs.repositories.git.clone import Clone

_BEGINNING = b"CGPH\1"
_PARTS = 8  # where they are listed; the two bytes before say how many, and how many tables this one only adds to
_COUNT = 4 * 255
_PARENT_AND_DATE = (
    16  # bytes after the id of the tree; the first two numbers are rows of parents
)
_NO_PARENT = 0x70000000


class CommitLine:
    """Commits, oldest first: those of a table, then some that were listed, each perhaps with its parent."""

    def __init__(
        self,
        listed: Sequence[str],
        table: CommitTable | None = None,
        rows: Sequence[int] = (),
    ) -> None:
        self._listed, self._table, self._rows = listed, table, rows

    def __len__(self) -> int:
        return len(self._rows) + len(self._listed)

    def __getitem__(self, index: int) -> str:
        if self._table is not None and index < len(self._rows):
            return self._table.commit(self._rows[index])
        return self._listed[index - len(self._rows)].partition(" ")[0]

    @property
    def in_table(self) -> range:
        return range(len(self._rows))

    def tree(self, index: int) -> str:
        """Return the tree of a commit that is in the table."""
        return self._table.tree(self._rows[index]) if self._table is not None else ""


class CommitTable:
    """The commits that were there when git last wrote the table."""

    def __init__(self, clone: Clone) -> None:
        self._id_bytes = len(clone.null_id) // 2
        with (clone.location.common_dir / "objects/info/commit-graph").open(
            "rb"
        ) as file:
            self._table = mmap(file.fileno(), 0, access=ACCESS_READ)
        if self._table[: len(_BEGINNING)] != _BEGINNING or self._table[_PARTS - 1]:
            raise ValueError("a table of another kind")
        at = dict(
            unpack_from(">4sQ", self._table, _PARTS + 12 * part)
            for part in range(self._table[_PARTS - 2])
        )
        (self._count,) = unpack_from(">I", self._table, at[b"OIDF"] + _COUNT)
        self._names, self._data = at[b"OIDL"], at[b"CDAT"]
        self._width = self._id_bytes + _PARENT_AND_DATE

    def commit(self, row: int) -> str:
        start = self._names + row * self._id_bytes
        return self._table[start : start + self._id_bytes].hex()

    def tree(self, row: int) -> str:
        start = self._data + row * self._width
        return self._table[start : start + self._id_bytes].hex()

    def line_to(self, commit: str) -> list[int]:
        """Return the rows of a commit and of all behind it, oldest first; ValueError if it is not here, or no line."""
        end = self._names + self._count * self._id_bytes
        row, odd = divmod(
            self._table.find(bytes.fromhex(commit), self._names, end) - self._names,
            self._id_bytes,
        )
        if row < 0 or odd:
            raise ValueError("a newer commit")
        others, following = self._parents(1), self._parents(0).tolist()
        rows: list[int] = []
        for _ in range(self._count):
            rows.append(row)
            row = following[row]
            if row == _NO_PARENT:
                break
        none = array("I", [_NO_PARENT]) * self._count
        merges = others != none and any(others[row] != _NO_PARENT for row in rows)
        if row != _NO_PARENT or merges:
            raise ValueError("no single line")
        return rows[::-1]

    def _parents(self, which: int) -> array[int]:
        """Return the rows of the first or second parents."""
        numbers = memoryview(self._table)[
            self._data : self._data + self._count * self._width
        ].cast("I")
        rows = array(
            "I", numbers[self._id_bytes // 4 + which :: self._width // 4].tobytes()
        )
        if sys.byteorder == "little":
            rows.byteswap()
        return rows


def line_to(clone: Clone, commit: str, *listed: str) -> CommitLine | None:
    """Return a commit with all behind it and those listed after it, if the table has it, and as a single line."""
    common = clone.location.common_dir
    if (common / "shallow").exists() or (common / "info/grafts").exists():
        return None  # history is cut off or altered here, and the table knows nothing of that
    try:
        table = CommitTable(clone)
        return CommitLine(listed, table, table.line_to(commit))
    except (
        OSError,
        ValueError,
        LookupError,
        error,
    ):  # git has written none, or another kind
        return None
