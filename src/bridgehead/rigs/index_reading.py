"""Read many envelope files into rows of the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from bridgehead.rigs.envelope import Envelope, parse_envelope
from bridgehead.rigs.index_rows import FileRow, judged_row, symlink_row, unjudged_row, unreadable_row
from bridgehead.rigs.repositories.base import Repository
from bridgehead.rigs.verification_kinds import Kind

UNCACHEABLE = "~"
LARGEST_KEPT = 256 * 1024


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
    may_be_kept = is_lasting(content) and len(raw) <= LARGEST_KEPT
    return ReadRow(thread, row, parsed if may_be_kept and isinstance(parsed, Envelope) else None)


def is_lasting(content: str) -> bool:
    """Tell whether this is the id of a blob, so that it means the same tomorrow."""
    return not content.startswith(UNCACHEABLE)


def is_content_of(repository: Repository, raw: bytes, blob: str) -> bool:
    """Tell whether a file holds a blob, line ends aside: git may have converted them on checkout."""
    return repository.blob_id(raw) == blob or (
        b"\r\n" in raw and repository.blob_id(raw.replace(b"\r\n", b"\n")) == blob
    )
