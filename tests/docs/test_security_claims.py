"""What the security pages say is held by tests that exist: the summary, the hazards, the doors with their claims."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
HAZARDS = DOCS / "hazards.md"
SECURITY = DOCS / "security.md"
ROOT = TESTS.parent
SUMMARY = ROOT / "SECURITY.md"
PAGES = (SECURITY, HAZARDS, SUMMARY)
DOORS = "## Entry points"
COUNT = 39

_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_FILE = re.compile(r"`tests/([\w/]+\.(?:py|json))`")


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without heads."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        is_head = number + 1 < len(lines) and re.fullmatch(
            r"\|(?:\s*:?-+:?\s*\|)+", lines[number + 1]
        )
        if (
            line.startswith("|")
            and not re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", line)
            and not is_head
        ):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def doors() -> dict[str, str]:
    """The sections of the threat model by their names."""
    text = (
        SECURITY.read_text(encoding="utf-8")
        .partition(f"\n{DOORS}\n")[2]
        .partition("\n## ")[0]
    )
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def functions_in(path: str) -> frozenset[str]:
    file = TESTS / path
    if not file.exists():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def missing(text: str) -> list[str]:
    """The tests named in a text that do not exist."""
    return [
        f"{path}::{name}"
        for path, name in _NAMED.findall(text)
        if name not in functions_in(path)
    ]


def missing_files(text: str) -> list[str]:
    """The test files named in a text, alone, that do not exist."""
    return [name for name in _FILE.findall(text) if not (TESTS / name).is_file()]


def unproven(cells: list[list[str]]) -> list[str]:
    """The rows whose last cell names no test."""
    return [row[0] for row in cells if not _NAMED.search(row[-1])]


def test_every_hazard_is_held_by_tests_that_exist() -> None:
    text = HAZARDS.read_text(encoding="utf-8")

    table = rows(text)

    assert [row[0] for row in table] == [str(number) for number in range(1, COUNT + 1)]
    assert unproven(table) == []
    assert missing(text) == []


def test_every_claim_about_a_door_names_a_test_that_exists() -> None:
    assert len(doors()) >= 11
    for name, text in doors().items():
        assert all(
            word in text
            for word in ("**Not trusted:**", "**Allowed:**", "**Not defended:**")
        ), name
        assert rows(text), f"{name} claims nothing"
        assert unproven(rows(text)) == [], name


def test_every_claim_of_the_summary_names_a_test_that_exists() -> None:
    text = SUMMARY.read_text(encoding="utf-8")

    _, _, claims = text.partition("\n## What we defend against\n")

    assert len(rows(claims)) >= 5
    assert unproven(rows(claims)) == []
    # A claim stands in the table, where it has to name its test.
    prose = [line for line in claims.splitlines() if line and line[0] != "|"]
    assert len(prose) == 2, "a sentence was added beside the table of claims"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_test_that_is_gone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert missing(text) == []
    assert missing_files(text) == []


def test_a_claim_without_a_test_and_a_test_that_is_gone_are_noticed() -> None:
    text = (
        "| claim | test |\n|---|---|\n"
        "| true | `docs/test_security_claims.py::test_every_hazard_is_held_by_tests_that_exist` |\n"
        "| hoped | none |\n"
        "| was true | `docs/test_security_claims.py::test_gone` |\n"
    )

    assert unproven(rows(text)) == ["hoped"]
    assert missing(text) == ["docs/test_security_claims.py::test_gone"]
    assert missing_files("`tests/docs/test_gone.py` `tests/conftest.py`") == [
        "docs/test_gone.py"
    ]
