"""What a model cannot read by itself and gets in the prompt: files with line numbers, diffs (council §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bridgehead.council.findings.tree import FileText
from bridgehead.council.scope.scope import sections

MOST_CHARACTERS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Passage:
    """One file or one file's part of a diff."""

    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Material:
    """Passages that fit, and the names of those that did not."""

    passages: tuple[Passage, ...] = ()
    left_out: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    """Files of which neither the text nor the diff is among the passages."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return (f"material_left_out:{len(self.left_out)}",) if self.left_out else ()


@dataclass(frozen=True, slots=True)
class ScopeMaterial:
    """A scope's material by need: `diff` goes to every connection, `files` to those that cannot open files."""

    diff: Material = Material()
    files: Material = Material()

    def for_seat(self, *, reads_files: bool) -> Material:
        if reads_files:
            return self.diff
        shown = {passage.origin for passage in self.diff.passages}
        return Material(
            self.diff.passages + self.files.passages,
            tuple(dict.fromkeys(self.diff.left_out + self.files.left_out)),
            tuple(
                path for path in self.files.left_out if f"diff of {path}" not in shown
            ),
        )


def scope_material(files: Mapping[str, str], diff: str | None = None) -> ScopeMaterial:
    """Take whole files in path order as far as they fit; what does not is named."""
    parts = (
        (
            f"diff of {part.new}"
            if part.new
            else f"diff: {part.text.partition(chr(10))[0]}",
            part.text.rstrip("\n"),
        )
        for part in sections(diff or "")
    )
    changed = _fitting(parts, MOST_CHARACTERS)
    room = MOST_CHARACTERS - sum(len(passage.text) for passage in changed.passages)
    return ScopeMaterial(
        changed, _fitting(sorted(files.items()), room, with_line_numbers)
    )


def with_line_numbers(text: str) -> str:
    """The text as it is cited: every line with its number."""
    return "\n".join(
        f"{number:>5} | {line}"
        for number, line in enumerate(FileText(text).lines, start=1)
    )


def _fitting(
    texts: Iterable[tuple[str, str]], room: int, show: Callable[[str], str] = str
) -> Material:
    """Those that fit as they are shown, which is never shorter than they are."""
    taken: list[Passage] = []
    left_out: list[str] = []
    for origin, text in texts:
        if len(text) <= room and len(shown := show(text)) <= room:
            taken.append(Passage(origin, shown))
            room -= len(shown)
        else:
            left_out.append(origin)
    return Material(tuple(taken), tuple(left_out))
