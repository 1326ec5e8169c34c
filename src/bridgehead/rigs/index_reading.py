"""Read many envelope files into rows of the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from bridgehead.rigs.index_rows import FileRow, read_row, symlink_row, unreadable_row
from bridgehead.rigs.repositories.base import Repository
from bridgehead.rigs.verification_kinds import Kind

UNCACHEABLE = "~"


class Wanted(NamedTuple):
    """A file to read, and by what its content will be known."""

    thread: str
    filename: str
    content: str
    is_symlink: bool = False
    is_blob: bool = False  # `content` is a blob id, to be checked against what is read


class ReadRow(NamedTuple):
    thread: str
    row: FileRow


def read_rows(repository: Repository, wanted: Iterable[Wanted], *, with_findings: bool) -> Iterator[ReadRow]:
    """Read the files, thread by thread; one that cannot be read becomes a row that says so."""
    for thread, group in groupby(wanted, key=lambda file: file.thread):
        files = list(group)
        contents = repository.read_files(thread, [file.filename for file in files])
        for file, raw in zip(files, contents, strict=True):
            yield ReadRow(thread, _read_one(repository, file, raw, with_findings=with_findings))


def _read_one(repository: Repository, file: Wanted, raw: bytes | None, *, with_findings: bool) -> FileRow:
    if file.is_symlink:
        return symlink_row(file.filename, file.content)
    if raw is None:
        return unreadable_row(file.filename, UNCACHEABLE, str(Kind.PARSE_FAILED))
    content = file.content
    if file.is_blob and not is_content_of(repository, raw, content):
        content = UNCACHEABLE  # it changed after we looked
    return read_row(file.thread, file.filename, content, raw, with_findings=with_findings)


def is_content_of(repository: Repository, raw: bytes, blob: str) -> bool:
    """Tell whether a file holds a blob, line ends aside: git may have converted them on checkout."""
    return repository.blob_id(raw) == blob or (
        b"\r\n" in raw and repository.blob_id(raw.replace(b"\r\n", b"\n")) == blob
    )
