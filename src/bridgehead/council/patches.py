"""A patch as its parts: one section per file, with the names it gives the file. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

_SECTION: Final = re.compile(r"^(?=diff --git )", re.MULTILINE)
_PLAIN_SECTION: Final = re.compile(r"^(?=--- [^\n]+\n\+\+\+ )", re.MULTILINE)
_NAMES: Final = re.compile(
    r"^(?:---|\+\+\+|rename from|rename to|copy from|copy to) (?P<name>[^\t\n]+)", re.MULTILINE
)
_HEADER: Final = re.compile(r"^diff --git (?P<old>.+) (?P<new>\S+|\"[^\"]+\")$", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ ", re.MULTILINE)
_NO_FILE: Final = "/dev/null"


@dataclass(frozen=True, slots=True)
class Section:
    """What a patch does to one file."""

    text: str
    old: str | None
    new: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path is not None))

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


def renamed(patch: str) -> dict[str, str]:
    """{old path: new path} of the files a patch renames."""
    moved = [
        section for section in sections(patch) if re.search(r"^rename from ", section.text, re.MULTILINE)
    ]
    return {section.old: section.new for section in moved if section.old and section.new}


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
    if bare == _NO_FILE:
        return None
    return re.sub(r"^[ab]/", "", bare)


def _unquoted(name: str) -> str:
    """C-style quoting as git uses it for unusual names."""
    plain = re.sub(
        rb"\\([0-7]{3}|.)",
        lambda found: bytes([int(found[1], 8)]) if len(found[1]) == 3 else _ESCAPES.get(found[1], found[1]),
        name.encode(),
    )
    return plain.decode("utf-8", "replace")


_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
