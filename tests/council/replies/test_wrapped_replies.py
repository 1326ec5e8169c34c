"""The same answer in everything that models and terminals put around it: read as it is, or not at all (hazard 8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.council.replies.reply import Answered, read_items, read_reply
from bridgehead.flows.engine.answers import json_candidates

Wrap = Callable[[str], str]
HARMLESS: dict[str, Wrap] = {
    "fence": lambda text: f"```json\n{text}\n```",
    "bare fence": lambda text: f"```\n{text}\n```",
    "preamble": lambda text: f"Sure, here is what I found:\n\n{text}",
    "trailing prose": lambda text: f"{text}\n\nLet me know if you need more.",
    "blank lines": lambda text: f"\n\n{text}\n\n",
    "colour": lambda text: f"\x1b[1;32m{text}\x1b[0m",
    "title": lambda text: f"\x1b]0;agent\x07{text}",
    "byte order mark": lambda text: f"\ufeff{text}",
    "windows": lambda text: text.replace("\n", "\r\n"),
}
words = st.text(
    alphabet="abc äé'`<>&*# .,:;()\u2028\u202e", min_size=1, max_size=30
).filter(lambda text: bool(text.strip()) and "```" not in text)
items = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("finding"),
            "severity": st.sampled_from(["HIGH", "LOW"]),
            "title": words,
            "description": words,
        }
    ),
    min_size=1,
    max_size=4,
)
wrappers = st.lists(st.sampled_from(sorted(HARMLESS)), max_size=4)


def wrapped(text: str, names: list[str]) -> str:
    for name in names:
        text = HARMLESS[name](text)
    return text


def entries(reply: str) -> list[dict[str, Any]] | None:
    answer = read_reply(reply, read_items)
    return (
        [entry for _, entry in answer.value.entries]
        if isinstance(answer, Answered)
        else None
    )


@settings(max_examples=300)
@given(items, wrappers)
def test_a_council_reads_the_same_items_whatever_is_around_them(
    found: list[dict[str, Any]], names: list[str]
) -> None:
    reply = wrapped(json.dumps({"outputs": found}, ensure_ascii=False, indent=1), names)

    assert entries(reply) == found


@settings(max_examples=300)
@given(items, wrappers, st.data())
def test_a_wrapped_reply_cut_anywhere_never_gains_or_changes_an_item(
    found: list[dict[str, Any]], names: list[str], data: st.DataObject
) -> None:
    reply = wrapped(json.dumps({"outputs": found}, ensure_ascii=False, indent=1), names)

    cut = entries(reply[: data.draw(st.integers(0, len(reply)))])

    assert cut is None or cut == found[: len(cut)]


@settings(max_examples=300)
@given(items, wrappers)
def test_a_flow_reads_the_same_answer_whatever_is_around_it(
    found: list[dict[str, Any]], names: list[str]
) -> None:
    text = wrapped(json.dumps({"outputs": found}, ensure_ascii=False, indent=1), names)

    assert next(iter(json_candidates(text)), None) == {"outputs": found}
