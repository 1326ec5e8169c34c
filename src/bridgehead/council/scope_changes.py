"""A change as a scope: since a base, staged, a range of commits, or a patch; files in the state after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.council.git import Git, GitFailed
from bridgehead.council.patches import renamed, sections
from bridgehead.council.scope import EmptyScope, Scope, Sieve, UnknownScope
from bridgehead.council.withheld import Reason
from bridgehead.council.working_files import read_working, take_from_disk
from bridgehead.host.files import make_dir, write_atomic

PATCH_NOT_APPLIED: Final = "patch_not_applied"
_GITLINK: Final = "160000"
_SYMLINK: Final = "120000"


class Change:
    """A change and the files it touches, in the state after it."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def since(self, base: str) -> Scope:
        """From the point where we left `base` to the working tree, untracked files included."""
        head = self._git.head()
        start = self._git.commit(base)
        start = (self._git.merge_base(start, head) if head else None) or start
        diff = self._git.diff(start)
        untracked = self._git.fields("ls-files", "-z", "--others", "--exclude-standard")
        sieve = Sieve()
        for path in dict.fromkeys([*_changed(diff), *untracked]):
            take_from_disk(sieve, self._git.directory, path)
        added = "".join(_as_added(path, sieve.texts[path]) for path in untracked if path in sieve.texts)
        return self._scope(f"changes since {base}", sieve, diff + added, base_commit=start, dirty=True)

    def staged(self) -> Scope:
        """What the next commit would hold."""
        diff = self._git.diff("--cached")
        sieve = Sieve()
        self._take_blobs(sieve, self._index_entries(), _changed(diff))
        return self._scope("staged changes", sieve, diff, base_commit=self._git.head(), dirty=True)

    def commits(self, commit_range: str) -> Scope:
        """`A..B` compares the two ends, `A...B` starts where they parted, as git diff does."""
        separator = "..." if "..." in commit_range else ".."
        first, found, last = commit_range.partition(separator)
        if not found:
            raise UnknownScope(commit_range, "a range is written A..B")
        start, end = self._git.commit(first or "HEAD"), self._git.commit(last or "HEAD")
        if separator == "...":
            start = self._git.merge_base(start, end) or start
        diff = self._git.diff(start, end)
        sieve = Sieve()
        self._take_blobs(sieve, self._tree_entries(end), _changed(diff))
        return self._scope(f"changes in {commit_range}", sieve, diff, base_commit=start, commit=end)

    def patch(self, patch: str) -> Scope:
        """A patch somebody sent, on top of the working tree where it applies."""
        if not sections(patch):
            raise UnknownScope("--patch", "the text is no patch")
        contents, applied = _apply_in_scratch(self._git, patch)
        sieve = Sieve()
        for path, content in contents.items():
            sieve.take(path, content)
        warnings = () if applied else (PATCH_NOT_APPLIED,)
        head = self._git.head()
        return self._scope("a patch", sieve, patch, base_commit=head, dirty=True, warnings=warnings)

    def _scope(
        self,
        described: str,
        sieve: Sieve,
        diff: str,
        *,
        base_commit: str | None,
        commit: str | None = None,
        dirty: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> Scope:
        shown = sieve.clean_diff(diff)
        if not shown and not sieve.texts:
            raise EmptyScope(described, len(sieve.left_out))
        return Scope(
            (described,),
            sieve.texts,
            tuple(sieve.left_out),
            sieve.withheld_texts,
            diff=shown,
            renames=renamed(diff),
            commit=commit or self._git.head(),
            base_commit=base_commit,
            dirty=dirty,
            warnings=warnings,
        )

    def _index_entries(self) -> Iterator[tuple[str, str, str]]:
        for entry in self._git.fields("ls-files", "--stage", "-z"):
            info, _, path = entry.partition("\t")
            mode, blob, _stage = info.split(" ")
            yield mode, blob, path

    def _tree_entries(self, commit: str) -> Iterator[tuple[str, str, str]]:
        for entry in self._git.fields("ls-tree", "-r", "-z", commit):
            info, _, path = entry.partition("\t")
            mode, _kind, blob = info.split(" ")
            yield mode, blob, path

    def _take_blobs(self, sieve: Sieve, entries: Iterator[tuple[str, str, str]], changed: list[str]) -> None:
        wanted = set(changed)
        regular: list[tuple[str, str]] = []
        for mode, blob, path in entries:
            if path not in wanted:
                continue
            if mode in (_SYMLINK, _GITLINK):
                sieve.leave_out(path, Reason.SYMLINK if mode == _SYMLINK else Reason.SUBMODULE)
            else:
                regular.append((path, blob))
        for (path, _), content in zip(regular, self._git.blobs([blob for _, blob in regular]), strict=True):
            sieve.take(path, content)


def _changed(diff: str) -> list[str]:
    """The files that are there after the change."""
    return [section.new for section in sections(diff) if section.new is not None]


def _as_added(path: str, text: str) -> str:
    """An untracked file as the part of a patch that would add it."""
    *lines, rest = text.split("\n")
    body = "".join(f"+{line}\n" for line in lines)
    if rest:
        body += f"+{rest}\n\\ No newline at end of file\n"
    header = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{header}@@ -0,0 +1,{len(lines) + bool(rest)} @@\n{body}"


def _apply_in_scratch(git: Git, patch: str) -> tuple[dict[str, bytes | None], bool]:
    """The files a patch names after it, and whether it could be applied; the user's tree is not touched."""
    paths = sorted({path for section in sections(patch) for path in section.paths})
    with TemporaryDirectory(prefix="bridgehead-patch-") as name:
        folder = Path(name)
        for path in paths:
            if (content := read_working(git.directory, path)) is not None and _stays_inside(path):
                make_dir((folder / path).parent, root=folder)
                write_atomic(folder / path, content, root=folder)
        applied = _try_patch(folder, git, patch)
        found = {path: read_working(folder, path) for path in paths if _stays_inside(path)}
    return {path: content for path, content in found.items() if content is not None}, applied


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not PurePosixPath(path).is_absolute() and ".." not in parts


def _try_patch(folder: Path, git: Git, patch: str) -> bool:
    """Apply it, or see that it has been applied already."""
    scratch = Git(folder, {"PATH": os.environ.get("PATH", os.defpath)})
    alone = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": str(folder / ".no-repository")}
    attempts: tuple[Callable[[], bytes], ...] = (
        lambda: scratch.run("apply", "--whitespace=nowarn", "-", stdin=patch.encode(), extra=alone),
        lambda: scratch.run("apply", "--reverse", "--check", "-", stdin=patch.encode(), extra=alone),
    )
    for attempt in attempts:
        try:
            attempt()
        except GitFailed:
            continue
        return True
    return False
