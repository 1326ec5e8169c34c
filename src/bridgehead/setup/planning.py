"""Which files would change, and how: worked out and shown first, then written one by one and noted for the way
back.
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
    """A file that set-up does not dare to touch; nothing else was written either."""

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
    base: str = ""
    """The text without anything of ours, which the notes must lead back to."""
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
        """As `diff -u` would show it, but for secrets that stand nearby and the rest of endless lines."""
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
        """What has to be remembered to take this change back."""
        users = tuple(dict.fromkeys([*(earlier.users if earlier else ()), user]))
        made = directories or (earlier.directories if earlier else ())
        hunk = Hunk.between(self.base, self.new or "")
        return Noted(hunk=hunk, created=self.created, directories=made, users=users)


def plan_setup(edits: Iterable[Edit], notes: Notes) -> list[Change]:
    """What setting up would do; files that are as they should be have the action `keep`."""
    return [_set_up(edit, notes) for edit in edits]


def plan_undo(edits: Iterable[Edit], notes: Notes, user: str) -> list[Change]:
    """What taking it back would do; what another host still uses stays."""
    return [_undone(edit, notes, user) for edit in edits]


def _set_up(edit: Edit, notes: Notes) -> Change:
    old = _text(edit)
    noted = notes.find(edit.path)
    base = old or ""
    if noted is not None and old is not None:
        earlier = noted.hunk.taken_back(base)
        base = base if earlier is None else earlier
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
    others = [one for one in noted.users if one != user] if noted else []
    if old is None or others or (noted is None and not edit.recognisable):
        return Change(edit.path, edit.root, old, old)
    new = noted.hunk.taken_back(old) if noted else None
    if new is None:
        try:
            new = edit.remove(old)
        except UserError as error:
            raise LeftAlone(edit.path, error) from error
    is_empty = not new.strip() and (noted is None or noted.created)
    return Change(edit.path, edit.root, old, None if is_empty and new != old else new)


def _fit_to_show(line: str) -> str:
    """A line of a diff; settings hold keys, and what is shown may be read by an agent."""
    end = "\n" if line.endswith("\n") else ""
    if scan(line):
        return f"{line[:1]}[a line that looks like a secret]{end}"
    if len(line) > LONGEST_LINE:
        return (
            f"{line[:LONGEST_LINE]}… ({len(line) - LONGEST_LINE} more characters){end}"
        )
    return line


def _text(edit: Edit) -> str | None:
    try:
        return read_bounded(edit.path, MOST_BYTES, root=edit.root).decode("utf-8")
    except FileMissing:
        return None
    except UnicodeDecodeError as error:
        raise LeftAlone(
            edit.path, UserError(f"it is not UTF-8 text: {error}")
        ) from error


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
    """One file: the edit, whether it and which directories were made for it, and who wants it there."""

    hunk: Hunk
    created: bool
    directories: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Where `removed` stood between the two contexts there is `inserted` now."""

    before: str
    removed: str
    inserted: str
    after: str

    @classmethod
    def between(cls, old: str, new: str) -> Hunk:
        """The smallest stretch that turns `old` into `new`."""
        start = _common_length(old, new)
        end = _common_length(old[start:][::-1], new[start:][::-1])
        return cls(
            before=old[max(0, start - CONTEXT) : start],
            removed=old[start : len(old) - end],
            inserted=new[start : len(new) - end],
            after=old[len(old) - end :][:CONTEXT],
        )

    def taken_back(self, text: str) -> str | None:
        """`text` as it would be without this edit; None when it cannot be told where the edit is."""
        with_context = self.before + self.inserted + self.after
        if with_context and text.count(with_context) == 1:
            return text.replace(with_context, self.before + self.removed + self.after)
        if self.inserted and text.count(self.inserted) == 1:
            return text.replace(self.inserted, self.removed)
        return None


def _common_length(one: str, other: str) -> int:
    """How many characters the two begin with in common."""
    shorter = min(len(one), len(other))
    return next(
        (index for index in range(shorter) if one[index] != other[index]), shorter
    )


def set_up(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_setup` for `user`, a host and its reach."""
    for change in changes:
        earlier = notes.find(change.path)
        if change.action == "keep":
            if earlier is not None and user not in earlier.users:
                notes.keep(
                    change.path,
                    msgspec.structs.replace(earlier, users=(*earlier.users, user)),
                )
            continue
        assert change.new is not None
        absent = takewhile(lambda parent: not parent.exists(), change.path.parents)
        missing = tuple(map(str, absent))
        # Noted first: an edit without a note could not be taken back exactly, a note without its edit does no harm.
        notes.keep(change.path, change.noted(user, missing, earlier))
        make_dir(change.path.parent, root=change.root)
        write_atomic(change.path, change.new, root=change.root)


def take_back(changes: Iterable[Change], notes: Notes, user: str) -> None:
    """Carry out a plan of `plan_undo`."""
    for change in changes:
        noted = notes.find(change.path)
        others = tuple(other for other in noted.users if other != user) if noted else ()
        if noted is not None and others:
            notes.keep(change.path, msgspec.structs.replace(noted, users=others))
            continue
        if change.action == "remove":
            with translated(change.path, "removed"):
                change.path.unlink()
            # Somebody put something into one: it stays, and so do those above.
            with suppress(OSError):
                for directory in noted.directories if noted else ():
                    Path(directory).rmdir()
        elif change.action == "change" and change.new is not None:
            write_atomic(change.path, change.new, root=change.root)
        notes.forget(change.path)
