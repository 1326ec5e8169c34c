"""Long answers kept to be given again while nothing they depend on has changed (work_tree_state.py).

    {"format": 1, "state": ..., "told": [...], "checksum": ...}         one line of JSON
    the answer

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

_FORMAT = f"1 of {__version__}"  # another version may word its answers differently
_MOST_BYTES = 4 * MOST_CHARACTERS


class Answer(NamedTuple):
    """What was put out, and what was said beside it."""

    text: str
    told: tuple[str, ...] = ()


class AnswerFile:
    """One kept answer. Without a directory nothing is ever kept."""

    def __init__(self, directory: Path | None, name: str) -> None:
        self._path = directory / "answers" / name if directory else None

    def find(self, state: str | None) -> Answer | None:
        """Return the answer if it was made from this state."""
        if self._path is None or state is None:
            return None
        try:
            first, _, kept = read_bounded(self._path, _MOST_BYTES).partition(b"\n")
            header = json.loads(first)
            if (header["format"], header["state"], header["checksum"]) != (_FORMAT, state, crc32(kept)):
                return None
            return Answer(kept.decode("utf-8", "surrogatepass"), tuple(header["told"]))
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
            self.keep(state, Answer("".join(given), tuple(told)))

    def keep(self, state: str | None, answer: Answer) -> None:
        """Store an answer in place of the last one; not being able to costs time later, nothing else."""
        if self._path is None or state is None:
            return
        kept = answer.text.encode("utf-8", "surrogatepass")
        header = {"format": _FORMAT, "state": state, "told": list(answer.told), "checksum": crc32(kept)}
        with suppress(FileError):
            make_dir(self._path.parent)
            write_atomic(self._path, json.dumps(header).encode() + b"\n" + kept)
