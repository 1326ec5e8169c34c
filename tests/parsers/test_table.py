"""Every parser of foreign text has a row, takes work in proportion to its input, and refuses in its own words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bridgehead
from bridgehead.flows.engine import answers
from parsers.table import EXEMPT, PARSERS, READING, call, wrapped
from parsers.work import Tracer, counting_patterns, steps

SOURCE = Path(bridgehead.__path__[0])
CORPUS = Path(__file__).parents[1] / "corpus"
TEXT = {"str", "bytes", "str | bytes", "bytes | str", "str | None", "bytes | None"}
ELSEWHERE = ("testing/", "demo/")
SIZE = 150
MOST_GROWTH = 2.4
CONSTANT = 400
"""Lines that a parser may spend on any input, however short."""
PIECES = (
    "[]", "[", "{", '"', '\\"', '{"a":', "[1,", " ", "\n", "```\n", "` ", "a.b.", "a: b\n", "- ", "- a\n", "&a [*a,",
    "#", "//", "\x1b[", "://", "%41", "a=1&", "'", "a.py:1 `x` ", "<<<", "\u200b", "9", "é",
)  # fmt: skip


def found_in_the_source() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(ELSEWHERE):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        owners = [
            ("", tree),
            *(
                (f"{node.name}.", node)
                for node in tree.body
                if isinstance(node, ast.ClassDef)
            ),
        ]
        for owner, body in owners:
            for node in body.body:
                if (
                    isinstance(node, ast.FunctionDef)
                    and READING.match(node.name)
                    and _takes_text(node)
                ):
                    yield f"{name}:{owner}{node.name}"


def _takes_text(function: ast.FunctionDef) -> bool:
    arguments = [one for one in function.args.args if one.arg not in ("self", "cls")]
    annotation = arguments[0].annotation if arguments else None
    return annotation is not None and ast.unparse(annotation) in TEXT


def test_every_parser_has_a_row_or_a_reason() -> None:
    found = set(found_in_the_source())
    another_way_to_call_it = {"council/replies/reply.py:read_lists"}

    assert found - {*PARSERS, *EXEMPT} == set(), (
        "new parsers: give them a row in parsers/table.py"
    )
    assert {*PARSERS, *EXEMPT} - found == another_way_to_call_it, "these are gone"
    assert len(PARSERS) >= 27


@pytest.mark.parametrize("name", PARSERS)
def test_twice_the_input_is_twice_the_work(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = PARSERS[name]
    monkeypatch.setattr(
        answers, "LEAST_BUDGET", 0
    )  # what a short answer may cost, however it is nested
    worst = (0.0, "")
    with counting_patterns() as work:
        for context in parser.contexts:
            for piece in PIECES:
                call(
                    parser, wrapped(context, piece)
                )  # what is made once is not counted
                once = steps(parser, wrapped(context, piece * SIZE), work)
                twice = steps(parser, wrapped(context, piece * 2 * SIZE), work)
                worst = max(
                    worst,
                    (
                        (twice + CONSTANT) / (once + CONSTANT),
                        f"{piece!r} in {context!r}: {once}, {twice}",
                    ),
                )
    assert worst[0] < MOST_GROWTH, worst


def corpus() -> list[tuple[str, Path]]:
    folders = {folder_of(name): name for name in PARSERS}
    return [
        (folders[path.parent.name], path)
        for path in sorted(CORPUS.glob("*/*"))
        if path.parent.name in folders
    ]


def folder_of(name: str) -> str:
    return name.replace("/", ".").replace(".py:", ".")


def budget(content: bytes) -> int:
    return 20_000 + 400 * len(content)


@pytest.mark.parametrize(
    ("name", "path"),
    corpus(),
    ids=lambda one: one.name if isinstance(one, Path) else "",
)
def test_the_corpus_is_read_within_its_budget(name: str, path: Path) -> None:
    content = path.read_bytes()
    tracer = Tracer()
    with tracer.tracing():
        call(PARSERS[name], content.decode("utf-8", "replace"))
    assert tracer.lines <= budget(content)


def test_every_folder_of_the_corpus_is_of_a_parser() -> None:
    known = {folder_of(name) for name in PARSERS}
    assert {path.name for path in CORPUS.iterdir()} <= known
    assert len(corpus()) >= len(PARSERS)
