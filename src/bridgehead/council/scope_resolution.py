"""From a request to a scope: files and directories in their working state, or a change (scope_changes.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridgehead.council.git import Git, repository_at
from bridgehead.council.scope import (
    EmptyScope,
    Scope,
    ScopeRequest,
    SeveralScopes,
    Sieve,
    UnknownScope,
    is_text,
)
from bridgehead.council.scope_changes import Change
from bridgehead.council.withheld import Reason
from bridgehead.council.working_files import take_from_disk, walk
from bridgehead.errors import UserError

THE_WHOLE: Final = "the whole project"


class NoRepository(UserError):
    """A scope that only git can tell, outside a git repository."""

    def __init__(self, kind: str, hint: str = "name paths instead") -> None:
        super().__init__(f"{kind} needs a git repository, and this directory is in none", hint=hint)


def resolve_scope(
    request: ScopeRequest,
    *,
    project: Path,
    cwd: Path,
    environment: Mapping[str, str],
    allow_words: bool = False,
) -> Scope:
    """The scope that was asked for; without any, the whole project. `allow_words` admits entries that name no path."""
    if len(request.kinds) > 1:
        raise SeveralScopes(request.kinds)
    root = project.resolve()
    git = repository_at(root, environment)
    if request.kinds in ([], ["paths"]):
        return _Paths(git, root, cwd).scope(request.paths or (str(root),), allow_words=allow_words)
    if git is None:
        raise NoRepository(request.kinds[0])
    change = Change(git)
    if request.patch is not None:
        return change.patch(request.patch)
    if request.commit_range is not None:
        return change.commits(request.commit_range)
    return change.staged() if request.staged else change.since(request.diff_base or "HEAD")


class _Paths:
    """Files and directories in their working state."""

    def __init__(self, git: Git | None, root: Path, cwd: Path) -> None:
        self._git = git
        self._root = root
        self._cwd = cwd

    def scope(self, entries: tuple[str, ...], *, allow_words: bool) -> Scope:
        wanted = [self._relative(entry, allow_words=allow_words) for entry in entries]
        paths = [path for path in wanted if path is not None]
        sieve = Sieve()
        for path in self._listed(paths):
            take_from_disk(sieve, self._root, path)
        for path in self._ignored(paths):
            sieve.leave_out(path, Reason.IGNORED)
        described = tuple(_described(entry, path) for entry, path in zip(entries, wanted, strict=True))
        if not sieve.texts and not allow_words:
            raise EmptyScope(", ".join(described), len(sieve.left_out))
        return Scope(
            described,
            sieve.texts,
            tuple(sieve.left_out),
            sieve.withheld_texts,
            commit=self._git.head() if self._git else None,
            dirty=self._git is not None and self._git.is_dirty(),
        )

    def _relative(self, entry: str, *, allow_words: bool) -> str | None:
        """The entry as a path from the root; None for words that name no path."""
        if "\0" in entry:
            raise UnknownScope(entry, "a path has no NUL character")
        target = self._cwd / entry
        if not os.path.lexists(target):
            if allow_words and is_text(entry):
                return None
            raise UnknownScope(entry)
        try:
            return target.resolve().relative_to(self._root).as_posix()
        except ValueError:
            raise UnknownScope(entry, "it is outside the project") from None

    def _listed(self, wanted: list[str]) -> list[str]:
        if self._git is None:
            return sorted({path for start in wanted for path in walk(self._root, start)})
        if not wanted:
            return []
        kinds = ("--cached", "--others", "--exclude-standard", "--deduplicate")
        return sorted(self._git.fields("ls-files", "-z", *kinds, "--", *wanted))

    def _ignored(self, wanted: list[str]) -> list[str]:
        if self._git is None or not wanted:
            return []
        kinds = ("--others", "--ignored", "--exclude-standard", "--directory")
        return sorted(self._git.fields("ls-files", "-z", *kinds, "--", *wanted))


def _described(entry: str, path: str | None) -> str:
    if path is None:
        return entry
    return THE_WHOLE if path == "." else path
