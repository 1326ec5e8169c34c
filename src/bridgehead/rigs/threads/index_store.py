"""The files behind the envelope index: caches under the git directory, never the source of truth."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from zlib import crc32

from bridgehead.errors import FileError
from bridgehead.host.files import opened_regular
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.records import Stamp
from bridgehead.rigs.repositories.work_tree import keep
from bridgehead.rigs.threads import index_rows
from bridgehead.rigs.trust.verification_kinds import Kind

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.repository import GitRepository

FORMAT = 3
_FILE_NAME = "envelopes.idx"
UNCACHEABLE = "~"
MAX_KEPT_BYTES = 256 * 1024
_Row = TypeVar("_Row", index_rows.FileRow, index_rows.HistoryRow)


class Header(NamedTuple):
    """What the rows were made from."""

    head: str | None = None  # history is known up to here
    commits: int = 0
    linear: bool = True  # no merges: each commit descends from all before it


class Outline(NamedTuple):
    """What is known of a thread without reading its rows."""

    extent: str = ""  # which files they are of, if all of them are blobs
    tree: str = ""  # what HEAD had there, when nothing in the work tree was different
    stamp: str = ""  # of the directory when its names were last read
    rigs: Sequence[
        str
    ] = ()  # who wrote and was written to; nobody: it holds no envelope


class IndexSpoilt(Exception):
    """Stored rows are damaged or make no sense; the index has been emptied, so ask again."""


class Rows(Generic[_Row]):
    """One half of the rows, by thread and file name. They are read when asked for; most never are."""

    def __init__(self, make: Callable[[Iterable[Any]], _Row]) -> None:
        self._make: Callable[[Iterable[Any]], _Row] = make
        self._read: dict[str, dict[str, _Row]] = {}
        self.changed: set[str] = set()
        self.stored: dict[str, tuple[bytes | memoryview, int]] = {}  # with the checksum

    def of(self, thread: str) -> dict[str, _Row]:
        if thread not in self._read:
            content, checksum = self.stored.get(thread, _NOTHING)
            if crc32(content) != checksum:
                raise ValueError("damaged")
            self._read[thread] = {
                row[0]: row
                for row in map(self._make, _rows(json.loads(bytes(content))))
            }
        return self._read[thread]

    def put_away(self, thread: str) -> dict[str, _Row] | None:
        """Keep the rows of a thread in the form in which they are stored only; return them if that is new."""
        rows = self._read.pop(thread, None)
        if rows is None or thread not in self.changed:
            return None
        content = json.dumps(
            _columns(rows), separators=(",", ":")
        ).encode()  # all ASCII: half the time to read back
        self.stored[thread] = (content, crc32(content))
        return rows

    def clear(self) -> None:
        self._read.clear()
        self.changed.clear()
        self.stored.clear()


class IndexFile:
    """The stored rows; whoever changes some says so with `touch` of that half."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self.header = Header()
        self.outlines: dict[str, Outline] = {}
        self._is_noted = False  # something that the file lacks
        self.file_rows = Rows(index_rows.FileRow._make)
        self.history_rows = Rows(index_rows.HistoryRow._make)
        self._load()

    def files(self, thread: str) -> dict[str, index_rows.FileRow]:
        return self._rows_of(self.file_rows, thread)

    def history(self, thread: str) -> dict[str, index_rows.HistoryRow]:
        return self._rows_of(self.history_rows, thread)

    def outline(self, thread: str) -> Outline:
        return self.outlines.get(thread, _NO_OUTLINE)

    def still_holds(
        self, thread: str, tree: str, names: Sequence[str], *, with_findings: bool
    ) -> bool:
        """Tell, without reading them, whether the rows are of these files of a tree, all blobs, and so still right."""
        known = self.outline(thread)
        judged = known.extent == _extent(names, judged=True)
        return known.tree == tree and (
            judged
            or (not with_findings and known.extent == _extent(names, judged=False))
        )

    def is_unchanged(
        self, thread: str, tree: str, stamp: Stamp | None, *, with_findings: bool
    ) -> bool:
        """Tell the same from the directory alone: it was not written to since its names were read."""
        known = self.outline(thread)
        is_enough = known.extent.startswith(_JUDGED) or (
            bool(known.extent) and not with_findings
        )
        return (
            is_enough
            and known.tree == tree
            and stamp is not None
            and known.stamp == _as_text(stamp)
        )

    def note(self, thread: str, tree: str, stamp: Stamp | None) -> None:
        """Remember what the rows are of: a tree, and a directory that has been left alone for a while."""
        known = self.outline(thread)
        noted = known._replace(
            tree=tree, stamp=_as_text(stamp) if stamp else known.stamp
        )
        if noted != known:
            self.outlines[thread] = noted
            self._is_noted = True

    def mark(self, thread: str) -> tuple[int, int]:
        """Return what changes with the rows of a thread; those that were changed must be put away."""
        return self.file_rows.stored.get(thread, _NOTHING)[
            1
        ], self.history_rows.stored.get(thread, _NOTHING)[1]

    def names_any(self, thread: str, rigs: Iterable[str]) -> bool:
        """Tell, without reading them, whether one of these rigs wrote or was written to in a thread."""
        return not set(rigs).isdisjoint(self.outline(thread).rigs)

    def put_away(self, thread: str) -> None:
        """Let go of the rows of a thread that nobody needs at once."""
        if (rows := self.file_rows.put_away(thread)) is not None:
            self.outlines[thread] = _with_rows(self.outline(thread), rows.values())
        self.history_rows.put_away(thread)

    def clear_history(self) -> None:
        """Forget where everything came from, not what it says."""
        self.history_rows.clear()
        self.history_rows.changed |= self.outlines.keys()

    def save(self, header: Header) -> None:
        """Write the file if anything changed. Not being able to write costs the next command time, nothing else."""
        changed = self.file_rows.changed | self.history_rows.changed
        if header == self.header and not changed and not self._is_noted:
            return
        self.header = header
        for name in changed:
            self.put_away(name)
        self.file_rows.changed.clear()
        self.history_rows.changed.clear()
        self._is_noted = False
        threads, parts = [], []
        for name in dict.fromkeys((*self.file_rows.stored, *self.history_rows.stored)):
            halves = [
                rows.stored.get(name, _NOTHING)
                for rows in (self.file_rows, self.history_rows)
            ]
            if any(content != _NOTHING[0] for content, _ in halves):
                sizes = [
                    number
                    for content, checksum in halves
                    for number in (len(content), checksum)
                ]
                threads.append([name, *self.outline(name), *sizes])
                parts += [content for content, _ in halves]
        listed = json.dumps(threads, separators=(",", ":")).encode()
        first = json.dumps(
            {"format": FORMAT, **header._asdict(), "checksum": crc32(listed)}
        ).encode()
        keep(self._path, b"\n".join([first, listed, b"".join(parts)]))

    def _load(self) -> None:
        try:
            with opened_regular(self._path) as handle:
                content = mmap(
                    handle, 0, access=ACCESS_READ
                )  # of a large file, most is never looked at
            start = content.find(b"\n") + 1
            end = content.find(b"\n", start)
            stored, listed = json.loads(content[:start]), content[start:end]
            if stored.pop("format") != FORMAT or stored.pop("checksum") != crc32(
                listed
            ):
                return
            self.header = Header(**stored)
            rest = memoryview(content)[end + 1 :]
            for (
                name,
                extent,
                tree,
                stamp,
                rigs,
                size,
                checksum,
                history_size,
                history_checksum,
            ) in json.loads(listed):
                self.outlines[name] = Outline(extent, tree, stamp, rigs)
                self.file_rows.stored[name] = (rest[:size], checksum)
                rest = rest[size:]
                self.history_rows.stored[name] = (rest[:history_size], history_checksum)
                rest = rest[history_size:]
        except (
            FileError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
        ):
            self._forget_everything()

    def _rows_of(self, rows: Rows[_Row], thread: str) -> dict[str, _Row]:
        try:
            return rows.of(thread)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            self._forget_everything()
            raise IndexSpoilt from error

    def _forget_everything(self) -> None:
        self.header = Header()
        self.outlines.clear()
        self.file_rows.clear()
        self.history_rows.clear()


def mentions(directory: Path, name: str) -> bool:
    """Tell, without looking at the bridge, whether a rig is known to the stored rows; they may be behind."""
    return any(
        name in outline.rigs for outline in IndexFile(directory).outlines.values()
    )


def _with_rows(outline: Outline, rows: Collection[index_rows.FileRow]) -> Outline:
    told = [
        (row.sender, *([row.to] if isinstance(row.to, str) else row.to))
        for row in rows
        if row.readable
    ]
    lasting = all(is_lasting(row.content) for row in rows)
    judged = all(row.findings is not None for row in rows)
    extent = _extent([row.filename for row in rows], judged=judged) if lasting else ""
    return outline._replace(
        extent=extent, rigs=sorted({name for names in told for name in names})
    )


_JUDGED = "1"


def _extent(names: Sequence[str], *, judged: bool) -> str:
    checksum = crc32("\0".join(sorted(names)).encode("utf-8", "surrogateescape"))
    return f"{_JUDGED if judged else 0}{len(names)}.{checksum}"


def _as_text(stamp: Stamp) -> str:
    return f"{stamp.inode}.{stamp.modified_ns}.{stamp.changed_ns}"


def _columns(rows: Mapping[str, Any]) -> list[Any]:
    """Turn rows on their side; a column of one value is stored once."""
    columns = [list(column) for column in zip(*rows.values(), strict=True)]
    return [
        column if any(value != column[0] for value in column) else [column[0]]
        for column in columns
    ]


def _rows(columns: list[list[Any]]) -> Any:
    size = max(map(len, columns), default=0)
    return zip(
        *(column if len(column) == size else column * size for column in columns),
        strict=True,
    )


_NOTHING = (b"[]", crc32(b"[]"))
_NO_OUTLINE = Outline()


class Wanted(NamedTuple):
    """A file to read, and by what its content will be known."""

    filename: str
    content: str
    is_symlink: bool = False
    is_blob: bool = False  # `content` is a blob id, to be checked against what is read


class ReadRow(NamedTuple):
    """A row, and the whole envelope where it was read, may be kept under the row's content, and is not too large."""

    row: index_rows.FileRow
    envelope: Envelope | None = None


def read_rows(
    repository: "GitRepository",
    thread: str,
    wanted: Sequence[Wanted],
    *,
    with_findings: bool,
) -> Iterator[ReadRow]:
    """Read files of a thread; one that cannot be read becomes a row that says so."""
    contents = (
        repository.read_files(thread, [file.filename for file in wanted])
        if wanted
        else iter(())
    )
    for file, raw in zip(wanted, contents, strict=True):
        yield _read_one(repository, thread, file, raw, with_findings=with_findings)


def _read_one(
    repository: "GitRepository",
    thread: str,
    file: Wanted,
    raw: bytes | None,
    *,
    with_findings: bool,
) -> ReadRow:
    filename, content = file.filename, file.content
    if file.is_symlink:
        return ReadRow(index_rows.symlink_row(filename, content))
    if raw is None:
        return ReadRow(
            index_rows.unreadable_row(filename, UNCACHEABLE, str(Kind.PARSE_FAILED))
        )
    if file.is_blob and not is_content_of(repository, raw, content):
        content = UNCACHEABLE  # it changed after we looked
    if not with_findings:
        return ReadRow(index_rows.unjudged_row(filename, content, raw))
    parsed = parse_envelope(raw)
    row = index_rows.judged_row(thread, filename, content, parsed)
    may_be_kept = is_lasting(content) and len(raw) <= MAX_KEPT_BYTES
    return ReadRow(
        row, parsed if may_be_kept and isinstance(parsed, Envelope) else None
    )


def is_lasting(content: str) -> bool:
    """Tell whether this is the id of a blob, so that it means the same tomorrow."""
    return not content.startswith(UNCACHEABLE)


def is_content_of(repository: "GitRepository", raw: bytes, blob: str) -> bool:
    """Tell whether a file holds a blob, line ends aside: git may have converted them on checkout."""
    return repository.blob_id(raw) == blob or (
        b"\r\n" in raw and repository.blob_id(raw.replace(b"\r\n", b"\n")) == blob
    )


def read_envelopes(
    repository: "GitRepository",
    envelopes: Sequence[index_rows.ListedEnvelope],
    loaded: Mapping[str, Envelope],
) -> Iterator[Envelope | None]:
    """Yield what listed envelopes of one thread hold, in the order given; None for one that went away meanwhile.

    Those `loaded`, by blob, are not read again.
    """
    unread = [listed.turn for listed in envelopes if listed.content not in loaded]
    contents = (
        repository.read_files(unread[0].thread_id, [turn.filename for turn in unread])
        if unread
        else iter(())
    )
    for listed in envelopes:
        if listed.content in loaded:
            yield loaded[listed.content]
        else:
            raw = next(contents)
            parsed = parse_envelope(raw) if raw is not None else None
            yield parsed if isinstance(parsed, Envelope) else None
