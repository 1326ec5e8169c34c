"""Every rule that is cited by its section stands in the specification under that number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPECIFICATION = ROOT / "docs" / "spec"
DOCUMENTS = [
    "bus",
    "council",
    "design",
    "flows",
    "rigs",
    "runtimes",
]
READ = ["src", "tests", "docs", "bench", "tools"]
TEXTS = {
    ".css",
    ".html",
    ".js",
    ".md",
    ".py",
    ".toml",
    ".txt",
    ".tsv",
    ".yaml",
    ".yml",
}

SECTION = re.compile(r"§ ?(\d+(?:\.\d+)*)?(?:[-–](\d+(?:\.\d+)*))?")
WORD_BEFORE = re.compile(r"([A-Za-z][\w-]*)[\s#\"'(*]*$")
STANDARD = re.compile(r"[A-Z]+-[0-9]|RFC")
"""The name of a standard of others: SESSION-1 §3.1."""
FOREIGN = "a standard"
SAME_LIST = 40
"""Characters after which a section without a name no longer belongs to the name before it."""


class Citation(NamedTuple):
    place: str
    document: str
    section: str

    def __str__(self) -> str:
        return f"{self.place}: {self.document} §{self.section}"


@cache
def page(document: str) -> str:
    return (SPECIFICATION / f"{document}.md").read_text(encoding="utf-8")


@cache
def sections(document: str) -> frozenset[str]:
    """Return the numbers of a page's headings."""
    return frozenset(
        re.findall(r"^#{2,4} (\d+(?:\.\d+)*)\.? ", page(document), re.MULTILINE)
    )


@cache
def texts() -> tuple[Path, ...]:
    """Return every text that may cite; recorded vectors are not ours to read."""
    found = [path for folder in READ for path in sorted((ROOT / folder).rglob("*"))]
    return tuple(
        path
        for path in found
        if path.suffix in TEXTS and path.is_file() and "vectors" not in path.parts
    )


def part_of(path: Path) -> str:
    """Return the page that a section without a name means in this file."""
    names = [*path.relative_to(ROOT).parts[:-1], path.stem]
    return next((name for name in reversed(names) if name in DOCUMENTS), "")


def citations(text: str, place: str, part: str) -> Iterator[Citation]:
    """Find what a text cites. A number without a name belongs to the name shortly before it, else to `part`."""
    document = part
    end = -SAME_LIST
    for found in SECTION.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        before = WORD_BEFORE.search(text, max(0, found.start() - 40), found.start())
        word = before[1] if before else ""
        if word.lower() in DOCUMENTS:
            document = word.lower()
        elif STANDARD.fullmatch(word):
            document = FOREIGN
        elif found.start() - end >= SAME_LIST:
            document = part
        end = found.end()
        if document == FOREIGN:
            continue
        for number in filter(None, found.groups()):
            yield Citation(f"{place}:{line}", document, number)


def cited() -> list[Citation]:
    found: list[Citation] = []
    for path in texts():
        if path == Path(__file__):
            continue
        place = path.relative_to(ROOT).as_posix()
        found += citations(path.read_text(encoding="utf-8"), place, part_of(path))
    return found


def test_every_cited_section_is_a_heading_of_the_specification() -> None:
    found = cited()

    assert len(found) > 500
    assert [
        str(citation)
        for citation in found
        if citation.document not in DOCUMENTS
        or citation.section not in sections(citation.document)
    ] == []


def numbered_rules(document: str) -> set[str]:
    """Return the rules that a page numbers by themselves: B-01 of the bus, K5 and Q3 of the council, R8 of flows."""
    text = page(document)
    if document == "bus":
        return set(re.findall(r"\*\*(B-\d\d)", text))
    if document == "flows":
        return set(re.findall(r"\*\*(R\d)\*\*", text))
    rules = set(re.findall(r"^\* (Q\d) ", text, re.MULTILINE))
    for first, last in re.findall(r"^\| (\d+)(?:-(\d+))? \| ", text, re.MULTILINE):
        rules |= {f"K{number}" for number in range(int(first), int(last or first) + 1)}
    return rules


@pytest.mark.parametrize(
    ("document", "shape", "folders"),
    [
        ("bus", r"\bB-\d\d\b", ["src/bridgehead/bus", "bench"]),
        ("council", r"\b[KQ]\d{1,2}\b", ["src/bridgehead/council", "bench"]),
        ("council", r"\bK\d{1,2}\b", ["src/bridgehead/contract"]),
        ("flows", r"\bR\d\b", ["src/bridgehead/flows"]),
    ],
)
def test_every_cited_rule_is_in_the_specification(
    document: str, shape: str, folders: list[str]
) -> None:
    names: set[str] = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            names |= set(re.findall(shape, path.read_text(encoding="utf-8")))

    assert names and names <= numbered_rules(document)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(council §8)", ["council §8"]),
        ("Runtimes §2.10, §3", ["runtimes §2.10", "runtimes §3"]),
        ("rigs §8 trust, §10", ["rigs §8", "rigs §10"]),
        ("flows §1–§4", ["flows §1", "flows §4"]),
        ("bus §3.1–3.3", ["bus §3.1", "bus §3.3"]),
        ("council\n    §14.3", ["council §14.3"]),
        ("SESSION-1 §3.1–§3.3", []),
        ("the rest of §5", ["part §5"]),
    ],
)
def test_a_citation_is_read_as_it_is_written(text: str, expected: list[str]) -> None:
    found = [f"{one.document} §{one.section}" for one in citations(text, "x", "part")]

    assert found == expected
