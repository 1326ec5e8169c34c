"""Printed listings, stored and printed again while the work tree they were made from is in the same state."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from bridgehead import __version__
from bridgehead.errors import FileError
from bridgehead.host.files import read_bounded
from bridgehead.rigs.envelope.names import is_envelope_name
from bridgehead.rigs.repositories.work_tree import keep

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.survey import GitSurvey
    from bridgehead.rigs.repositories.records import Stamp

WORTH_CACHING = 200  # envelopes; with fewer, start-up is all of the time
MAX_CHARACTERS = 64 * 1024 * 1024
_FORMAT = f"2 of {__version__}"  # another version may word its listings differently
_MAX_BYTES = 4 * MAX_CHARACTERS
_RACY_NS = (
    2_000_000_000  # a file may change twice within one tick of the clock that stamps it
)


class CachedOutput(NamedTuple):
    """What went to stdout, in UTF-8, and the messages beside it."""

    encoded: bytes
    messages: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.encoded.decode()


class OutputCache:
    """One stored listing."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / "answers" / name

    def find(self, state: str | None) -> CachedOutput | None:
        """Return the listing if it was made from this state."""
        if state is None:
            return None
        try:
            content = read_bounded(self._path, _MAX_BYTES)
            start = content.index(b"\n") + 1
            header = json.loads(content[:start])
            end = start + int(header["state"])
            if header["format"] != _FORMAT or content[start:end] != _state_bytes(state):
                return None
            encoded = content[end:]
            return (
                CachedOutput(encoded, tuple(header["told"]))
                if header["checksum"] == crc32(encoded)
                else None
            )
        except (FileError, ValueError, TypeError, KeyError):
            return None

    def storing(
        self, state: str | None, pieces: Iterable[str], messages: Sequence[str]
    ) -> Iterator[str]:
        """Pass a listing on as it is made, and store it once it is whole; `messages` fills meanwhile."""
        given: list[str] = []
        length = 0
        for piece in pieces:
            length += len(piece)
            if length <= MAX_CHARACTERS:
                given.append(piece)
            else:
                given.clear()
            yield piece
        if length <= MAX_CHARACTERS:
            self.store(state, "".join(given), messages)

    def store(self, state: str | None, text: str, messages: Sequence[str] = ()) -> None:
        """Store a listing in place of the last one; not being able to costs time later, nothing else."""
        if state is None:
            return
        seen = _state_bytes(state)
        with suppress(UnicodeEncodeError):  # names that are no UTF-8
            encoded = text.encode()
            header = {
                "format": _FORMAT,
                "state": len(seen),
                "told": list(messages),
                "checksum": crc32(encoded),
            }
            keep(
                self._path,
                b"".join([json.dumps(header).encode(), b"\n", seen, encoded]),
            )


def _state_bytes(state: str) -> bytes:
    return state.encode("utf-8", "surrogateescape")


def is_settled(stamp: "Stamp", now_ns: int) -> bool:
    """Tell whether a stamp is old enough to tell this content from a later one."""
    return stamp.changed_ns < now_ns - _RACY_NS


def state_of(
    survey: "GitSurvey",
    stamp: "Callable[[str], Stamp | None]",
    now_ns: int,
    kept_apart: str = "",
) -> str | None:
    """Return the state; None while some file is too fresh to be known without reading it.

    `kept_apart` is the state of the quarantine, which decides what is listed.
    """
    parts = [
        survey.head or "",
        survey.index_text,
        "",
        *(file.line for file in survey.dirty),
    ]
    if kept_apart:
        parts += ["", kept_apart]
    for thread, names in survey.names().items():
        parts += ["", thread, *names]
    for path in _not_vouched_for(survey):
        found = stamp(path)
        if found is not None and not is_settled(found, now_ns):
            return None
        parts += ["", path, str(found)]
    return "\0".join(parts)


def _not_vouched_for(survey: "GitSurvey") -> Iterator[str]:
    """Yield the files whose content git does not answer for: untracked, ignored, changed, in conflict."""
    vouched_for = survey.tracked_paths() - {file.path for file in survey.dirty}
    for thread, names in survey.names().items():
        loose = {f"{thread}/{name}" for name in names} - vouched_for
        yield from sorted(filter(is_envelope_name, loose))
