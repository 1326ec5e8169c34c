"""The reviewed files as data: paths, and the text of each when it is asked for.

Nothing outside `paths` is ever read, whatever a reference says. Reading is done by the function that is passed in.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from bridgehead.council.findings.references import looks_usual

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_asked_to_stop: ContextVar[Callable[[], bool]] = ContextVar(
    "asked_to_stop", default=lambda: False
)


class ReadingStopped(Exception):
    """The council was asked to stop while something was being read."""


@contextmanager
def stopping_when(asked: Callable[[], bool]) -> Iterator[None]:
    """Replies that are read inside the block, and evidence that is checked, are given up soon after `asked` says so."""
    token = _asked_to_stop.set(asked)
    try:
        yield
    finally:
        _asked_to_stop.reset(token)


def look_up() -> None:
    """Raise ReadingStopped if the council is asked to stop; called again and again by whatever may take long."""
    if _asked_to_stop.get()():
        raise ReadingStopped


class Tree:
    """The state that was reviewed. `read` gives a file's text, or None when it cannot be read as text."""

    def __init__(
        self,
        paths: Iterable[str],
        read: Callable[[str], str | None],
        removed: Mapping[str, str] | None = None,
        outside: Iterable[str] = (),
    ) -> None:
        """`removed`: the lines that the change under review takes out of a file; they may be quoted all the same.

        `outside`: files of the project that were not reviewed; they exist, and are never read.
        """
        self.paths = tuple(dict.fromkeys(paths))
        self.removed = {path: FileText(text) for path, text in (removed or {}).items()}
        self._read = read
        self._known = frozenset(self.paths)
        self._outside = frozenset(outside)
        self._outside_names = {path.rpartition("/")[2] for path in self._outside}
        self._files: dict[str, FileText | None] = {}
        self.checked: dict[
            str, Any
        ] = {}  # what evidence.py found for a text, which is asked for again and again
        self._by_name: dict[str, list[str]] = {}
        for path in self.paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    @cached_property
    def unusual(self) -> tuple[str, ...]:
        """Paths that a text does not show as such: with blanks, quotes or `#`, or without an extension."""
        return tuple(path for path in self.paths if not looks_usual(path))

    @classmethod
    def of(
        cls,
        texts: Mapping[str, str | None],
        removed: Mapping[str, str] | None = None,
        outside: Iterable[str] = (),
    ) -> Tree:
        """A tree held in memory."""
        return cls(texts, lambda path: texts[path], removed, outside)

    def __contains__(self, path: object) -> bool:
        return path in self._known

    def file(self, path: str) -> FileText | None:
        """The file at a path of the tree; None when it is no text or not in the tree."""
        if path not in self._known:
            return None
        if path not in self._files:
            text = self._read(path)
            self._files[path] = None if text is None else FileText(text)
        return self._files[path]

    def is_outside(self, reference: str) -> bool:
        """Whether a reference names a file of the project that was not reviewed."""
        if reference.rpartition("/")[2] not in self._outside_names:
            return False
        own = re.sub(r"^[ab]/", "", reference)
        if not self._outside.isdisjoint({reference, own}):
            return True
        return any(path.endswith(f"/{reference}") for path in self._outside)

    def named_like(self, reference: str) -> list[str]:
        """Paths that share the last component of a reference."""
        return self._by_name.get(reference.rpartition("/")[2], [])


class FileText:
    """A text as lines, numbered from 1, and as one squeezed string that knows which line each character is on."""

    def __init__(self, text: str) -> None:
        lines = _LINE_END.split(text.removeprefix("\ufeff"))
        if lines[-1] == "":
            lines.pop()
        self.lines = lines

    @cached_property
    def squeezed_lines(self) -> list[str]:
        return [squeeze(line) for line in self.lines]

    @cached_property
    def squeezed(self) -> str:
        return "".join(self.squeezed_lines)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.squeezed_lines), initial=0))

    def line_at(self, offset: int) -> int:
        """The line of a character of the squeezed text."""
        return bisect_right(self._starts, offset)

    def occurrences(self, squeezed: str) -> Iterator[int]:
        """Offsets at which a squeezed passage stands."""
        offset = self.squeezed.find(squeezed)
        while offset >= 0:
            yield offset
            offset = self.squeezed.find(squeezed, offset + 1)

    def non_blank_from(self, line: int) -> Iterator[int]:
        """Numbers of the lines from `line` on that are not blank."""
        return (
            number
            for number in range(line, len(self.lines) + 1)
            if self.squeezed_lines[number - 1]
        )


def squeeze(text: str) -> str:
    """NFC without any whitespace; two code passages are equal when these are (council §25)."""
    return "".join(unicodedata.normalize("NFC", text).split())


def current_name(path: str, renames: Mapping[str, str]) -> str:
    """What a path is called now; a chain is followed, a cycle ends the walk."""
    seen = {path}
    while (later := renames.get(path)) is not None and later not in seen:
        seen.add(later)
        path = later
    return path


def earlier_names(path: str, renames: Mapping[str, str]) -> tuple[str, ...]:
    """What a path was called before, nearest first; a cycle ends the walk."""
    before = {new: old for old, new in reversed(list(renames.items()))}
    names = [path]
    while (earlier := before.get(names[-1])) is not None and earlier not in names:
        names.append(earlier)
    return tuple(names[1:])
