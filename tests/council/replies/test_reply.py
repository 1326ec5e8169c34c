"""Reading models' replies: what counts as an answer, what is repaired, and what is never made up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.council.replies.json_repair import read_json
from bridgehead.council.replies.reply import (
    Answered,
    Items,
    NotAnswered,
    read_items,
    read_lists,
    read_reply,
)

ONE = '{"type":"finding","severity":"HIGH","title":"One","description":"d"}'
TWO = '{"type":"finding","severity":"LOW","title":"Two","description":"d"}'
BOTH = f'{{"outputs":[{ONE},{TWO}]}}'
JUST_ONE = f'{{"outputs":[{ONE}]}}'
CLAUDE = json.dumps(
    {"type": "result", "subtype": "success", "is_error": False, "result": JUST_ONE}
)
GEMINI = json.dumps(
    {"session_id": "s", "response": f"```json\n{BOTH}\n```", "stats": {}}
)
CODEX = "\n".join(
    json.dumps(event)
    for event in (
        {"type": "thread.started", "thread_id": "t"},
        {"type": "error", "message": "Reconnecting... 1/1"},
        {
            "type": "item.completed",
            "item": {"type": "agent_message", "text": "thinking aloud"},
        },
        {"type": "item.completed", "item": {"type": "agent_message", "text": BOTH}},
        {"type": "turn.completed", "usage": {}},
    )
)
OPENCODE = "\n".join(
    json.dumps(event)
    for event in (
        {"type": "step_start", "part": {}},
        {"type": "text", "part": {"type": "text", "text": JUST_ONE[:20]}},
        {"type": "text", "part": {"type": "text", "text": JUST_ONE[20:]}},
        {"type": "step_finish", "part": {"reason": "stop"}},
    )
)
OPENCODE_HTTP = json.dumps(
    {"info": {"finish": "stop"}, "parts": [{"type": "text", "text": BOTH}]}
)

# Reply, then the titles that must come out; None: no answer.
CORPUS: dict[str, tuple[str, list[str] | None]] = {
    "plain": (BOTH, ["One", "Two"]),
    "pretty printed": (json.dumps(json.loads(BOTH), indent=4), ["One", "Two"]),
    "leading and trailing blank lines": (f"\n\n  {BOTH}  \n\n", ["One", "Two"]),
    "windows line ends": (json.dumps(json.loads(BOTH), indent=1).replace("\n", "\r\n"), ["One", "Two"]),
    "byte order mark": ("\ufeff" + BOTH, ["One", "Two"]),
    "fence with tag": (f"```json\n{BOTH}\n```", ["One", "Two"]),
    "fence with odd tag": (f"```JSON5 title=x\n{BOTH}\n```", ["One", "Two"]),
    "fence without end": (f"```json\n{BOTH}", ["One", "Two"]),
    "fence closed by a longer one": (f"```json\n{BOTH}\n`````", ["One", "Two"]),
    "tilde fence is no fence but the span is found": (f"~~~\n{BOTH}\n~~~", ["One", "Two"]),
    "indented fence": (f"  ```json\n  {BOTH}\n  ```", ["One", "Two"]),
    "prose before": (f"Here is what I found:\n{BOTH}", ["One", "Two"]),
    "prose after": (f"{BOTH}\nLet me know if you need more.", ["One", "Two"]),
    "prose around a fence": (f"Sure!\n```json\n{BOTH}\n```\nDone.", ["One", "Two"]),
    "refusal in prose": ("I cannot help with that.", None),
    "nothing found in prose": ("No issues found. The code looks good.", None),
    "empty": ("", None),
    "blank": (" \n\t\n", None),
    "null": ("null", None),
    "a number": ("42", None),
    "a string": ('"outputs"', None),
    "true": ("true", None),
    "explicit empty list": ('{"outputs":[]}', []),
    "bare empty list": ("[]", []),
    "empty list at the end of prose": ("Nothing to report: []", []),
    "empty list inside prose is about code": ("The default `items = []` is shared between calls.", None),
    "outputs null": ('{"outputs":null}', None),
    "outputs missing": ('{"summary":"fine"}', None),
    "outputs a string": ('{"outputs":"none"}', None),
    "outputs of junk": ('{"outputs":[1,"two",null,[]]}', None),
    "findings instead of outputs": (BOTH.replace("outputs", "findings"), ["One", "Two"]),
    "bare list": (f"[{ONE},{TWO}]", ["One", "Two"]),
    "single item": (ONE, ["One"]),
    "title without description is no item": ('{"title":"One"}', None),
    "wrapped in data": (f'{{"data":{BOTH}}}', ["One", "Two"]),
    "wrapped list in output": (f'{{"output":[{ONE}]}}', ["One"]),
    "wrapped twice is too deep": (f'{{"data":{{"data":{BOTH}}}}}', None),
    "blank title dropped": (f'{{"outputs":[{{"title":"  ","description":"d"}},{TWO}]}}', ["Two"]),
    "title not a string dropped": (f'{{"outputs":[{{"title":7,"description":"d"}},{TWO}]}}', ["Two"]),
    "echoed template": (
        '{"outputs":[{"type":"finding | risk","title":"Short","description":"x"}]}',
        None,
    ),
    "echo then answer": (
        f'```\n{{"outputs":[{{"severity":"HIGH | LOW","title":"T","description":""}}]}}\n```\n```\n{JUST_ONE}\n```',
        ["One"],
    ),
    "trailing commas": (f'{{"outputs":[{ONE},],}}', ["One"]),
    "line comment": (f'{{ // mine\n"outputs":[{ONE}]}}', ["One"]),
    "block comment": (f'{{/* a\nb */"outputs":[{ONE}]}}', ["One"]),
    "hash comment": (f'{{ # mine\n"outputs":[{ONE}]}}', ["One"]),
    "comment marks inside a string": (
        '{"outputs":[{"title":"One","description":"see http://x/*y*/"},]}',
        ["One"],
    ),
    "python words": ('{"outputs":[{"title":"One","description":"d","met":True,"evidence":None}]}', ["One"]),
    "python words inside a string stay": (
        '{"outputs":[{"title":"None is True","description":"d",}]}',
        ["None is True"],
    ),
    "raw tab and newline in a string": ('{"outputs":[{"title":"One","description":"a\tb\nc"}]}', ["One"]),
    "single quotes are not JSON": ("{'outputs':[]}", None),
    "truncated in the second item": (BOTH[: BOTH.index("Two") + 2], ["One"]),
    "truncated in the first item": (BOTH[:30], None),
    "truncated after the list": (f'{{"outputs":[{ONE}]', ["One"]),
    "truncated in a list inside an item": (
        f'{{"outputs":[{ONE},{{"title":"Two","description":"d","files":["a","b',
        ["One"],
    ),
    "truncated with an escaped quote at the end": (f'{{"outputs":[{ONE},{{"title":"T\\"', ["One"]),
    "two objects, the last of equal size": (f"{JUST_ONE}\n{JUST_ONE.replace('One', 'New')}", ["New"]),
    "two fences, the larger": (f"```\n{BOTH}\n```\n```\n{JUST_ONE}\n```", ["One", "Two"]),
    "whole reply before its fences": (
        json.dumps({"outputs": [{"title": "One", "description": f"```\n{BOTH}\n```"}]}),
        ["One"],
    ),
    "stray bracket before the answer": (f"as in [1 and then {BOTH}", ["One", "Two"]),
    "mismatched brackets before the answer": (f"odd {{ ] here, then {BOTH}", ["One", "Two"]),
    "braces in prose": (f"The set {{a, b}} is fine. {BOTH}", ["One", "Two"]),
    "brackets and quotes inside strings": (
        '{"outputs":[{"title":"One","description":"a } ] \\" { [ b"}]}',
        ["One"],
    ),
    "colour codes": (f"\x1b[32m{BOTH}\x1b[0m", ["One", "Two"]),
    "terminal title sequence": (f"\x1b]0;agent\x07{BOTH}", ["One", "Two"]),
    "claude envelope": (CLAUDE, ["One"]),
    "claude says it failed": (json.dumps({"type": "result", "is_error": True, "result": "Not logged in"}), None),
    "claude envelope without its type": (json.dumps({"is_error": False, "result": JUST_ONE}), ["One"]),
    "an answer that has a response of its own": (f'{{"response":"as asked",{BOTH[1:]}', ["One", "Two"]),
    "a single event": (CODEX.splitlines()[3], ["One", "Two"]),
    "gemini envelope": (GEMINI, ["One", "Two"]),
    "gemini error": (json.dumps({"session_id": "s", "error": {"message": "quota", "code": 429}}), None),
    "codex events": (CODEX, ["One", "Two"]),
    "codex turn failed": ('{"type":"turn.failed","error":{"message":"401 Unauthorized"}}', None),
    "opencode events": (OPENCODE, ["One"]),
    "opencode error event": ('{"type":"error","error":{"name":"X","data":{"message":"no"}}}\n', None),
    "opencode over http": (OPENCODE_HTTP, ["One", "Two"]),
    "deeply nested": ("[" * 100_000, None),
    "a number nobody can hold": ('{"outputs":[' + "9" * 5000 + "]}", None),
    "unrelated object": ('{"status":"ok","count":3}', None),
}  # fmt: skip


def titles(reply: str) -> list[str] | None:
    answer = read_reply(reply, read_items)
    if isinstance(answer, NotAnswered):
        return None
    return [entry["title"] for _, entry in answer.value.entries]


@pytest.mark.parametrize(("reply", "expected"), CORPUS.values(), ids=CORPUS)
def test_the_corpus_is_read_as_a_careful_reader_would(
    reply: str, expected: list[str] | None
) -> None:
    assert titles(reply) == expected


def test_the_corpus_has_at_least_sixty_replies() -> None:
    assert len(CORPUS) >= 60


def test_a_cut_reply_is_partial_and_a_whole_one_is_not() -> None:
    cut = read_reply(BOTH[:-20], read_items)
    whole = read_reply(BOTH, read_items)
    assert isinstance(cut, Answered) and cut.partial
    assert isinstance(whole, Answered) and not whole.partial


def test_what_the_runtime_says_about_its_failure_is_the_reason() -> None:
    said = json.dumps({"type": "result", "is_error": True, "result": "Not logged in"})
    assert read_reply(said, read_items) == NotAnswered("cli_error: Not logged in")


def test_items_keep_their_place_in_the_list_so_that_signals_still_point_at_them() -> (
    None
):
    reply = f'{{"outputs":[{{"title":"","description":"d"}},{TWO}]}}'
    answer = read_reply(reply, read_items)
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, Items)
    assert [place for place, _ in answer.value.entries] == [1]


def test_a_reader_of_lists_fills_in_those_that_are_missing() -> None:
    answer = read_reply(
        '{"rulings":[{"challenge_id":"CH001"}, 7]}', read_lists("rulings", "challenges")
    )
    assert isinstance(answer, Answered)
    assert answer.value["rulings"] == [{"challenge_id": "CH001"}]
    assert answer.value["challenges"] == []


def test_an_echoed_template_of_a_debate_does_not_win_over_a_shorter_answer() -> None:
    echo = '{"rulings":[{"challenge_id":"CH000","ruling":"withdraw | maintain"},{"challenge_id":"x","ruling":"a|b"}]}'
    said = '{"rulings":[{"challenge_id":"CH001","ruling":"maintain"}]}'
    answer = read_reply(f"```\n{echo}\n```\n```\n{said}\n```", read_lists("rulings"))
    assert isinstance(answer, Answered)
    assert [ruling["challenge_id"] for ruling in answer.value["rulings"]] == ["CH001"]
    assert isinstance(read_reply(echo, read_lists("rulings")), NotAnswered)


def test_a_reply_of_ten_megabytes_is_read() -> None:
    long = json.dumps({"outputs": [{"title": "One", "description": "x" * 10_000_000}]})
    assert titles(f"prose first\n{long}") == ["One"]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
item_values = st.fixed_dictionaries(
    {"title": st.text(min_size=1, max_size=20), "description": st.text(max_size=20)},
    optional={
        "type": st.text(max_size=10),
        "severity": st.text(max_size=10),
        "extra": json_values,
    },
)


@given(st.text(max_size=400))
def test_property_no_text_makes_the_parser_raise(text: str) -> None:
    read_reply(text, read_items)


@given(st.text(alphabet='{}[]",:\\`\n abc/*1', max_size=200))
def test_property_no_heap_of_brackets_makes_the_parser_raise(text: str) -> None:
    read_reply(text, read_items)
    read_json(text)


@given(st.lists(item_values, max_size=5), st.text(max_size=60), st.text(max_size=60))
def test_property_titles_that_come_out_were_in_the_reply(
    entries: list[dict[str, Any]], before: str, after: str
) -> None:
    reply = f"{before}\n{json.dumps({'outputs': entries}, ensure_ascii=False)}\n{after}"
    found = titles(reply)
    given_titles = {entry["title"] for entry in entries}
    quoted = before + after
    assert all(title in given_titles or title in quoted for title in found or [])


@settings(max_examples=200)
@given(st.lists(item_values, min_size=1, max_size=4), st.data())
def test_property_a_reply_cut_anywhere_never_gains_or_changes_an_item(
    entries: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = json.dumps({"outputs": entries, "cross_domain_signals": []})
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    answer = read_reply(cut, read_items)
    if isinstance(answer, Answered):
        survivors = [entry for _, entry in answer.value.entries]
        valid = [entry for entry in json.loads(whole)["outputs"] if entry in survivors]
        assert all(entry in entries for entry in survivors)
        assert len(valid) >= len(survivors)


def test_an_item_that_was_cut_off_after_an_inner_list_is_not_kept() -> None:
    cut = '{"outputs": [{"title": "0", "description": "", "type": "", "extra": []'

    assert isinstance(read_reply(cut, read_items), NotAnswered)
