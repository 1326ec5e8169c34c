"""The code a finding speaks of, as it stands in the tree now, with the lines in question marked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.council.reporting.report import FindingEntry
from bridgehead.council.scope.resolve import read_working

AROUND: Final = 3
MOST_LINES: Final = 40
MOST_WIDTH: Final = 400


@dataclass(frozen=True, slots=True)
class CodeLine:
    number: int
    text: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    lines: tuple[CodeLine, ...]


class Excerpts:
    """Reads each file of one project once."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._files: dict[str, list[str] | None] = {}

    def of(self, finding: FindingEntry) -> Excerpt | None:
        """The lines around the finding's place; None when they are not there any more."""
        place = _place(finding)
        if place is None:
            return None
        path, first, last = place
        text = self._lines(path)
        if text is None or not 1 <= first <= len(text):
            return None
        begin, end = max(1, first - AROUND), min(len(text), last + AROUND, first + MOST_LINES)
        lines = tuple(
            CodeLine(number, text[number - 1][:MOST_WIDTH], first <= number <= last) for number in range(begin, end + 1)
        )
        return Excerpt(path, lines)

    def _lines(self, path: str) -> list[str] | None:
        if path not in self._files:
            content = read_working(self._project, path)
            self._files[path] = None if content is None else content.decode("utf-8", "replace").split("\n")
        return self._files[path]


def _place(finding: FindingEntry) -> tuple[str, int, int] | None:
    """Path and lines: the anchor, or the first line that is cited."""
    anchor = finding.anchor
    if anchor:
        first, last = anchor["lines"]
        return str(anchor["path"]), int(first), int(last)
    for reference in finding.evidence_check.get("references") or ():
        lines = reference.get("lines") or reference.get("cited")
        if lines:
            return str(reference["path"]), int(lines[0]), int(lines[1])
    return None
