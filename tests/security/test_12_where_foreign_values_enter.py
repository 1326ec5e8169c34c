"""Every place where something from elsewhere enters has a row in docs/security.md (issue 34, number 12)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from security.support.places import SOURCES, calls_in, kind_of, places

SECURITY = Path(__file__).resolve().parents[2] / "docs" / "security.md"
HEADING = "\n## Where foreign values enter\n"
KINDS = ["Code", "Names", "Paths", "Programs", "Texts", "Times", "Values"]
_MODULE = re.compile(r"`([\w/]+\.py)`")


def tables() -> dict[str, list[list[str]]]:
    """The rows of each kind: module, who controls it, what holds."""
    section = SECURITY.read_text(encoding="utf-8").partition(HEADING)[2]
    section = section.partition("\n## ")[0]
    parts = re.split(r"^### (\w+)$", section, flags=re.MULTILINE)
    found = {}
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in text.splitlines() if line.startswith("| `")]
        found[kind] = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines
        ]
    return found


def listed(kind: str) -> set[str]:
    return {module for row in tables()[kind] for module in _MODULE.findall(row[0])}


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_has_a_row_and_every_row_a_module(kind: str) -> None:
    in_sources = places()[kind]

    assert in_sources - listed(kind) == set(), "no row says who controls this"
    assert listed(kind) - in_sources == set(), "nothing enters here any more"


def test_every_row_says_who_controls_it_and_what_holds() -> None:
    for kind, rows in tables().items():
        for row in rows:
            assert len(row) == 3, (kind, row)
            assert all(len(cell) > 5 for cell in row), (kind, row)


def test_every_kind_of_place_is_looked_for() -> None:
    assert sorted(tables()) == sorted(places()) == KINDS


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("subprocess.run(['ls'])", "Programs"),
        ("os.system('ls')", "Programs"),
        ("pickle.loads(blob)", "Values"),
        ("yaml.load(text)", "Values"),
        ("msgspec.json.decode(body)", "Values"),
        ("_decoder.decode(body)", "Values"),
        ("eval(text)", "Code"),
        ("importlib.import_module(name)", "Code"),
        ("read_bounded(path, 10)", "Paths"),
        ("RigId.parse(text)", "Names"),
        ("_TOOL_NAME.fullmatch(text)", "Names"),
        ("escape_controls(title)", "Texts"),
        ("datetime.fromisoformat(text)", "Times"),
        ("body.decode('utf-8')", None),
    ],
)
def test_a_new_place_is_found(code: str, kind: str | None) -> None:
    assert [kind_of(call) for call in calls_in(ast.parse(code))] == [kind]


def test_nothing_is_unpickled_and_nothing_goes_through_a_shell() -> None:
    example = SOURCES / "demo" / "orders"  # it is there to be found fault with
    for path in SOURCES.rglob("*.py"):
        if path.is_relative_to(example):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = set(calls_in(tree))
        assert not calls & {"pickle.loads", "pickle.load", "marshal.loads"}, path
        words = {
            keyword.arg: keyword.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            for keyword in node.keywords
        }
        assert "shell" not in words, path
