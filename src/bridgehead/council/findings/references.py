"""File references in a text: `path.ext[:line[-line]]`, as models write them (council §8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Final

# A bare name without slash or line number counts only with one of these (council §16, row `code`, and §8).
KNOWN_EXTENSIONS: Final = frozenset(
    [
        "go",
        "py",
        "ts",
        "js",
        "rs",
        "java",
        "rb",
        "kt",
        "swift",
        "c",
        "cpp",
        "tsx",
        "jsx",
        "sql",
        "sh",
        "yaml",
        "h",
        "hpp",
        "cs",
        "php",
        "md",
        "txt",
        "json",
        "toml",
        "yml",
        "xml",
        "html",
        "css",
        "ini",
        "cfg",
        "csv",
    ]
)
NEARBY_LINES: Final = 3
# Two findings are compared place by place; whoever cites more places than these does not make that any longer.
MOST_REFERENCES: Final = 20

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s<>\"'`]*")
_REFERENCE: Final = re.compile(
    r"(?<![\w./\\+@~-])"  # from the start of the run on, or a long run would be walked once for each character
    r"(?P<path>[\w./\\+@~-]*?\.(?P<ext>[A-Za-z][A-Za-z0-9]{0,9}))"
    r"(?![\w/\\+@~-]|\.[\w/\\+@~-])"  # the run ends here; dots that only close a sentence do not belong to it
    r"(?::(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?)?"
)
_LINES: Final = r"(?![\w/])(?::(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?)?"
_UNMISTAKABLE: Final = re.compile(r"[^\w]")
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
    def lines(self) -> tuple[int, int] | None:
        return (
            None
            if self.first_line is None or self.last_line is None
            else (self.first_line, self.last_line)
        )

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


@lru_cache(maxsize=10_000)  # every packet of a debate asks for those of every item
def find_references(text: str) -> tuple[FileReference, ...]:
    """The file references in `text`, in order, equal ones once; URLs are skipped, and so are those beyond a measure."""
    return tuple(
        islice(
            dict.fromkeys(reference for reference, _ in _found(text)), MOST_REFERENCES
        )
    )


def locate_references(
    text: str, unusual: Sequence[str] = ()
) -> tuple[LocatedReference, ...]:
    """The same with their places; paths that do not look like one are found where they are among `unusual`."""
    known = list(_known(text, unusual))
    usual = [
        LocatedReference(found, match.start(), match.end())
        for found, match in _found(text)
    ]
    free = [
        one
        for one in usual
        if not any(one.start < other.end and other.start < one.end for other in known)
    ]
    return tuple(sorted([*known, *free], key=lambda one: one.start))


def looks_usual(path: str) -> bool:
    """Whether a path is found in a text by its looks: no blanks, quotes or `#` in it, and an extension at its end."""
    found = _REFERENCE.fullmatch(path)
    return found is not None and found["first"] is None


def _known(text: str, unusual: Sequence[str]) -> Iterator[LocatedReference]:
    """Unusual paths, whole or by their last part, with a line or standing alone; the longest one first."""
    names = dict.fromkeys([*unusual, *(path.rpartition("/")[2] for path in unusual)])
    taken: list[tuple[int, int]] = []
    for name in sorted(
        (one for one in names if one and not looks_usual(one) and one in text),
        key=len,
        reverse=True,
    ):
        for match in re.finditer(rf"(?<![\w/]){re.escape(name)}{_LINES}", text):
            plain = match["first"] is None and not _UNMISTAKABLE.search(name)
            if plain or any(
                match.start() < end and start < match.end() for start, end in taken
            ):
                continue  # `Makefile` alone may be talk about one
            taken.append((match.start(), match.end()))
            yield LocatedReference(_at_lines(name, match), match.start(), match.end())


def _found(text: str) -> Iterator[tuple[FileReference, re.Match[str]]]:
    without_urls = (
        _URL.sub(lambda url: " " * len(url[0]), text) if "://" in text else text
    )
    for match in _REFERENCE.finditer(without_urls):
        written = match["path"].replace("\\", "/")
        if match["first"] is not None or _names_a_file(written, match["ext"]):
            yield _at_lines(_HERE.sub("", written), match), match


def relate(ours: Sequence[FileReference], theirs: Sequence[FileReference]) -> Relation:
    """The closest relation between any reference of one side and any of the other."""
    if not ours or not theirs:
        return Relation.NONE
    common = [
        (one, other)
        for one in ours
        for other in theirs
        if is_same_file(one.path, other.path)
    ]
    if not common:
        return Relation.DIFFERENT
    near = any(
        lines_apart(one.lines, other.lines) <= NEARBY_LINES for one, other in common
    )
    return Relation.SAME_LINES if near else Relation.SAME_FILE


def is_same_file(one: str, other: str) -> bool:
    """Equal, or one is the other's ending after a slash."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def _at_lines(path: str, match: re.Match[str]) -> FileReference:
    if match["first"] is None:
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


def lines_apart(one: tuple[int, int] | None, other: tuple[int, int] | None) -> float:
    return (
        float("inf")
        if one is None or other is None
        else max(0, one[0] - other[1], other[0] - one[1])
    )
