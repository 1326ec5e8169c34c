"""The static seat over code whose weaknesses are known: `bench/static_labels`, written before the rules it judges.

A line that ends in `~bad:89` in a comment has that weakness (a CWE; 0 is a mistake without one), one that ends in
`~ok:89` looks like it and is right. The marks are taken out before anything is analysed. A finding within two lines of
a weakness, about that weakness, is right; every other finding from LOW on is wrong, also one where nothing is marked.
What lies in `held_out` was written after the rules, in another style, and no rule was changed for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.contract.report import Output
from bridgehead.contract.words import Severity
from bridgehead.council.findings.weaknesses import weaknesses
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static.seat import (
    Examined,
    available_analysers,
    examine,
)
from bridgehead.council.scope.scope import Scope

FOLDER: Final = Path(__file__).parent / "static_labels"
LINES_OFF: Final = 2
HELD_OUT: Final = "held_out/"
STATIC_FILES: Final = 1_200
LANGUAGES: Final = {
    ".js": "JavaScript",
    ".mjs": "JavaScript",
    ".ts": "TypeScript",
    ".go": "Go",
    ".java": "Java",
    ".cs": "C#",
    ".rs": "Rust",
    ".php": "PHP",
    ".rb": "Ruby",
    ".sh": "shell",
    ".bash": "shell",
    ".py": "Python",
    ".yml": "workflows",
    "": "Dockerfile",
}
_MARK: Final = re.compile(r"[ \t]*(?://|#)[ \t]*~(bad|ok):(\d+)[ \t]*$")
_PLACE: Final = re.compile(r"([^\s,]+):(\d+)")
_TIMEOUT_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Label:
    path: str
    line: int
    weakness: int
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Score:
    """Findings that are right and wrong, weaknesses that were found and missed."""

    right: int
    wrong: int
    found: int
    missed: int

    @property
    def precision(self) -> float:
        return (
            self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0
        )

    @property
    def recall(self) -> float:
        return (
            self.found / (self.found + self.missed) if self.found + self.missed else 1.0
        )


@dataclass(frozen=True, slots=True)
class Remark:
    """One place of a finding."""

    path: str
    line: int
    output: Output


def read_labels(folder: Path = FOLDER) -> tuple[dict[str, str], list[Label]]:
    """The files without their marks, and the marks."""
    texts: dict[str, str] = {}
    labels: list[Label] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if mark := _MARK.search(line):
                labels.append(Label(name, number, int(mark[2]), mark[1] == "bad"))
        texts[name] = "".join(f"{_MARK.sub('', line)}\n" for line in lines)
    return texts, labels


@cache
def static_cpu() -> tuple[float, float]:
    """Processor seconds for many files, the first time and once more."""
    labelled = list(read_labels()[0].items())
    texts = {}
    for number in range(STATIC_FILES):
        path, text = labelled[number % len(labelled)]
        texts[f"part_{number}/{path}"] = (
            f"{text}\n# {number}\n" if path.endswith((".py", ".rb", ".sh")) else text
        )
    with TemporaryDirectory(prefix="bridgehead-bench-") as folder:
        return _cpu_seconds(texts, Path(folder)), _cpu_seconds(texts, Path(folder))


def _cpu_seconds(texts: dict[str, str], cache: Path) -> float:
    before = os.times()
    _examine(texts, cache)
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def language_of(path: str) -> str:
    return LANGUAGES.get(Path(path).suffix, Path(path).suffix)


@cache
def scores() -> dict[str, Score]:
    """Of every language, of what was held out, and of all together under `all`."""
    texts, labels = read_labels()
    remarks = list(_remarks(texts))
    languages = sorted({language_of(path) for path in texts})
    by_language = {
        language: score(
            [remark for remark in remarks if language_of(remark.path) == language],
            [label for label in labels if language_of(label.path) == language],
        )
        for language in languages
    }
    held_out = score(
        [remark for remark in remarks if remark.path.startswith(HELD_OUT)],
        [label for label in labels if label.path.startswith(HELD_OUT)],
    )
    return by_language | {"held out": held_out, "all": score(remarks, labels)}


def score(remarks: Sequence[Remark], labels: Sequence[Label]) -> Score:
    bad = [label for label in labels if label.is_bad]
    right = [
        remark for remark in remarks if any(_is_about(remark, label) for label in bad)
    ]
    found = [
        label for label in bad if any(_is_about(remark, label) for remark in remarks)
    ]
    return Score(
        len(right), len(remarks) - len(right), len(found), len(bad) - len(found)
    )


def mistakes() -> Iterator[str]:
    """What is wrong and what is missed, to read."""
    texts, labels = read_labels()
    remarks = list(_remarks(texts))
    bad = [label for label in labels if label.is_bad]
    for remark in remarks:
        if not any(_is_about(remark, label) for label in bad):
            yield f"wrong  {remark.path}:{remark.line} {remark.output.title} [{remark.output.description[:40]}]"
    for label in bad:
        if not any(_is_about(remark, label) for remark in remarks):
            yield f"missed {label.path}:{label.line} CWE-{label.weakness}"


def _remarks(texts: dict[str, str]) -> Iterator[Remark]:
    for output in _examine(texts).outputs:
        if output.severity is not None and output.severity.rank >= Severity.LOW.rank:
            yield from _places(output)


def _examine(texts: dict[str, str], cache: Path | None = None) -> Examined:
    machine = Machine(dict(os.environ))
    analysers = available_analysers(SeatSetup("static"), machine)
    scope = Scope((".",), texts)
    return examine(
        scope,
        analysers,
        machine.environment,
        timeout_seconds=_TIMEOUT_SECONDS,
        cache=cache,
    )


def _places(output: Output) -> Iterable[Remark]:
    unquoted = re.sub(r"(`+).*?\1", "", output.evidence or "", flags=re.DOTALL)
    for path, line in _PLACE.findall(unquoted):
        yield Remark(path, int(line), output)


def _is_about(remark: Remark, label: Label) -> bool:
    if remark.path != label.path or abs(remark.line - label.line) > LINES_OFF:
        return False
    return label.weakness == 0 or bool(
        weaknesses(f"CWE-{label.weakness}") & weaknesses(remark.output.description)
    )


def main() -> None:
    for language, one in scores().items():
        print(
            f"{language:12} precision {one.precision:.2f} recall {one.recall:.2f} of {one.found + one.missed}"
        )
    for line in mistakes():
        print(line)


if __name__ == "__main__":
    main()
