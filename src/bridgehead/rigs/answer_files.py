"""Long answers kept to be given again while nothing they depend on has changed (work_tree_state.py).

    {"format": ..., "state": bytes of it, "told": [...], "checksum": ...}        one line of JSON
    the state, then the answer

Caches under the git directory like the index: missing, torn, foreign or outdated ones are made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from bridgehead import __version__
from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic

WORTH_KEEPING = 200  # envelopes; with fewer, start-up is all of the time
MOST_CHARACTERS = 64 * 1024 * 1024

_FORMAT = f"2 of {__version__}"  # another version may word its answers differently
_MOST_BYTES = 4 * MOST_CHARACTERS


class Answer(NamedTuple):
    """What was put out, in UTF-8, and what was said beside it."""

    encoded: bytes
    told: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.encoded.decode()


class AnswerFile:
    """One kept answer."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / "answers" / name

    def find(self, state: str | None) -> Answer | None:
        """Return the answer if it was made from this state."""
        if state is None:
            return None
        try:
            content = read_bounded(self._path, _MOST_BYTES)
            start = content.index(b"\n") + 1
            header = json.loads(content[:start])
            end = start + int(header["state"])
            if header["format"] != _FORMAT or content[start:end] != _state_bytes(state):
                return None
            encoded = content[end:]
            return Answer(encoded, tuple(header["told"])) if header["checksum"] == crc32(encoded) else None
        except (FileError, ValueError, TypeError, KeyError):
            return None

    def keeping(self, state: str | None, pieces: Iterable[str], told: Sequence[str]) -> Iterator[str]:
        """Pass an answer on as it is made, and keep it once it is whole; `told` fills meanwhile."""
        given: list[str] = []
        length = 0
        for piece in pieces:
            length += len(piece)
            if length <= MOST_CHARACTERS:
                given.append(piece)
            else:
                given.clear()
            yield piece
        if length <= MOST_CHARACTERS:
            self.keep(state, "".join(given), told)

    def keep(self, state: str | None, text: str, told: Sequence[str] = ()) -> None:
        """Store an answer in place of the last one; not being able to costs time later, nothing else."""
        if state is None:
            return
        seen = _state_bytes(state)
        with suppress(FileError, UnicodeEncodeError):  # the latter: names that are no UTF-8
            encoded = text.encode()
            header = {"format": _FORMAT, "state": len(seen), "told": list(told), "checksum": crc32(encoded)}
            make_dir(self._path.parent)
            write_atomic(self._path, b"".join([json.dumps(header).encode(), b"\n", seen, encoded]))


def _state_bytes(state: str) -> bytes:
    return state.encode("utf-8", "surrogateescape")
