"""The words of everything a person reads: numbers agree with their nouns, and the English is plain.

Every string of the source is read but docstrings, prompts for models, and rules whose texts others wrote. Docstrings of
commands are read, because they are help texts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from bridgehead.contract.words import Verdict
from bridgehead.council.runtimes import BUILT_IN

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bridgehead"
NOT_FOR_PEOPLE = (
    "council/prompts/",
    "council/runtimes/static/rules/",
    "flows/template_create/phases/",
    "flows/template_create/prompts.py",
    "testing/",
    "demo/",
)

COUNTED = [
    "agent",
    "answer",
    "call",
    "challenge",
    "commit",
    "council",
    "document",
    "domain",
    "envelope",
    "event",
    "file",
    "finding",
    "flow",
    "item",
    "layer",
    "message",
    "participant",
    "pattern",
    "question",
    "request",
    "result",
    "round",
    "run",
    "rule",
    "seat",
    "step",
    "template",
    "thread",
    "time",
    "turn",
]
NEVER_ONE = {
    "cli/flows/reports.py": "N of M paused runs",
    "council/debate/packets.py": "a prompt of the specification",
    "flows/discovery.py": "one flow needs no name",
    "flows/engine/asks.py": "nobody reads it: it unwinds a flow",
    "mcp_server/tools/council_text.py": "one request is written out",
}
"""Where a number stands before a plural all the same, and why."""

DIALECT = {
    r"(?<![Tt]here )\bis no (?!longer)": "is not a …",
    r"\b(?:nobody|somebody|anybody|everybody)\b": "say who: no participant, another process, other users",
    r"\bany more\b": "no longer",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\b(?:go|goes|went) on (?:with|without)\b": "resume, continue",
    r"\blives? with\b": "accept",
    r"\bgive (?:it|them) up\b": "cancel",
    r"\bwhat waits\b": "pending items",
    r"\bcannot name an?\b": "is not a valid … name",
    r"\bnames no\b": "has no, is not a",
    r"\bexists already\b|\bended already\b|\brevoked already\b": "already exists",
    r"\bleave \S+ out\b|\bleave out\b": "omit",
    r"\bat work\b|\bof ours\b": "running, of bridgehead",
    r"\bthe most an? \b|\bso many\b": "the limit, maximum",
    r"[Ss]tand still|[Ll]ook again|[Nn]othing named": "plain technical English",
}


@cache
def sources() -> dict[str, ast.Module]:
    """The source by file; what only models and other programs read is left out."""
    names = {
        path.relative_to(SOURCE).as_posix(): path
        for path in sorted(SOURCE.rglob("*.py"))
    }
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if not name.startswith(NOT_FOR_PEOPLE)
    }


def read_by_people() -> Iterator[tuple[str, ast.AST, str]]:
    """File, node and text of every string that may be shown."""
    for name, tree in sources().items():
        notes = {id(note) for node in ast.walk(tree) for note in _notes(node)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in notes
            ):
                yield name, node, node.value


def _notes(node: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings, except those of commands, and strings that explain what stands above them."""
    body = getattr(node, "body", None)
    for place, statement in enumerate(body if isinstance(body, list) else ()):
        if isinstance(statement, ast.Expr) and isinstance(
            statement.value, ast.Constant
        ):
            decorators = getattr(node, "decorator_list", [])
            if place == 0 and any(
                "command" in ast.unparse(one) or "group" in ast.unparse(one)
                for one in decorators
            ):
                continue
            yield statement.value


def test_no_message_uses_the_dialect() -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', 0)}: {text[:80]!r} ({instead})"
        for name, node, text in read_by_people()
        for words, instead in DIALECT.items()
        if " " in text and re.search(words, text)
    ]

    assert found == []


PAGES = sorted((SOURCE / "dashboard" / "templates").glob("*.html"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_uses_the_dialect(page: Path) -> None:
    shown = re.sub(
        r"{#.*?#}|{%.*?%}", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )

    assert [
        (words, instead)
        for words, instead in DIALECT.items()
        if re.search(words, shown)
    ] == []


DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IN_DOCS = {
    **DIALECT,
    r"\b[Ww]hoever\b": "a client, anyone who, the first rig that",
    r"\b(?:go|goes|went) on\b": "continue, resume",
    r"\ball the same\b|\banew\b": "anyway, again",
    r"\bturned away\b|\blets? (?:it|them|others|somebody) in\b": "refused, admit, accept",
}


@pytest.mark.parametrize(
    "page", DOCS, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_no_document_uses_the_dialect(page: Path) -> None:
    prose = re.sub(
        r"```.*?```|`[^`]*`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )

    assert [
        (found[0], instead)
        for words, instead in IN_DOCS.items()
        for found in re.finditer(words, prose)
    ] == []


def test_no_note_of_a_rule_uses_the_dialect() -> None:
    notes = {
        rule.stem: str(yaml.safe_load(rule.read_text(encoding="utf-8"))["note"])
        for rule in (SOURCE / "council" / "runtimes" / "static" / "rules").glob(
            "*/*-*.yml"
        )
        if rule.parent.name != "utils"
    }

    assert len(notes) > 100 and all(note.endswith(".") for note in notes.values())
    assert [
        (name, found[0])
        for name, note in notes.items()
        for found in re.finditer("|".join(IN_DOCS), note)
    ] == []


def test_the_page_of_terms_names_what_the_code_has_and_the_documents_use_its_terms() -> (
    None
):
    page = (ROOT / "docs" / "reference" / "terms.md").read_text(encoding="utf-8")
    terms = dict(re.findall(r"^\| ([a-z, ]+?) \| (.+) \|$", page, re.MULTILINE))
    others = " ".join(
        one.read_text(encoding="utf-8") for one in DOCS if one.name != "terms.md"
    ).lower()

    assert set(re.findall(r"`(\w+)`", terms["runtime"])) == set(BUILT_IN)
    assert all(verdict in terms["verdict"] for verdict in Verdict)
    assert [
        term for term in terms if any(word not in others for word in term.split(", "))
    ] == []


def test_what_is_counted_may_be_one() -> None:
    """`f"{n} files"` says "1 files" one day; `plural(n, "file")` does not."""
    plain = re.compile(rf"^ (?:[a-z]+ )?(?:{'|'.join(COUNTED)})s\b")
    found = [
        f"{name}:{node.lineno}: {text}"
        for name, tree in sources().items()
        if name not in NEVER_ONE
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for text in _counts(node, plain)
    ]

    assert found == []


def _counts(node: ast.JoinedStr, plain: re.Pattern[str]) -> Iterator[str]:
    before = ""
    for value, following in zip(node.values, node.values[1:], strict=False):
        if isinstance(value, ast.Constant):
            before = str(value.value)
            continue
        text = following.value if isinstance(following, ast.Constant) else ""
        number = (
            ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ""
        )
        # A limit is a constant and never one; `2 of 3 files` is right for any number.
        limit = re.fullmatch(r"[A-Z_0-9 />.]+", number) or before.endswith(
            (" of ", "at most ", " to ", "than ")
        )
        if (
            isinstance(text, str)
            and plain.match(text)
            and not limit
            and _is_number(number)
        ):
            yield f"{{{number}}}{text[:30]}"


def _is_number(code: str) -> bool:
    return code.startswith(("len(", "sum(")) or bool(
        re.search(r"count|number|more|total|files|runs|calls|left", code)
    )


def test_the_exceptions_are_still_needed() -> None:
    assert [name for name in NEVER_ONE if not (SOURCE / name).exists()] == []
