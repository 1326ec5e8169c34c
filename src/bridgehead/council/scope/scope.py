"""What a council looks at: files and directories, a diff, the index, a range of commits, or a patch and its
sections (§5, §24).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from posixpath import normpath
from typing import Final

from bridgehead.council.scope.withheld import (
    LeftOut,
    Reason,
    as_utf8,
    is_ours,
    masked,
    masked_text,
    withheld_by_content,
    withheld_by_name,
)
from bridgehead.errors import UserError

_SECTION: Final = re.compile(r"^(?=diff --git )", re.MULTILINE)
_PLAIN_SECTION: Final = re.compile(r"^(?=--- [^\n]+\n\+\+\+ )", re.MULTILINE)
_NAMES: Final = re.compile(
    r"^(?:---|\+\+\+|rename from|rename to|copy from|copy to) (?P<name>[^\t\n]+)",
    re.MULTILINE,
)
_HEADER: Final = re.compile(
    r"^diff --git (?P<old>.+) (?P<new>\S+|\"[^\"]+\")$", re.MULTILINE
)
_HUNK: Final = re.compile(r"^@@ ", re.MULTILINE)
_HUNK_START: Final = re.compile(r"@@ -\S+ \+(?P<new>\d+)")
_HUNK_AND_AFTER: Final = re.compile(r"\A.*?(?=^@@ )", re.MULTILINE | re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
MOST_TEXT_BYTES: Final = 128 * 1024 * 1024
NAMED_IN_NOTES: Final = 5
_ABOUT_SECRETS: Final = (Reason.SECRET, Reason.MASKED)
_FOR_ANALYSERS: Final = (Reason.SECRET, Reason.AGENT_CONFIGURATION)


@dataclass(frozen=True, slots=True)
class Section:
    """What a patch does to one file."""

    text: str
    old: str | None
    new: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(path for path in (self.old, self.new) if path is not None)
        )

    @property
    def is_text(self) -> bool:
        return _HUNK.search(self.text) is not None


def sections(patch: str) -> list[Section]:
    """The sections of a patch as git or diff writes it; what stands before the first one is dropped."""
    starts = _SECTION if _SECTION.search(patch) else _PLAIN_SECTION
    return [_section(part) for part in starts.split(patch) if starts.match(part)]


def without_paths(patch: str, withheld: Container[str]) -> str:
    """The patch minus every section that touches a withheld path or is no text."""
    kept = [
        section.text
        for section in sections(patch)
        if section.is_text and not any(path in withheld for path in section.paths)
    ]
    return "".join(kept)


def touched_lines(patch: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """{path: (first, last), ...} of the lines a patch adds or changes; where it only removes, the two lines around."""
    return {
        section.new: tuple(_blocks(section.text))
        for section in sections(patch)
        if section.new
    }


def _blocks(section: str) -> Iterator[tuple[int, int]]:
    number = 0
    first = None
    removed = False
    for line in [*_HUNK_AND_AFTER.sub("", section, count=1).split("\n"), "@@ "]:
        if line.startswith("+"):
            first = number if first is None else first
            number += 1
        elif line.startswith("-"):
            removed = True
        elif not line.startswith("\\"):
            if first is not None:
                yield first, number - 1
            elif removed:
                yield max(number - 1, 1), number
            first = None
            removed = False
            at = _HUNK_START.match(line)
            number = int(at["new"]) if at else number + 1


def renamed(patch: str) -> dict[str, str]:
    """{old path: new path} of the files a patch renames."""
    moved = [
        section
        for section in sections(patch)
        if re.search(r"^rename from ", section.text, re.MULTILINE)
    ]
    return {
        section.old: section.new for section in moved if section.old and section.new
    }


def changed_lines(patch: str, marks: str = "+-") -> dict[str, str]:
    """{path: the lines with these marks, added to it or taken out of it}; a deleted file is known by its old name."""
    taken: dict[str, str] = {}
    for section in sections(patch):
        if path := section.new or section.old:
            hunks = _HUNK.split(section.text)[1:]
            lines = (
                line[1:]
                for hunk in hunks
                for line in hunk.split("\n")
                if line.startswith(tuple(marks))
            )
            taken[path] = "\n".join(lines)
    return taken


def _section(text: str) -> Section:
    head = _HUNK.split(text, maxsplit=1)[0]
    named = [_clean(match["name"]) for match in _NAMES.finditer(head)]
    if named:
        return Section(text, named[0], named[-1])
    header = _HEADER.search(head)
    if header is None:
        return Section(text, None, None)
    return Section(text, _clean(header["old"]), _clean(header["new"]))


def _clean(name: str) -> str | None:
    """A path without quotes and the a/ b/ prefix; None where there is no file on that side."""
    bare = name.strip()
    if bare.startswith('"') and bare.endswith('"'):
        bare = _unquoted(bare[1:-1])
    if bare == "/dev/null":
        return None
    return re.sub(r"^[ab]/", "", bare)


def _unquoted(name: str) -> str:
    """C-style quoting as git uses it for unusual names."""
    plain = re.sub(
        rb"\\([0-7]{3}|.)",
        lambda found: (
            bytes([int(found[1], 8)])
            if len(found[1]) == 3
            else _ESCAPES.get(found[1], found[1])
        ),
        name.encode(),
    )
    return plain.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ScopeRequest:
    """What was asked for; at most one of the five kinds."""

    paths: tuple[str, ...] = ()
    diff_base: str | None = None
    staged: bool = False
    commit_range: str | None = None
    patch: str | None = None
    """The text of a patch."""

    @property
    def named_paths(self) -> tuple[str, ...]:
        """The files and folders that are meant, `.` for all of them; none for a change."""
        if self.kinds not in ([], ["paths"]):
            return ()
        return tuple(map(normpath, self.paths)) or (".",)

    @property
    def kinds(self) -> list[str]:
        given = {
            "paths": bool(self.paths),
            "--diff": self.diff_base is not None,
            "--staged": self.staged,
            "--range": self.commit_range is not None,
            "--patch": self.patch is not None,
        }
        return [name for name, is_given in given.items() if is_given]


class UnknownScope(UserError):
    """A scope entry that names nothing here."""

    def __init__(
        self, entry: str, problem: str = "there is no such file or directory"
    ) -> None:
        super().__init__(
            f"scope {entry!r}: {problem}",
            hint="name files or directories of this project",
        )


class EmptyScope(UserError):
    """A scope in which nothing is left to look at."""

    def __init__(self, described: str, left_out: Iterable[LeftOut]) -> None:
        super().__init__(
            "; ".join(
                [f"nothing to review in {described}", *_left_out_notes(left_out)]
            ),
            hint="name what to review: bridgehead council review PATH",
        )


@dataclass(frozen=True)
class Scope:
    """Everything the council may look at, as text, and what it may not."""

    described: tuple[str, ...]
    """What prompts and reports call it."""
    texts: Mapping[str, str]
    """Path from the project's root, with `/`, to text: what may be shown."""
    left_out: tuple[LeftOut, ...] = ()
    withheld_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Text files that are kept back; for analysers on this machine, never for a model."""
    diff: str | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    base_commit: str | None = None
    """What a change is compared with."""
    dirty: bool = False
    warnings: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that a change takes away, by the names they had."""
    outside: tuple[str, ...] = ()
    """Tracked files of the project that are not looked at, by name only."""

    @property
    def files(self) -> int:
        return len(self.texts)

    @cached_property
    def loc(self) -> int:
        """Newlines, as the timeout table counts them (council §5)."""
        return sum(text.count("\n") for text in self.texts.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, for the reader of the report."""
        return _left_out_notes(
            entry for entry in self.left_out if entry.reason is not Reason.IGNORED
        )

    @property
    def touched(self) -> Mapping[str, tuple[tuple[int, int], ...]] | None:
        """Return the lines of a change by file; None where all lines count.

        A pure rename touches no line.
        """
        if self.diff:
            return touched_lines(self.diff)
        hidden = [one for one in self.left_out if one.reason is not Reason.IGNORED]
        is_renamed = bool(self.texts) and set(self.texts) <= set(self.renames.values())
        if self.diff is None or hidden or not is_renamed:
            return None
        return {}

    def without(self, folders: Iterable[str]) -> Scope:
        """The same scope as if these folders of the root were not there."""
        prefixes = tuple(f"{folder}/" for folder in folders)
        return replace(
            self,
            texts={
                path: text
                for path, text in self.texts.items()
                if not path.startswith(prefixes)
            },
        )

    @cached_property
    def fingerprint(self) -> str:
        """What is looked at in one value; a resumed run compares it.

        The commit is not in it: one that leaves these files alone, such as a rig's envelope, changes nothing here.
        """
        digest = hashlib.sha256((self.diff or "").encode("utf-8", "surrogatepass"))
        for path in sorted(self.texts):
            content = hashlib.sha256(
                self.texts[path].encode("utf-8", "surrogatepass")
            ).hexdigest()
            digest.update(f"\n{content} {path}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _left_out_notes(left_out: Iterable[LeftOut]) -> tuple[str, ...]:
    """One sentence per reason, with the first few names."""
    by_reason: dict[Reason, list[str]] = {}
    for entry in left_out:
        by_reason.setdefault(entry.reason, []).append(entry.path)
    return tuple(_left_out_note(reason, paths) for reason, paths in by_reason.items())


def _left_out_note(reason: Reason, paths: list[str]) -> str:
    how = (
        "; council.no_secrets names files to show as they are"
        if reason in _ABOUT_SECRETS
        else ""
    )
    what = (
        "shown with values masked"
        if reason is Reason.MASKED
        else f"left out ({reason})"
    )
    return f"{what}: {named(paths)}{how}"


def named(paths: list[str]) -> str:
    """The first few of some paths, for a sentence."""
    more = (
        f" and {len(paths) - NAMED_IN_NOTES} more"
        if len(paths) > NAMED_IN_NOTES
        else ""
    )
    return ", ".join(paths[:NAMED_IN_NOTES]) + more


class ScopeFilter:
    """Takes files one by one and sorts them into shown, withheld and left out."""

    def __init__(self, no_secrets: tuple[str, ...] = ()) -> None:
        self.texts: dict[str, str] = {}
        self.withheld_texts: dict[str, str] = {}
        self.left_out: list[LeftOut] = []
        self._no_secrets = no_secrets
        """Patterns of files whose owner says that what looks like a secret in them is none."""
        self._room = MOST_TEXT_BYTES

    def take(self, path: str, content: bytes | None) -> None:
        """A file of the scope; None when it cannot be read."""
        if is_ours(path):
            return
        if content is None or not is_text(path):
            self.leave_out(path, Reason.UNREADABLE)
            return
        content = as_utf8(content)
        is_script = content.startswith(b"#!")
        by_name = withheld_by_name(path)
        by_content = withheld_by_content(content)
        if Reason.SECRET in (by_name, *(by_content or ())) and self._has_no_secrets(
            path
        ):
            by_name = by_content = None
        original = content
        if (
            by_name is None
            and by_content
            and by_content[0] is Reason.SECRET
            and (shown := masked(content))
        ):
            self.leave_out(path, Reason.MASKED, by_content[1])
            content = shown
            by_content = None
            self.withheld_texts[path] = original.decode("utf-8", "replace")
        if by_name is not None:
            self.leave_out(path, by_name)
        elif by_content is not None:
            self.leave_out(path, *by_content, is_script=is_script)
        elif len(content) > self._room:
            self.leave_out(path, Reason.TOO_MUCH, is_script=is_script)
        else:
            self._room -= len(content)
            self.texts[path] = content.decode("utf-8", "replace")
            return
        reason = by_name or (by_content and by_content[0])
        if reason in _FOR_ANALYSERS and b"\0" not in content:
            self.withheld_texts[path] = content.decode("utf-8", "replace")

    def leave_out(
        self, path: str, reason: Reason, detail: str = "", *, is_script: bool = False
    ) -> None:
        if not is_ours(path):
            left_out = LeftOut(shown_name(path), reason, detail, is_script)
            self.left_out.append(left_out)

    def clean_diff(self, diff: str) -> str:
        """The diff without withheld files, and without sections that bear a secret themselves; values are masked."""
        shown = "".join(self._masked(section) for section in sections(diff))
        hidden = {
            entry.path for entry in self.left_out if entry.reason is not Reason.MASKED
        }
        for section in sections(shown):
            hidden |= self._hidden_in(section.text, section.paths)
        return without_paths(shown, hidden)

    def _masked(self, section: Section) -> str:
        harmless = section.paths and all(map(self._has_no_secrets, section.paths))
        return section.text if harmless else masked_text(section.text)

    def _has_no_secrets(self, path: str) -> bool:
        return any(fnmatch(path, pattern) for pattern in self._no_secrets)

    def _hidden_in(self, text: str, paths: tuple[str, ...]) -> set[str]:
        """Paths of a section that must not be shown; a removed line may bear a secret that the file has no more."""
        if any(is_ours(path) for path in paths):
            return set(paths)
        if all(map(self._has_no_secrets, paths)):
            return set()
        found = withheld_by_content(text.encode("utf-8", "replace"))
        by_name = next(filter(None, map(withheld_by_name, paths)), None)
        if by_name is None and (found is None or found[0] is not Reason.SECRET):
            return set()
        known = {
            entry.path for entry in self.left_out if entry.reason is not Reason.MASKED
        }
        for path in paths:
            if path not in known:
                self.leave_out(path, by_name or Reason.SECRET, "in the diff")
                if path in self.texts:
                    self.withheld_texts.setdefault(path, self.texts.pop(path))
        return set(paths)


def text_digest(text: str) -> str:
    """What a reviewed file is known by, as it was shown; a line end that git translates makes no difference."""
    shown = masked_text(text.replace("\r\n", "\n"))
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a file is one of some paths or lies below one of them; `.` is the whole project."""
    return any(
        folder == "." or path == folder or path.startswith(f"{folder}/")
        for folder in folders
    )


def shown_name(path: str) -> str:
    """Return what a report calls a file."""
    return path if is_text(path) else ascii(path)


def is_text(path: str) -> bool:
    """Whether a report can hold it: git, the disk and a shell also know names that are no Unicode text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
