"""The files behind the envelope index: caches under the git directory, never the source of truth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.base import Repository
from bridgehead.rigs.threads.index_rows import (
    FileRow,
    HistoryRow,
    ListedEnvelope,
    judged_row,
    symlink_row,
    unjudged_row,
    unreadable_row,
)
from bridgehead.rigs.trust.verification_kinds import Kind

FORMAT = 2
_MAX_BYTES = 1024 * 1024 * 1024
_FILE_NAME = "envelopes.idx"
UNCACHEABLE = "~"
MAX_KEPT_BYTES = 256 * 1024


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
                self._threads[name] = _decode(self._lines[name]) if name in self._lines else ThreadRows({}, {})
            except (ValueError, TypeError, KeyError, IndexError) as error:
                self._forget_everything()
                raise IndexSpoilt from error
        return self._threads[name]

    def still_holds(self, thread: str, names: Sequence[str], *, with_findings: bool) -> bool:
        """Tell, without reading them, whether the rows are of these files, all blobs, and so still right."""
        known = self._lines.get(thread, b"").partition(b" ")[0]
        judged = _extent(names, judged=True)
        return known == judged or (not with_findings and known == _extent(names, judged=False))

    def names_any(self, thread: str, words: Iterable[str]) -> bool:
        """Tell, without reading them, whether the rows of a thread may hold one of these as a value."""
        line = self._lines.get(thread, b"")
        return any(b'"%b"' % word.encode() in line for word in words)

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
        lines = (b"%b\t%b\n" % (name.encode(), line) for name, line in self._lines.items() if not line.endswith(_EMPTY))
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


def mentions(directory: Path, name: str) -> bool:
    """Tell, without looking at the bridge, whether the stored rows hold this text; they may be behind."""
    try:
        return b'"%b"' % name.encode() in read_bounded(directory / _FILE_NAME, _MAX_BYTES)
    except FileError:
        return False


def _encode(rows: ThreadRows) -> bytes:
    stored = {"files": _columns(rows.files), "history": _columns(rows.history)}
    files = rows.files.values()
    extent = _extent(list(rows.files), judged=all(row.findings is not None for row in files))
    if not all(is_lasting(row.content) for row in files):
        extent = b"-"
    # All ASCII: half the time to read back.
    return b"%b %b" % (extent, json.dumps(stored, separators=(",", ":")).encode())


def _extent(names: Sequence[str], *, judged: bool) -> bytes:
    return b"%d%d.%d" % (judged, len(names), crc32("\0".join(sorted(names)).encode("utf-8", "surrogateescape")))


def _decode(line: bytes) -> ThreadRows:
    stored = json.loads(line.partition(b" ")[2])
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


_EMPTY = _encode(ThreadRows({}, {})).partition(b" ")[2]


class Wanted(NamedTuple):
    """A file to read, and by what its content will be known."""

    thread: str
    filename: str
    content: str
    is_symlink: bool = False
    is_blob: bool = False  # `content` is a blob id, to be checked against what is read


class ReadRow(NamedTuple):
    """A row, and the whole envelope where it was read, may be kept under the row's content, and is not too large."""

    thread: str
    row: FileRow
    envelope: Envelope | None = None


def read_rows(repository: Repository, wanted: Iterable[Wanted], *, with_findings: bool) -> Iterator[ReadRow]:
    """Read the files, thread by thread; one that cannot be read becomes a row that says so."""
    for thread, group in groupby(wanted, key=lambda file: file.thread):
        files = list(group)
        contents = repository.read_files(thread, [file.filename for file in files])
        for file, raw in zip(files, contents, strict=True):
            yield _read_one(repository, file, raw, with_findings=with_findings)


def _read_one(repository: Repository, file: Wanted, raw: bytes | None, *, with_findings: bool) -> ReadRow:
    thread, filename, content = file.thread, file.filename, file.content
    if file.is_symlink:
        return ReadRow(thread, symlink_row(filename, content))
    if raw is None:
        return ReadRow(thread, unreadable_row(filename, UNCACHEABLE, str(Kind.PARSE_FAILED)))
    if file.is_blob and not is_content_of(repository, raw, content):
        content = UNCACHEABLE  # it changed after we looked
    if not with_findings:
        return ReadRow(thread, unjudged_row(filename, content, raw))
    parsed = parse_envelope(raw)
    row = judged_row(thread, filename, content, parsed)
    may_be_kept = is_lasting(content) and len(raw) <= MAX_KEPT_BYTES
    return ReadRow(thread, row, parsed if may_be_kept and isinstance(parsed, Envelope) else None)


def is_lasting(content: str) -> bool:
    """Tell whether this is the id of a blob, so that it means the same tomorrow."""
    return not content.startswith(UNCACHEABLE)


def is_content_of(repository: Repository, raw: bytes, blob: str) -> bool:
    """Tell whether a file holds a blob, line ends aside: git may have converted them on checkout."""
    return repository.blob_id(raw) == blob or (
        b"\r\n" in raw and repository.blob_id(raw.replace(b"\r\n", b"\n")) == blob
    )


def read_envelopes(
    repository: Repository, envelopes: Sequence[ListedEnvelope], loaded: Mapping[str, Envelope]
) -> Iterator[Envelope | None]:
    """Yield what listed envelopes of one thread hold, in the order given; None for one that went away meanwhile.

    Those `loaded`, by blob, are not read again.
    """
    unread = [listed.turn for listed in envelopes if listed.content not in loaded]
    contents = repository.read_files(unread[0].thread_id, [turn.filename for turn in unread]) if unread else iter(())
    for listed in envelopes:
        if listed.content in loaded:
            yield loaded[listed.content]
        else:
            raw = next(contents)
            parsed = parse_envelope(raw) if raw is not None else None
            yield parsed if isinstance(parsed, Envelope) else None
