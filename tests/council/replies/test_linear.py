"""Reading foreign text takes work in proportion to its length, whatever the text is."""

from __future__ import annotations

import pytest

from bridgehead.assembly.council import files as council_files
from bridgehead.config.files import parse_toml
from bridgehead.council.findings import evidence, references
from bridgehead.council.findings.evidence import read_citations
from bridgehead.council.replies import json_repair, reply
from bridgehead.council.replies.reply import (
    NotAnswered,
    read_items,
    read_lists,
    read_reply,
)
from bridgehead.errors import ConfigError
from bridgehead.flows.engine import answers
from bridgehead.flows.template_create.project.syntax import parses
from support.counted_work import Work, growth

SIZE = 1_000
MOST_GROWTH = 2.4
# Each is one character or a few, repeated; with `word`, prose stands at the end.
PIECES = (
    "[]", "{}", "[", "]", "{", "}", "[[", "[]]", "{]", '"', '\\"', '["', '{"', '{"a":', '{"a":[', "[1,", "[1,[", ",",
    ", ", " ", "\n", "[]\n", "```\n", "```json\n[]\n```\n", "```\n[", "`", "` ", "` `` ",
    "//", "/*", "#", "\x1b[", "\x1b]",
    "\x1b[0", "True", "[True]", "“", "“a", "“a”", "./", "a.py:1 ", "a.py", "a.", "a/", "://", "a://", "a.py `x = 1` ",
    "`x = 1` ", ":1", "...", "\\", "\u2028", "_", "{\"title\": \"a\", \"description\": \"b\"}\n",
)  # fmt: skip
ends = pytest.mark.parametrize("end", ["", " word"])


def work_of_reply(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    work = Work()
    with monkeypatch.context() as patched:
        work.watch(patched, reply, json_repair)
        patched.setattr(reply, "open_envelope", _opened(work, reply.open_envelope))
        read_reply(text, read_items)
        read_reply(text, read_lists("challenges"))
    return work.steps


def _opened(work: Work, open_envelope: object) -> object:
    """What is read on is a text whose slices count."""

    def opened(printed: str) -> reply.Opened:
        found = open_envelope(printed)  # type: ignore[operator]
        return reply.Opened(work.text(found.text), found.error)

    return opened


@ends
@pytest.mark.parametrize("piece", PIECES)
def test_a_reply_twice_as_long_is_twice_the_work(
    monkeypatch: pytest.MonkeyPatch, piece: str, end: str
) -> None:
    assert (
        growth(lambda size: work_of_reply(monkeypatch, piece * size + end), SIZE)
        < MOST_GROWTH
    )


@ends
@pytest.mark.parametrize("piece", PIECES)
def test_evidence_twice_as_long_is_twice_the_work(
    monkeypatch: pytest.MonkeyPatch, piece: str, end: str
) -> None:
    def count(size: int) -> int:
        work = Work()
        with monkeypatch.context() as patched:
            work.watch(patched, evidence, references)
            read_citations(work.text(piece * size + end))
        return work.steps

    assert growth(count, SIZE) < MOST_GROWTH


@ends
@pytest.mark.parametrize("piece", PIECES)
def test_an_answer_to_a_flow_costs_so_much_a_character_and_no_more(
    monkeypatch: pytest.MonkeyPatch, piece: str, end: str
) -> None:
    text = piece * SIZE + end
    work = Work()
    monkeypatch.setattr(answers, "LEAST_BUDGET", 0)
    work.watch(monkeypatch, answers)
    for _ in answers.json_candidates(text):
        pass

    # Besides vain tries: the whole, the blocks, what is found; the last try may begin with little left.
    assert (
        work.steps
        <= (answers.STEPS_PER_CHARACTER + 8) * len(text) + 2 * answers.RECURSION_COST
    )


def test_many_references_with_many_quotes_are_each_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted by the questions whether a quote holds a reference."""
    asked = 0
    holds = evidence.Quote.holds

    def counted(quote: evidence.Quote, place: int) -> bool:
        nonlocal asked
        asked += 1
        return holds(quote, place)

    monkeypatch.setattr(evidence.Quote, "holds", counted)
    cited = read_citations(
        "".join(f"src/a{number}.py:1 `x = {number} + y` " for number in range(500))
    )

    assert [citation.quotes for citation in cited.citations[:2]] == [
        ("x = 0 + y",),
        ("x = 1 + y",),
    ]
    assert len(cited.citations) == 500 and asked <= 1000


def test_the_reply_that_hung_a_council_is_read_at_once() -> None:
    assert isinstance(read_reply("[]" * 100_000 + " word", read_items), NotAnswered)


@pytest.mark.parametrize("text", ["{} = 1", "[{}]", "x = {{ {} = 1 }}", "[[{}]]"])
@pytest.mark.parametrize("part", ["a", '"a"', "'a'", " a "])
def test_a_name_of_many_parts_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, text: str, part: str
) -> None:
    work = Work()
    work.watch_toml(monkeypatch)
    hostile = text.format(".".join([part] * 20_000)).encode()

    for read in (parse_toml, council_files.parse_dismissals):
        with pytest.raises(ConfigError, match="a name of more than 100 parts"):
            read(hostile, "the file")
    assert parses(hostile.decode(), "pyproject.toml") is False
    assert work.steps < 100_000


def test_names_of_some_parts_and_sentences_with_many_dots_are_read() -> None:
    name = ".".join(f"p{number}" for number in range(90))
    parsed = parse_toml(
        f'{name} = 1\nsaid = "{"one two. " * 400}"\n# {"." * 500}\n'.encode(),
        "the file",
    )
    assert "p0" in parsed and parsed["said"].startswith("one two.")


def test_findings_that_cite_thousands_of_places_are_compared_at_a_bounded_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    usual = references.is_same_file

    def counted(one: str, other: str) -> bool:
        nonlocal compared
        compared += 1
        return usual(one, other)

    monkeypatch.setattr(references, "is_same_file", counted)
    cited = " ".join(f"a.py:{line}" for line in range(1, 20_001))
    ours, theirs = (
        references.find_references(cited),
        references.find_references("x/" + cited),
    )

    assert references.relate(ours, theirs) is references.Relation.SAME_LINES
    assert compared <= references.MOST_REFERENCES**2
    assert references.find_references("a.py:1 " * 20_000) == (
        references.FileReference("a.py", 1, 1),
    )
