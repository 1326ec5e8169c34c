"""The git command, for looking at the reviewed project: nothing it runs may come from the tree (design §9).

Filters and text conversions that a `.gitattributes` could call for are off, and so are hooks, pagers, external diffs,
file-system monitors and the fetching of missing objects; submodules are not looked into. Names are literal and
NUL-separated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bridgehead.errors import BridgeheadError, UserError
from bridgehead.host import process
from bridgehead.host.command import Command, Ended

GIT_SECONDS: Final = 120.0
NO_SUBMODULES: Final = "--ignore-submodules=dirty"  # git would ask each with the filters of its own configuration
_MOST_OUTPUT_BYTES: Final = 256 * 1024 * 1024
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.pager=cat",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
)
_NOTHING: Final = "BRIDGEHEAD_NOTHING"  # a variable that holds nothing, for settings that are to hold it
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    _NOTHING: "",
}


class GitFailed(BridgeheadError):
    """git could not do what was needed."""

    def __init__(self, arguments: Sequence[str], says: str) -> None:
        hint = (
            f"a review fetches nothing; in a partial clone, run git {arguments[0]} "
            "yourself once"
        )
        super().__init__(
            f"git {arguments[0]} failed: {says}",
            hint=hint if "lazy fetching" in says or "promisor" in says else None,
        )


class NoSuchRevision(UserError):
    """A name that is not a commit of this repository."""

    def __init__(self, name: str, *, shallow: bool = False) -> None:
        hint = "`git log --oneline` lists the commits"
        if shallow:
            hint = (
                "this clone is shallow and may lack it: git fetch --unshallow, or "
                "fetch-depth: 0 of actions/checkout"
            )
        super().__init__(f"{name!r} is not a commit of this repository", hint=hint)


class Git:
    """git in one directory."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *,
        settings: Sequence[str] = (),
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.environment = environment
        self.settings = tuple(settings)
        fixed = {**_ENVIRONMENT, **(inputs or {})}
        self._inputs = process.child_environment(fixed, base=environment)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        codes: Sequence[int] = (0,),
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """What git prints; an exit code that is not in `codes` raises GitFailed."""
        settings = [word for entry in _SETTINGS for word in ("-c", entry)]
        command = Command(
            ["git", *settings, *self.settings, *arguments],
            stdin=stdin,
            env={**self._inputs, **(extra or {})},
            cwd=self.directory,
            stdout_cap=_MOST_OUTPUT_BYTES,
        )
        result = process.run(command, timeout_seconds=GIT_SECONDS, idle_seconds=None)
        if result.ended is not Ended.EXITED or result.exit_code not in codes:
            says = (
                result.reason
                or result.error_text().strip()[:500]
                or f"{result.ended}, code {result.exit_code}"
            )
            raise GitFailed(arguments, says)
        return result.stdout

    def fields(self, *arguments: str) -> list[str]:
        """What git prints between NULs."""
        printed = self.run(*arguments).decode("utf-8", "surrogateescape")
        return [field for field in printed.split("\0") if field]

    def commit(self, name: str) -> str:
        """The full id of the commit that `name` stands for."""
        try:
            found = self.run(
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                f"{name}^{{commit}}",
            )
        except GitFailed as error:
            raise NoSuchRevision(name, shallow=self.is_shallow()) from error
        return found.decode().strip()

    def is_shallow(self) -> bool:
        """Return whether older commits were left out when this was cloned."""
        try:
            told = self.run("rev-parse", "--is-shallow-repository")
        except GitFailed:
            return False
        return told.strip() == b"true"

    def head(self) -> str | None:
        """The commit that is checked out; None before the first one."""
        try:
            return self.commit("HEAD")
        except NoSuchRevision:
            return None

    def is_dirty(self) -> bool:
        """Whether the working tree below the directory differs from the commit, untracked files included."""
        return bool(
            self.run(
                "status",
                "--porcelain",
                "-z",
                "--untracked-files=normal",
                NO_SUBMODULES,
                "--",
                ".",
            )
        )

    def merge_base(self, one: str, other: str) -> str | None:
        found = self.run("merge-base", one, other, codes=(0, 1)).decode().strip()
        return found or None

    def diff(self, *what: str) -> str:
        """A patch of what lies below the directory, with names from there, and renames found.

        Nothing in it depends on the configuration.
        """
        printed = self.run(
            "diff",
            *(
                "--no-ext-diff",
                "--no-textconv",
                NO_SUBMODULES,
                "--no-color",
                "--find-renames",
                "--unified=5",
            ),
            *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--relative"),
            *what,
            "--",
        )
        return printed.decode("utf-8", "replace")

    def renamed_to(self, path: str) -> str | None:
        """Return what a file was renamed to by the commit that took it away, or in the working tree since."""
        found = self._renames("diff", "HEAD").get(path)
        if found is not None:
            return found
        words = ("--diff-filter=D", "--no-renames", "HEAD", "--", path)
        commit = self.run("log", "-1", "--format=%H", *words).decode().strip()
        if not commit:
            return None
        return self._renames("diff-tree", "--no-commit-id", "-r", commit).get(path)

    def _renames(self, command: str, *what: str) -> dict[str, str]:
        options = ("--find-renames", "--diff-filter=R", "--name-status", "--relative")
        told = self.fields(command, "-z", "--no-ext-diff", *options, *what, "--")
        # Of each file its state, the old name and the new one.
        return dict(zip(told[1::3], told[2::3], strict=True))

    def blobs(self, ids: Sequence[str]) -> list[bytes | None]:
        """The contents of blobs, in order; None for one that is missing."""
        if not ids:
            return []
        printed = self.run(
            "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in ids).encode()
        )
        contents: list[bytes | None] = []
        position = 0
        for _ in ids:
            end = printed.index(b"\n", position)
            header = printed[position:end].split(b" ")
            position = end + 1
            if len(header) < 3:
                contents.append(None)
                continue
            size = int(header[2])
            contents.append(printed[position : position + size])
            position += size + 1
        return contents


def repository_at(directory: Path, environment: Mapping[str, str]) -> Git | None:
    """git in `directory`, filters off; None when that lies in no working tree, or there is no git."""
    git = Git(directory, environment)
    try:
        inside = git.run("rev-parse", "--is-inside-work-tree").strip()
        settings = _filters_off(git)
    except GitFailed:
        return None
    return Git(directory, environment, settings=settings) if inside == b"true" else None


def _filters_off(git: Git) -> tuple[str, ...]:
    """Options that empty every filter that is configured; a `.gitattributes` could call for any of them.

    Their names may hold a `=`, where `-c` would end them.
    """
    listed = git.run(
        "config", "--null", "--name-only", "--get-regexp", r"^filter\.", codes=(0, 1)
    ).decode()
    names = {
        match[1]
        for name in listed.split("\0")
        if (match := re.match(r"(filter\..+)\.[a-z]+$", name))
    }
    parts = ("smudge", "clean", "process", "required")
    return tuple(
        f"--config-env={name}.{part}={_NOTHING}"
        for name in sorted(names)
        for part in parts
    )
