"""Plan which files change and how, then write them one by one.

A plan is shown before it is carried out, and noted so that it can be taken back.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.errors import FileError, UserError
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing, translated
from bridgehead.host.files import read_bounded, write_atomic, write_private
from bridgehead.host.secrets_scan import scan
from bridgehead.setup.hosts import Edit

CONTEXT: Final = 60
FILE: Final = "setup.json"
MOST_NOTE_BYTES: Final = 32 << 20
MOST_BYTES: Final = 64 << 20
LONGEST_LINE: Final = 400


class LeftAlone(UserError):
    """A file that set-up cannot change safely; nothing else was written either."""

    def __init__(self, path: Path, error: UserError) -> None:
        super().__init__(
            f"{path} was not changed: {error.message}",
            hint=error.hint or "fix it, then retry",
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None is a file that is not there."""

    path: Path
    root: Path | None
    old: str | None
    new: str | None
    base: str = ""  # the text without anything of ours
    created: bool = False

    @property
    def action(self) -> str:
        if self.old == self.new:
            return "keep"
        if self.old is None:
            return "create"
        if self.new is None:
            return "remove"
        return "change"

    def diff(self) -> str:
        """Return the change as `diff -u` shows it.

        Secrets are left out, and so is the rest of very long lines.
        """
        lines = difflib.unified_diff(
            (self.old or "").splitlines(keepends=True),
            (self.new or "").splitlines(keepends=True),
            fromfile=str(self.path) if self.old is not None else "/dev/null",
            tofile=str(self.path) if self.new is not None else "/dev/null",
        )
        shown = []
        for line in lines:
            shown.append(_fit_to_show(line))
            if not line.endswith("\n"):
                shown.append("\n\\ No newline at end of file\n")
        return "".join(shown)

    def noted(
        self, user: str, directories: tuple[str, ...], earlier: Noted | None
    ) -> Noted:
        """Return what must be remembered to take this change back."""
        users = [user]
        if earlier is not None:
            users = [*earlier.users, user]
            directories = directories or earlier.directories
        return Noted(
            hunk=Hunk.between(self.base, self.new or ""),
            created=self.created,
            directories=directories,
            users=tuple(dict.fromkeys(users)),
        )


def plan_setup(edits: Iterable[Edit], notes: Notes) -> list[Change]:
    """Return what setting up would do; nothing is done to files with `keep`."""
    return [_set_up(edit, notes) for edit in edits]


def plan_undo(edits: Iterable[Edit], notes: Notes, user: str) -> list[Change]:
    """Return what taking it back would do; what another host still uses stays."""
    return [_undone(edit, notes, user) for edit in edits]


def _set_up(edit: Edit, notes: Notes) -> Change:
    old = _text(edit)
    noted = notes.find(edit.path)
    base = old or ""
    if noted is not None and old is not None:
        without_edit = noted.hunk.taken_back(old)
        if without_edit is not None:
            base = without_edit
    try:
        new = edit.add(base)
        if old is not None and edit.add(old) == old:
            new = old  # as it should be, whoever wrote it
    except UserError as error:
        raise LeftAlone(edit.path, error) from error
    created = old is None or (noted is not None and noted.created)
    return Change(edit.path, edit.root, old, new, base, created)


def _undone(edit: Edit, notes: Notes, user: str) -> Change:
    old = _text(edit)
    noted = notes.find(edit.path)
    if old is None or not _may_undo(edit, noted, user):
        return Change(edit.path, edit.root, old, old)
    new = _without_edit(edit, old, noted)
    may_delete = noted is None or noted.created
    if may_delete and new != old and not new.strip():
        return Change(edit.path, edit.root, old, None)
    return Change(edit.path, edit.root, old, new)


def _may_undo(edit: Edit, noted: Noted | None, user: str) -> bool:
    """Return whether our part of a file can be told apart and nobody else uses it."""
    if noted is None:
        return edit.recognisable
    return not noted.users_besides(user)


def _without_edit(edit: Edit, text: str, noted: Noted | None) -> str:
    restored = noted.hunk.taken_back(text) if noted is not None else None
    if restored is not None:
        return restored
    try:
        return edit.remove(text)
    except UserError as error:
        raise LeftAlone(edit.path, error) from error


def _fit_to_show(line: str) -> str:
    """Return a line of a diff without secrets.

    Settings hold keys, and an agent may read what is shown.
    """
    end = "\n" if line.endswith("\n") else ""
    if scan(line):
        return f"{line[:1]}[a line that looks like a secret]{end}"
    if len(line) > LONGEST_LINE:
        hidden = len(line) - LONGEST_LINE
        return f"{line[:LONGEST_LINE]}… ({hidden} more characters){end}"
    return line


def _text(edit: Edit) -> str | None:
    try:
        return read_bounded(edit.path, MOST_BYTES, root=edit.root).decode("utf-8")
    except FileMissing:
        return None
    except UnicodeDecodeError as error:
        problem = UserError(f"it is not UTF-8 text: {error}")
        raise LeftAlone(edit.path, problem) from error


class Notes:
    """What set-up wrote for one user, so that it can be taken back."""

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
            return msgspec.json.decode(
                read_bounded(self._path, MOST_NOTE_BYTES), type=dict[str, Noted]
            )
        except FileMissing:
            return {}
        except msgspec.DecodeError as error:
            raise FileError(
                f"{self._path} is damaged: {error}",
                hint="move it away; --undo then removes the entries it recognises",
            ) from error

    def _write(self) -> None:
        write_private(self._path, msgspec.json.encode(self._files))


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one file, and for whom.

    `created` and `directories` say what did not exist before.
    """

    hunk: Hunk
    created: bool
    directories: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def users_besides(self, user: str) -> tuple[str, ...]:
        return tuple(other for other in self.users if other != user)


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """An edit: `inserted` replaced `removed` between the two contexts."""

    before: str
    removed: str
    inserted: str
    after: str

    @classmethod
    def between(cls, old: str, new: str) -> Hunk:
        """Return the smallest edit that turns `old` into `new`."""
        start = _common_length(old, new)
        end = _common_length(old[start:][::-1], new[start:][::-1])
        return cls(
            before=old[max(0, start - CONTEXT) : start],
            removed=old[start : len(old) - end],
            inserted=new[start : len(new) - end],
            after=old[len(old) - end :][:CONTEXT],
        )

    def taken_back(self, text: str) -> str | None:
        """Return `text` without this edit.

        Return None if it is not certain where the edit is.
        """
        with_context = self.before + self.inserted + self.after
        if with_context and text.count(with_context) == 1:
            return text.replace(with_context, self.before + self.removed + self.after)
        if self.inserted and text.count(self.inserted) == 1:
            return text.replace(self.inserted, self.removed)
        return None


def _common_length(first: str, second: str) -> int:
    """Return how many characters two texts begin with in common."""
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length


def set_up(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_setup` for `user`, a host and its reach."""
    for change in changes:
        if change.action == "keep":
            _add_user(change.path, notes, user)
        else:
            _write_noted(change, notes, user)


def _add_user(path: Path, notes: Notes, user: str) -> None:
    """Note that one more user wants our part of a file, if it is ours at all."""
    noted = notes.find(path)
    if noted is not None and user not in noted.users:
        users = (*noted.users, user)
        notes.keep(path, msgspec.structs.replace(noted, users=users))


def _write_noted(change: Change, notes: Notes, user: str) -> None:
    assert change.new is not None
    absent = takewhile(lambda parent: not parent.exists(), change.path.parents)
    missing = tuple(map(str, absent))
    # The note comes first: an edit without a note could not be taken back exactly, but
    # a note without its edit does no harm.
    noted = change.noted(user, missing, notes.find(change.path))
    notes.keep(change.path, noted)
    make_dir(change.path.parent, root=change.root)
    write_atomic(change.path, change.new, root=change.root)


def take_back(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_undo`."""
    for change in changes:
        noted = notes.find(change.path)
        others = noted.users_besides(user) if noted is not None else ()
        if noted is not None and others:
            notes.keep(change.path, msgspec.structs.replace(noted, users=others))
            continue
        if change.action == "remove":
            _remove(change.path, noted.directories if noted is not None else ())
        elif change.action == "change" and change.new is not None:
            write_atomic(change.path, change.new, root=change.root)
        notes.forget(change.path)


def _remove(path: Path, directories: Iterable[str]) -> None:
    """Remove a file, and the directories that were made for it if they are empty."""
    with translated(path, "removed"):
        path.unlink()
    # If one of them is not empty, it stays, and so do those above it.
    with suppress(OSError):
        for directory in directories:
            Path(directory).rmdir()
