"""File references in a text: `path.ext[:line[-line]]`, as models write them (council §8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# A bare name without slash or line number counts only with one of these (council §16, row `code`, and §8).
KNOWN_EXTENSIONS: Final = frozenset(
    "go py ts js rs java rb kt swift c cpp tsx jsx sql sh yaml "
    "h hpp cs php md txt json toml yml xml html css ini cfg csv".split()
)
NEARBY_LINES: Final = 3

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s<>\"'`]*")
_REFERENCE: Final = re.compile(
    r"(?<![\w./\\+@~-])"  # from the start of the run on, or a long run would be walked once for each character
    r"(?P<path>[\w./\\+@~-]*?\.(?P<ext>[A-Za-z][A-Za-z0-9]{0,9}))"
    r"(?![\w/\\+@~-]|\.[\w/\\+@~-])"  # the run ends here; dots that only close a sentence do not belong to it
    r"(?::(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?)?"
)
_HERE: Final = re.compile(r"\A(?:\./)+")
_KINDS_OF_FILES: Final = re.compile(r"(?:\.\w+/)*\.\w+")


class Relation(StrEnum):
    """How the places named by two texts lie to each other."""

    NONE = "none"
    DIFFERENT = "different"
    SAME_LINES = "same_lines"
    SAME_FILE = "same_file"


@dataclass(frozen=True, slots=True)
class FileReference:
    """A path with forward slashes, and its line range where one is given."""

    path: str
    first_line: int | None = None
    last_line: int | None = None

    @property
    def name(self) -> str:
        """The last component; references to one file always share it."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class LocatedReference:
    """A reference and the characters of the text it was read from."""

    reference: FileReference
    start: int
    end: int


def find_references(text: str) -> tuple[FileReference, ...]:
    """Every file reference in `text`, in order; URLs are skipped."""
    return tuple(reference for reference, _ in _found(text))


def locate_references(text: str) -> tuple[LocatedReference, ...]:
    """The same with their places."""
    return tuple(LocatedReference(reference, match.start(), match.end()) for reference, match in _found(text))


def _found(text: str) -> Iterator[tuple[FileReference, re.Match[str]]]:
    without_urls = _URL.sub(lambda url: " " * len(url[0]), text) if "://" in text else text
    for match in _REFERENCE.finditer(without_urls):
        if (reference := _reference(match)) is not None:
            yield reference, match


def relate(ours: Sequence[FileReference], theirs: Sequence[FileReference]) -> Relation:
    """The closest relation between any reference of one side and any of the other."""
    if not ours or not theirs:
        return Relation.NONE
    common = [(one, other) for one in ours for other in theirs if is_same_file(one.path, other.path)]
    if not common:
        return Relation.DIFFERENT
    near = any(lines_apart(one, other) <= NEARBY_LINES for one, other in common)
    return Relation.SAME_LINES if near else Relation.SAME_FILE


def is_same_file(one: str, other: str) -> bool:
    """Equal, or one is the other's ending after a slash."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def _reference(match: re.Match[str]) -> FileReference | None:
    written = match["path"].replace("\\", "/")
    has_line = match["first"] is not None
    if not has_line and not _names_a_file(written, match["ext"]):
        return None
    path = _HERE.sub("", written)
    if not has_line:
        return FileReference(path)
    first = int(match["first"])
    last = int(match["last"] or first)
    return FileReference(path, min(first, last), max(first, last))


def _names_a_file(written: str, extension: str) -> bool:
    """Whether a run without a line is meant as a file: `deploy/.env` is, a bare `os.path` or `.js/.ts` is not."""
    if "/" in written:
        return not _KINDS_OF_FILES.fullmatch(written)
    has_stem = bool(written[: -len(extension)].strip("."))
    return has_stem and extension.lower() in KNOWN_EXTENSIONS


def lines_apart(one: FileReference, other: FileReference) -> float:
    if one.first_line is None or other.first_line is None or one.last_line is None or other.last_line is None:
        return float("inf")
    return max(0, one.first_line - other.last_line, other.first_line - one.last_line)
