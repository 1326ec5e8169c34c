"""The file behind the envelope index: a cache under the git directory, never the source of truth.

    {"format": 1, "head": ..., "checksum": ...}         one line of JSON
    <thread> TAB {"files": ..., "history": ...}         one line of JSON per thread, columns instead of rows

Lines are decoded when their thread is asked for, and written back as they were if nothing in it changed. A file that is
missing, torn, foreign or of another version reads as an empty index.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.index_rows import FileRow, HistoryRow

FORMAT = 1
_MAX_BYTES = 1024 * 1024 * 1024
_FILE_NAME = "envelopes.idx"


class Header(NamedTuple):
    """What the rows were made from."""

    head: str | None = None  # history is known up to here
    commits: int = 0
    linear: bool = True  # no merges: each commit descends from all before it
    digest: str | None = None  # of what the index held when all threads were last read


class ThreadRows(NamedTuple):
    """Both halves of a thread's rows, by file name."""

    files: dict[str, FileRow]
    history: dict[str, HistoryRow]


class IndexSpoilt(Exception):
    """Rows that passed the checksum make no sense; the index has been emptied, so ask again."""


class IndexFile:
    """The stored rows."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self.header = Header()
        self._lines: dict[str, bytes] = {}
        self._threads: dict[str, ThreadRows] = {}
        self._changed: set[str] = set()
        self._load()

    def thread_names(self) -> set[str]:
        return {*self._lines, *self._threads}

    def thread(self, name: str) -> ThreadRows:
        """Return a thread's rows; whoever changes them says so with `touch`."""
        if name not in self._threads:
            try:
                self._threads[name] = (
                    _decode(self._lines[name]) if name in self._lines else ThreadRows({}, {})
                )
            except (ValueError, TypeError, KeyError, IndexError) as error:
                self._forget_everything()
                raise IndexSpoilt from error
        return self._threads[name]

    def history_of(self, name: str) -> dict[str, HistoryRow]:
        return self.thread(name).history

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def touch(self, thread: str) -> None:
        self._changed.add(thread)

    def clear_history(self) -> None:
        """Forget where everything came from, not what it says."""
        for name in self.thread_names():
            self.thread(name).history.clear()
            self.touch(name)

    def save(self, header: Header) -> None:
        """Write the file if anything changed. Not being able to write costs the next command time, nothing else."""
        if header == self.header and not self._changed:
            return
        self.header = header
        for name in self._changed:
            self._lines[name] = _encode(self._threads[name])
        self._changed.clear()
        lines = (b"%b\t%b\n" % (name.encode(), line) for name, line in self._lines.items() if line != _EMPTY)
        body = b"".join(lines)
        first = {"format": FORMAT, **header._asdict(), "checksum": crc32(body)}
        with suppress(FileError):
            make_dir(self._path.parent)
            write_atomic(self._path, json.dumps(first).encode() + b"\n" + body)

    def _load(self) -> None:
        try:
            first, _, body = read_bounded(self._path, _MAX_BYTES).partition(b"\n")
            stored = json.loads(first)
            if stored.pop("format") != FORMAT or stored.pop("checksum") != crc32(body):
                return
            self.header = Header(**stored)
            for line in body.split(b"\n")[:-1]:
                name, _, rows = line.partition(b"\t")
                self._lines[name.decode()] = rows
        except (FileError, ValueError, TypeError, KeyError, AttributeError):
            self._forget_everything()

    def _forget_everything(self) -> None:
        self.header = Header()
        self._lines.clear()
        self._threads.clear()
        self._changed.clear()


def _encode(rows: ThreadRows) -> bytes:
    stored = {"files": _columns(rows.files), "history": _columns(rows.history)}
    return json.dumps(stored, separators=(",", ":")).encode()  # all ASCII: half the time to read back


def _decode(line: bytes) -> ThreadRows:
    stored = json.loads(line)
    files = [FileRow._make(row) for row in _rows(stored["files"])]
    history = [HistoryRow._make(row) for row in _rows(stored["history"])]
    return ThreadRows({row[0]: row for row in files}, {row[0]: row for row in history})


def _columns(rows: dict[str, Any]) -> list[Any]:
    """Turn rows on their side; a column of one value is stored once."""
    columns = [list(column) for column in zip(*rows.values(), strict=True)]
    return [column if any(value != column[0] for value in column) else [column[0]] for column in columns]


def _rows(columns: list[list[Any]]) -> Any:
    size = max(map(len, columns), default=0)
    return zip(*(column if len(column) == size else column * size for column in columns), strict=True)


_EMPTY = _encode(ThreadRows({}, {}))
