"""The private copy of the scope that inspecting seats work in (design §5 item 5).

It holds what the scope shows and nothing else: no secrets, no agent configuration, no git directory. It lives in a
folder of the user's own, under the council's id, until the council ends: a resumed run finds it again, and an agent's
session stays valid because the path does not change.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.council.scope import Scope
from bridgehead.errors import FileError
from bridgehead.host.files import make_private_dir, read_bounded, write_atomic

_COMPLETE: Final = "complete"
_TREE: Final = "tree"
_EMPTY: Final = "empty"
_MARK_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy on disk. `tree` is where seats that read files work, `empty` is for those that must not."""

    folder: Path

    @property
    def tree(self) -> Path:
        return self.folder / _TREE

    @property
    def empty(self) -> Path:
        return self.folder / _EMPTY

    def remove(self) -> None:
        """Take the copy away; safe to repeat."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)


def take_snapshot(scope: Scope, *, folder: Path, review_id: str) -> Snapshot:
    """The snapshot of a council: the one that is there when it is complete and of this scope, else a new one."""
    if review_id in ("", ".", "..") or "/" in review_id:
        raise ValueError(f"{review_id!r} names no folder of its own")
    snapshot = Snapshot(folder / review_id)
    mark = snapshot.folder / _COMPLETE
    with suppress(FileError):
        if read_bounded(mark, _MARK_BYTES).decode() == scope.fingerprint:
            return snapshot
    snapshot.remove()
    make_private_dir(snapshot.tree)
    make_private_dir(snapshot.empty)
    for path, text in scope.texts.items():
        _put(snapshot.tree, path, _encoded(text))
    write_atomic(mark, scope.fingerprint, private=True)
    return snapshot


def _put(tree: Path, path: str, content: bytes) -> None:
    """Write one file; a crash leaves the mark unwritten, so single files need no care."""
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
