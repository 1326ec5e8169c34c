"""From a request to a scope: files and directories in their working state, or a change (a base, the index, a
range, a patch).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.council.scope.git import (
    NO_SUBMODULES,
    Git,
    GitFailed,
    NoSuchRevision,
    repository_at,
)
from bridgehead.council.scope.scope import (
    EmptyScope,
    Scope,
    ScopeFilter,
    ScopeRequest,
    UnknownScope,
    is_below,
    is_text,
    renamed,
    sections,
    shown_name,
    text_digest,
)
from bridgehead.council.scope.withheld import (
    LARGEST_FILE_BYTES,
    OWN_FOLDERS,
    Reason,
    as_utf8,
    is_ours,
)
from bridgehead.errors import FileError, UserError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic

# What a project without git is known to hold and nobody wants reviewed.
_NOT_SOURCE: Final = frozenset(
    {
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".hg",
        ".svn",
    }
)
_BINARY: Final = re.compile(r"^(?:Binary files |GIT binary patch)", re.MULTILINE)
_GITLINK: Final = "160000"
_SYMLINK: Final = "120000"


def take_from_disk(sieve: ScopeFilter, root: Path, path: str) -> None:
    """Put one file through the sieve; a deleted one is nothing to show."""
    try:
        found = os.lstat(f"{root}/{path}")
    except OSError:
        return
    if stat.S_ISLNK(found.st_mode):
        sieve.leave_out(path, Reason.SYMLINK)
    elif stat.S_ISDIR(found.st_mode):
        sieve.leave_out(path, Reason.SUBMODULE)
    elif found.st_size > LARGEST_FILE_BYTES:
        sieve.leave_out(
            path,
            Reason.TOO_LARGE,
            f"{found.st_size} bytes",
            is_script=_starts_a_script(root / path),
        )
    else:
        sieve.take(path, read_working(root, path))


def _starts_a_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def read_working(root: Path, path: str) -> bytes | None:
    """The content of a regular file below `root`, or None."""
    try:
        return read_bounded(root / path, LARGEST_FILE_BYTES, root=root)
    except (FileError, OSError):
        return None


def walk(root: Path, start: str) -> Iterator[str]:
    """Files below a path of a project without git."""
    if (root / start).is_file():
        yield start
        return
    for folder, folders, names in os.walk(root / start):
        folders[:] = sorted(
            name for name in folders if name not in _NOT_SOURCE | OWN_FOLDERS
        )
        for name in names:
            yield (Path(folder) / name).relative_to(root).as_posix()


@dataclass(frozen=True, slots=True)
class Extent:
    """What a report has to have seen: files below folders, and those that differ from commits."""

    folders: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    compared: frozenset[str] = frozenset()
    """Files whose content is compared with what was seen."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What an extent comes to in one state of the project, by the names a report would use."""

    digests: Mapping[str, str]
    """Of every file that is there; empty text where the content is not compared."""
    required: tuple[str, ...]
    """Files of the extent, those that are gone included."""


class Change:
    """A change and the files it touches, in the state after it."""

    def __init__(self, git: Git, no_secrets: tuple[str, ...] = ()) -> None:
        self._git = git
        self._no_secrets = no_secrets

    def since(self, base: str) -> Scope:
        """From the point where we left `base` to the working tree, untracked files included."""
        head = self._git.head()
        start = self._git.commit(base)
        parted = self._git.merge_base(start, head) if head else None
        cut_off = head is not None and parted is None and self._git.is_shallow()
        start = parted or start
        diff = self._git.diff(start)
        untracked = self._git.fields("ls-files", "-z", "--others", "--exclude-standard")
        sieve = ScopeFilter(self._no_secrets)
        for path in dict.fromkeys([*_changed(diff), *untracked]):
            take_from_disk(sieve, self._git.directory, path)
        added = "".join(
            _as_added(path, sieve.texts[path])
            for path in untracked
            if path in sieve.texts
        )
        return self._scope(
            f"changes since {base}",
            sieve,
            diff + added,
            base_commit=start,
            dirty=True,
            warnings=("shallow_clone",) if cut_off else (),
            removed=self._removed(start),
        )

    def staged(self) -> Scope:
        """What the next commit would hold."""
        diff = self._git.diff("--cached")
        sieve = ScopeFilter(self._no_secrets)
        self._take_blobs(sieve, self._entries(), _changed(diff))
        return self._scope(
            "staged changes",
            sieve,
            diff,
            base_commit=self._git.head(),
            dirty=True,
            removed=self._removed("--cached"),
        )

    def commits(self, commit_range: str) -> Scope:
        """`A..B` compares the two ends, `A...B` starts where they parted, as git diff does."""
        separator = "..." if "..." in commit_range else ".."
        first, found, last = commit_range.partition(separator)
        if not found:
            raise UnknownScope(commit_range, "write a range as A..B")
        start = self._git.commit(first or "HEAD")
        end = self._git.commit(last or "HEAD")
        if separator == "...":
            start = self._git.merge_base(start, end) or start
        diff = self._git.diff(start, end)
        sieve = ScopeFilter(self._no_secrets)
        self._take_blobs(sieve, self._entries(end), _changed(diff))
        return self._scope(
            f"changes in {commit_range}",
            sieve,
            diff,
            base_commit=start,
            commit=end,
            removed=self._removed(start, end),
        )

    def patch(self, patch: str) -> Scope:
        """A patch somebody sent, on top of the working tree where it applies."""
        if not sections(patch):
            raise UnknownScope("--patch", "the text is not a patch")
        contents, applied = _apply_in_scratch(self._git, patch)
        sieve = ScopeFilter(self._no_secrets)
        for path, content in contents.items():
            sieve.take(path, content)
        warnings = () if applied else ("patch_not_applied",)
        touched = {path for section in sections(patch) for path in section.paths}
        return self._scope(
            "a patch",
            sieve,
            patch,
            base_commit=self._git.head(),
            dirty=True,
            warnings=warnings,
            removed=tuple(sorted(touched - set(contents))) if applied else (),
        )

    def pushed_base(self, commit: str | None) -> str | None:
        """Where a change begins that is to be pushed: what the upstream or the remote's main branch has of it."""
        tip = self._git.commit(commit or "HEAD") if commit or self._git.head() else None
        for name in ("@{upstream}", "origin/HEAD"):
            with suppress(NoSuchRevision):
                return (
                    self._git.merge_base(self._git.commit(name), tip) if tip else None
                )
        return tip if commit is None else None

    def in_working_tree(self, extent: Extent) -> Contents:
        """What an extent is in the working tree, new files included."""
        root = self._git.directory
        required = [*self._untracked(), *self._files_under(extent.folders)]
        for base in extent.bases:
            required += self._differing(base)
        names = {*required, *extent.compared}
        return Contents(digests_on_disk(root, names, extent.compared), _own(required))

    def in_index(self, extent: Extent) -> Contents:
        """The same of what the next commit would hold."""
        return self._contents(extent, None)

    def in_commit(self, commit: str, extent: Extent) -> Contents:
        """The same of a commit."""
        return self._contents(extent, commit)

    def _contents(self, extent: Extent, commit: str | None) -> Contents:
        entries = list(self._entries(commit))
        required = [path for _, _, path in entries if is_below(path, extent.folders)]
        for base in extent.bases:
            ends = ("--cached", base) if commit is None else (base, commit)
            required += self._differing(*ends)
        return Contents(
            self._digests(entries, {*required, *extent.compared}, extent.compared),
            _own(required),
        )

    def _untracked(self) -> list[str]:
        return self._git.fields("ls-files", "-z", "--others", "--exclude-standard")

    def _files_under(self, folders: Sequence[str]) -> list[str]:
        """Tracked files below these folders."""
        tracked = self._git.fields("ls-files", "-z", "--cached") if folders else []
        return [path for path in tracked if is_below(path, folders)]

    def _differing(self, *what: str) -> list[str]:
        """Files that git names as different; one that was renamed by both names."""
        options = (NO_SUBMODULES, "--name-only", "--no-renames", "--relative", "-z")
        return self._git.fields("diff", *options, *what, "--")

    def _removed(self, *what: str) -> tuple[str, ...]:
        return tuple(map(shown_name, self._differing("--diff-filter=D", *what)))

    def _digests(
        self,
        entries: Sequence[tuple[str, str, str]],
        wanted: Collection[str],
        compared: Collection[str],
    ) -> dict[str, str]:
        """Digests of the files to be compared; empty text for others that are there."""
        found = {path: blob for _, blob, path in entries if path in wanted}
        links = {path for mode, _, path in entries if mode in (_SYMLINK, _GITLINK)}
        digests = dict.fromkeys(map(shown_name, found), "")
        read = [path for path in found if path in compared and path not in links]
        texts = self._git.blobs([found[path] for path in read])
        for path, text in zip(read, texts, strict=True):
            if text is not None:
                digests[path] = text_digest(as_utf8(text).decode("utf-8", "replace"))
        return digests

    def _scope(
        self,
        described: str,
        sieve: ScopeFilter,
        diff: str,
        *,
        base_commit: str | None,
        commit: str | None = None,
        dirty: bool = False,
        warnings: tuple[str, ...] = (),
        removed: tuple[str, ...] = (),
    ) -> Scope:
        shown = sieve.clean_diff(_with_unshown_text(diff, sieve.texts))
        if not shown and not sieve.texts:
            raise EmptyScope(described, sieve.left_out)
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
            removed=removed,
        )

    def _entries(self, commit: str | None = None) -> Iterator[tuple[str, str, str]]:
        """Mode, blob and path of the files of a commit, or of the index."""
        listing = (
            ("ls-files", "--stage", "-z")
            if commit is None
            else ("ls-tree", "-r", "-z", commit)
        )
        for entry in self._git.fields(*listing):
            info, _, path = entry.partition("\t")
            mode, *rest = info.split(" ")
            yield mode, rest[0 if commit is None else 1], path

    def _take_blobs(
        self,
        sieve: ScopeFilter,
        entries: Iterator[tuple[str, str, str]],
        changed: list[str],
    ) -> None:
        wanted = set(changed)
        regular: list[tuple[str, str]] = []
        for mode, blob, path in entries:
            if path not in wanted:
                continue
            if mode in (_SYMLINK, _GITLINK):
                sieve.leave_out(
                    path, Reason.SYMLINK if mode == _SYMLINK else Reason.SUBMODULE
                )
            else:
                regular.append((path, blob))
        for (path, _), content in zip(
            regular, self._git.blobs([blob for _, blob in regular]), strict=True
        ):
            sieve.take(path, content)


def _own(paths: Iterable[str]) -> tuple[str, ...]:
    """The user's own files among some, by the names a report would use, each once."""
    return tuple(dict.fromkeys(shown_name(path) for path in paths if not is_ours(path)))


def digests_on_disk(
    root: Path, paths: Iterable[str], compared: Collection[str]
) -> dict[str, str]:
    """Digests of the files on disk that are to be compared; empty text for others that are there."""
    digests: dict[str, str] = {}
    for path in paths:
        if not os.path.lexists(root / path):
            continue
        content = read_working(root, path) if path in compared else None
        text = None if content is None else as_utf8(content).decode("utf-8", "replace")
        digests[shown_name(path)] = "" if text is None else text_digest(text)
    return digests


def on_disk(root: Path, extent: Extent) -> Contents:
    """What an extent is in a project without git."""
    required = [path for folder in extent.folders for path in walk(root, folder)]
    names = {*required, *extent.compared}
    return Contents(digests_on_disk(root, names, extent.compared), _own(required))


def _changed(diff: str) -> list[str]:
    """The files that are there after the change."""
    return [section.new for section in sections(diff) if section.new is not None]


def _with_unshown_text(diff: str, texts: Mapping[str, str]) -> str:
    """Return the diff with every text in it that git takes for something else.

    It does so of UTF-16, and wherever an attributes file of the tree tells it to. Such a
    file is shown as if all of it were new.
    """
    shown = []
    for section in sections(diff):
        text = texts.get(section.new) if section.new else None
        if section.new and text is not None and _BINARY.search(section.text):
            shown.append(_as_added(section.new, text))
        else:
            shown.append(section.text)
    return "".join(shown)


def _as_added(path: str, text: str) -> str:
    """An untracked file as the part of a patch that would add it."""
    *lines, rest = text.split("\n")
    body = "".join(f"+{line}\n" for line in lines)
    if rest:
        body += f"+{rest}\n\\ No newline at end of file\n"
    header = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ "
        f"b/{path}\n"
    )
    return f"{header}@@ -0,0 +1,{len(lines) + bool(rest)} @@\n{body}"


def _apply_in_scratch(git: Git, patch: str) -> tuple[dict[str, bytes | None], bool]:
    """The files a patch names after it, and whether it could be applied; the user's tree is not touched."""
    paths = sorted({path for section in sections(patch) for path in section.paths})
    with TemporaryDirectory(prefix="bridgehead-patch-") as name:
        folder = Path(name)
        for path in paths:
            if (
                content := read_working(git.directory, path)
            ) is not None and _stays_inside(path):
                make_dir((folder / path).parent, root=folder)
                write_atomic(folder / path, content, root=folder)
        applied = _try_patch(folder, patch)
        found = {
            path: read_working(folder, path) for path in paths if _stays_inside(path)
        }
    return {
        path: content for path, content in found.items() if content is not None
    }, applied


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not PurePosixPath(path).is_absolute() and ".." not in parts


def _try_patch(folder: Path, patch: str) -> bool:
    """Apply it, or see that it has been applied already."""
    scratch = Git(folder, {"PATH": os.environ.get("PATH", os.defpath)})
    alone = {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_DIR": str(folder / ".no-repository"),
    }
    for how in (["--whitespace=nowarn"], ["--reverse", "--check"]):
        with suppress(GitFailed):
            scratch.run("apply", *how, "-", stdin=patch.encode(), extra=alone)
            return True
    return False


class NoRepository(UserError):
    """A scope that only git can tell, outside a git repository."""

    def __init__(self, kind: str, hint: str = "name paths instead") -> None:
        super().__init__(
            f"{kind} needs a git repository, and this directory is not in one",
            hint=hint,
        )


def resolve_scope(
    request: ScopeRequest,
    *,
    project: Path,
    cwd: Path,
    environment: Mapping[str, str],
    allow_words: bool = False,
    no_secrets: tuple[str, ...] = (),
) -> Scope:
    """The scope that was asked for; without any, the whole project. `allow_words` admits entries that name no path."""
    if len(request.kinds) > 1:
        kinds = ", ".join(request.kinds)
        raise UserError(
            f"give only one of {kinds}",
            hint="a scope is either paths or one kind of change",
        )
    root = project.resolve()
    git = repository_at(root, environment)
    if request.kinds in ([], ["paths"]):
        return _Paths(git, root, cwd, no_secrets).scope(
            request.paths or (str(root),), allow_words=allow_words
        )
    if git is None:
        raise NoRepository(request.kinds[0])
    change = Change(git, no_secrets)
    if request.patch is not None:
        return change.patch(request.patch)
    if request.commit_range is not None:
        return change.commits(request.commit_range)
    return (
        change.staged() if request.staged else change.since(request.diff_base or "HEAD")
    )


class _Paths:
    """Files and directories in their working state."""

    def __init__(
        self, git: Git | None, root: Path, cwd: Path, no_secrets: tuple[str, ...]
    ) -> None:
        self._git = git
        self._no_secrets = no_secrets
        self._root = root
        self._cwd = cwd

    def scope(self, entries: tuple[str, ...], *, allow_words: bool) -> Scope:
        wanted = [self._relative(entry, allow_words=allow_words) for entry in entries]
        paths = [path for path in wanted if path is not None]
        sieve = ScopeFilter(self._no_secrets)
        for path in self._listed(paths):
            take_from_disk(sieve, self._root, path)
        for path in self._ignored(paths):
            sieve.leave_out(path, Reason.IGNORED)
        named = zip(entries, wanted, strict=True)
        described = tuple(
            "the whole project" if path == "." else path or entry
            for entry, path in named
        )
        if not sieve.texts and not allow_words:
            raise EmptyScope(", ".join(described), sieve.left_out)
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
            return sorted(
                {path for start in wanted for path in walk(self._root, start)}
            )
        if not wanted:
            return []
        kinds = ("--cached", "--others", "--exclude-standard", "--deduplicate")
        return sorted(self._git.fields("ls-files", "-z", *kinds, "--", *wanted))

    def _ignored(self, wanted: list[str]) -> list[str]:
        if self._git is None or not wanted:
            return []
        kinds = ("--others", "--ignored", "--exclude-standard", "--directory")
        return sorted(self._git.fields("ls-files", "-z", *kinds, "--", *wanted))
