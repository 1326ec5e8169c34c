"""Writes what was planned, one file after the other, each in one step, and notes how to take it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import translated
from bridgehead.host.files import write_atomic
from bridgehead.setup.planning import Change, Notes


def set_up(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_setup` for `user`, a host and its reach."""
    for change in changes:
        earlier = notes.find(change.path)
        if change.action == "keep":
            if earlier is not None and user not in earlier.users:
                notes.keep(change.path, msgspec.structs.replace(earlier, users=(*earlier.users, user)))
            continue
        assert change.new is not None
        missing = tuple(str(one) for one in _missing_directories(change.path))
        # Noted first: an edit without a note could not be taken back exactly, a note without its edit does no harm.
        notes.keep(change.path, change.noted(user, missing, earlier))
        make_dir(change.path.parent, root=change.root)
        write_atomic(change.path, change.new, root=change.root)


def take_back(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_undo`."""
    for change in changes:
        noted = notes.find(change.path)
        if noted is not None and (others := tuple(one for one in noted.users if one != user)):
            notes.keep(change.path, msgspec.structs.replace(noted, users=others))
            continue
        if change.action == "remove":
            with translated(change.path, "removed"):
                change.path.unlink()
            _remove_empty([Path(one) for one in noted.directories] if noted else [])
        elif change.action == "change" and change.new is not None:
            write_atomic(change.path, change.new, root=change.root)
        notes.forget(change.path)


def _missing_directories(path: Path) -> Iterator[Path]:
    """The directories above `path` that are not there, the innermost first."""
    for parent in path.parents:
        if parent.exists():
            return
        yield parent


def _remove_empty(directories: list[Path]) -> None:
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            return  # somebody put something into it: it stays, and so do those above
