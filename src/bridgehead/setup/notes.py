"""What set-up changed, kept in the user's data directory so that it can be taken back exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bridgehead.errors import FileError
from bridgehead.host.directories import make_private_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.setup.hunk import Hunk

FILE: Final = "setup.json"
MOST_BYTES: Final = 32 << 20


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """One file: the edit, whether it and which directories were made for it, and who wants it there."""

    hunk: Hunk
    created: bool
    directories: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Notes:
    """The notes of one user."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._files = self._read()

    def find(self, path: Path) -> Noted | None:
        return self._files.get(str(path))

    def keep(self, path: Path, noted: Noted) -> None:
        self._files[str(path)] = noted
        self._write()

    def forget(self, path: Path) -> None:
        if self._files.pop(str(path), None) is not None:
            self._write()

    def _read(self) -> dict[str, Noted]:
        try:
            return msgspec.json.decode(read_bounded(self._path, MOST_BYTES), type=dict[str, Noted])
        except FileMissing:
            return {}
        except msgspec.DecodeError as error:
            raise FileError(
                f"{self._path} is damaged: {error}",
                hint="move it away; --undo then removes what it recognises",
            ) from error

    def _write(self) -> None:
        make_private_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.encode(self._files), private=True)
