"""Read many envelope files into rows of the index.

A cold index of a large repository is the one moment where this takes long, so half of the work is then given to a child
process. It is a copy of this one (fork), which is only safe, and only done, while there are no other threads.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from bridgehead.rigs.index_rows import FileRow, read_row, symlink_row, unreadable_row
from bridgehead.rigs.repositories.base import Repository
from bridgehead.rigs.verification_kinds import Kind

UNCACHEABLE = "~"
WORTH_A_CHILD = 2000


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


def read_rows(repository: Repository, wanted: Sequence[Wanted], *, with_findings: bool) -> list[ReadRow]:
    """Read the files; one that cannot be read becomes a row that says so."""
    if len(wanted) < WORTH_A_CHILD or (os.cpu_count() or 1) < 2 or threading.active_count() > 1:
        return list(_read(repository, wanted, with_findings=with_findings))
    return _read_with_child(repository, wanted, with_findings=with_findings)


def _read(repository: Repository, wanted: Iterable[Wanted], *, with_findings: bool) -> Iterator[ReadRow]:
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


def _read_with_child(
    repository: Repository, wanted: Sequence[Wanted], *, with_findings: bool
) -> list[ReadRow]:
    middle = len(wanted) // 2
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        _work_as_child(repository, wanted[middle:], sending, with_findings=with_findings)
    os.close(sending)
    try:
        rows = list(_read(repository, wanted[:middle], with_findings=with_findings))
        with open(receiving, "rb", closefd=False) as pipe:
            sent = pipe.read()
    finally:
        os.close(receiving)
        os.waitpid(child, 0)
    return rows + _received(repository, wanted[middle:], sent, with_findings=with_findings)


def _work_as_child(
    repository: Repository, wanted: Sequence[Wanted], pipe: int, *, with_findings: bool
) -> None:
    """Send the rows and vanish, whatever happens: nothing of the parent may run a second time here."""
    with suppress(BaseException):
        rows = list(_read(repository, wanted, with_findings=with_findings))
        with open(pipe, "wb") as stream:
            stream.write(json.dumps(rows, separators=(",", ":")).encode())
    os._exit(0)


def _received(
    repository: Repository, wanted: Sequence[Wanted], sent: bytes, *, with_findings: bool
) -> list[ReadRow]:
    try:
        rows = [ReadRow(thread, FileRow._make(row)) for thread, row in json.loads(sent)]
    except (ValueError, TypeError):
        rows = []  # the child was killed; its share is read here
    return rows if len(rows) == len(wanted) else list(_read(repository, wanted, with_findings=with_findings))
