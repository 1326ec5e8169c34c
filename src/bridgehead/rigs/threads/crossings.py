"""Remember what crossed with a turn of ours, and what somebody has looked at.

A push retry puts our turn on top of what others pushed first (rigs §9.5), so history
alone would suggest that we knew it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories.work_tree import keep

_FILE_NAME = "crossings.json"
_MAX_BYTES = 16 * 1024 * 1024
_SEEN_NAME = "seen.json"
_MOST_SEEN = 20_000  # the oldest are in threads that ended long ago
_BEGUN = ""  # among the paths that were seen
_MOST_TURNS = 2000  # of ours; the oldest are answered or closed by then


class Crossings:
    """What crossed with our turns in one clone."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self._crossed = self._read()

    def with_turn(self, path: str) -> frozenset[str]:
        """Return the paths that were unknown when the turn at `path` was written."""
        return frozenset(self._crossed.get(path, ()))

    def note(self, path: str, crossed: Iterable[str]) -> None:
        """Remember what crossed with a turn. The caller holds the lock."""
        known = self._crossed.get(path, [])
        self._crossed[path] = list(dict.fromkeys([*known, *crossed]))
        newest = list(self._crossed.items())[-_MOST_TURNS:]
        make_dir(self._path.parent)
        write_atomic(self._path, json.dumps(dict(newest), separators=(",", ":")))

    def _read(self) -> dict[str, list[str]]:
        try:
            stored = json.loads(read_bounded(self._path, _MAX_BYTES))
            return {
                str(path): list(map(str, others)) for path, others in stored.items()
            }
        except (FileError, ValueError, TypeError, AttributeError):
            return {}


def seen_state(directory: Path) -> str:
    """Return a text that changes when somebody looks at an answer."""
    return _state(directory / _SEEN_NAME)


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}"


class Seen:
    """The answers to this rig that were shown to somebody here."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _SEEN_NAME
        self.paths: dict[str, None] = {}
        try:
            stored = json.loads(read_bounded(self._path, _MAX_BYTES))
            self.paths = dict.fromkeys(map(str, stored))
        except (FileError, ValueError, TypeError):
            self.paths = {}
        self.is_new = _BEGUN not in self.paths

    def begin(self) -> None:
        """Remember that everything was looked at once."""
        self.note([_BEGUN])

    def note(self, paths: Iterable[str]) -> None:
        """Remember that these were seen; if that fails, they are shown once more."""
        fresh = [path for path in paths if path not in self.paths]
        if not fresh:
            return
        self.paths.update(dict.fromkeys(fresh))
        newest = list(self.paths)[-_MOST_SEEN:]
        keep(self._path, json.dumps(newest, separators=(",", ":")))
