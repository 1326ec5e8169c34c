"""Which JSON an answer contains."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows.calls import Accepted, Failed
from bridgehead.flows.engine.answers import (
    LEAST_BUDGET,
    RECURSION_COST,
    STEPS_PER_CHARACTER,
    json_candidates,
    judge_for,
    judge_json,
)
from bridgehead.flows.values.codec import Unfit


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('  {"a": 1}\n', [{"a": 1}]),
        ("[1, [2]]", [[1, [2]]]),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', [{"a": 1}, {"a": 1}]),
        ('Here:\r\n```json\r\n{"a": 1}\r\n```\r\n', [{"a": 1}, {"a": 1}]),
        ('````\n```\n{"a": 1}\n```\n````', [{"a": 1}]),
        ('```json\n{"a": 1}', [{"a": 1}]),
        ('x {"a": {"b": [1]}} y [2] z', [{"a": {"b": [1]}}, [2]]),
        ("{'a': 1}", []),
        ('{"a": NaN}', []),
        ('x {"a": NaN} {"b": 1e999} {"c": 1}', [{"c": 1}]),
        ('{"a": 1, "a": 2}', [{"a": 2}]),
        ("no json at all", []),
        ("", []),
        ("{" * 100_000, []),
        ("[" * 100_000, []),
    ],
)
def test_the_whole_text_then_fenced_blocks_then_prose(
    text: str, values: list[Any]
) -> None:
    assert list(json_candidates(text)) == values


def test_a_text_made_of_brackets_gets_a_bounded_number_of_tries() -> None:
    text = "[ " * 50_000 + '{"a": 1}'
    tries = (LEAST_BUDGET + STEPS_PER_CHARACTER * len(text)) // RECURSION_COST
    assert tries < 2_000
    assert list(json_candidates(text)) == []
    assert list(json_candidates("{ " * 50_000 + '{"a": 1}')) == [{"a": 1}]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_end_ends_a_line_of_a_fenced_block(separator: str) -> None:
    text = f'not {{"a": 1}} but\r\n```json\r\n{{"a":\r"{separator}"}}\r\n```'
    (first, *_) = json_candidates(text)
    assert first == {"a": separator}


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_no_text_whatever_raises(text: str) -> None:
    assert isinstance(list(json_candidates(text)), list)


def test_the_first_candidate_that_fits_wins() -> None:
    def fit(candidate: Any) -> Accepted:
        if "b" not in candidate:
            raise Unfit("b is missing")
        return Accepted(candidate["b"])

    judge = judge_json(fit)
    assert judge('```\n{"a": 1}\n```\n```\n{"b": 2}\n```') == Accepted(2)
    assert judge('{"a": 1}') == Failed("VALIDATION_ERROR", "b is missing")
    assert judge("nothing") == Failed("PARSE_ERROR", "the answer contains no JSON")


def test_an_answer_is_held_to_its_schema_and_its_type() -> None:
    judge = judge_for(dict[str, int], {"required": ["a"]})
    assert judge('{"a": 1}') == Accepted({"a": 1})
    assert isinstance(judge('{"a": "x"}'), Failed)
    refused = judge('{"b": 1}')
    assert isinstance(refused, Failed) and "required" in refused.message
    assert judge_for(None, None)("any text") == Accepted("any text")


@pytest.mark.parametrize("text", ["yes", " yes\n", '"yes"', '```\n"yes"\n```'])
def test_a_word_to_choose_needs_no_quotes(text: str) -> None:
    assert judge_for(Literal["yes", "no"], None)(text) == Accepted("yes")
    assert judge_for(None, {"enum": ["yes", "no"]})(text) == Accepted("yes")


def test_another_word_than_those_to_choose_from_is_no_answer() -> None:
    verdict = judge_for(None, {"enum": ["yes", "no"]})("maybe")
    assert isinstance(verdict, Failed) and verdict.reason == "PARSE_ERROR"
