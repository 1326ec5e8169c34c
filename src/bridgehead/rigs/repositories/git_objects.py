"""Read many objects in one `git cat-file --batch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.rigs.repositories.base import MAX_FILE_BYTES
from bridgehead.rigs.repositories.git_command import Git

_MISSING = b" missing"


def read_objects(git: Git, ids: Sequence[str]) -> dict[str, bytes | None]:
    """Return contents by id; None for one that is too large for an envelope or not there."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    sizes = git.read("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=_lines(wanted)).text
    small = [line.split()[0] for line in sizes.splitlines() if _fits(line)]
    contents = (
        dict(_parse_batch(git.read("cat-file", "--batch", "--buffer", stdin=_lines(small)).out))
        if small
        else {}
    )
    return {name: contents.get(name) for name in wanted}


def _fits(line: str) -> bool:
    size = line.rpartition(" ")[2]
    return size.isdecimal() and int(size) <= MAX_FILE_BYTES


def _lines(ids: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in ids).encode()


def _parse_batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    start = 0
    while start < len(output):
        end = output.index(b"\n", start)
        header = output[start:end]
        start = end + 1
        if header.endswith(_MISSING):
            continue
        name, _, size = header.split(b" ")
        content = output[start : start + int(size)]
        start += int(size) + 1
        yield name.decode(), content
