"""The body hash: how a body is normalised before it is hashed."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.body_hash import (
    BOM,
    body_hash,
    clean_body,
    normalise_body,
)

BODIES = st.text(
    alphabet=st.one_of(st.sampled_from("a \t\r\n\ufeff\x0b\x85\u2028"), st.characters())
)
ONE_LINE_FEED = "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b"


@pytest.mark.parametrize(
    "body", ["", "\n", "\r\n\r\n", "  ", "\t\n \n", BOM, f"{BOM}\n\n"]
)
def test_bodies_without_content_hash_to_a_single_line_feed(body: str) -> None:
    assert body_hash(body) == ONE_LINE_FEED


def by_the_formula(text: str) -> str:
    """rigs §4, written as it stands there."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ended = "\n".join(line.rstrip(" \t") for line in lines).rstrip("\n") + "\n"
    return ended[1:] if ended.startswith(BOM) else ended


@settings(deadline=None)
@given(BODIES)
@example(f"{BOM}{BOM}hi")
def test_property_normalising_follows_the_formula(body: str) -> None:
    assert normalise_body(body) == by_the_formula(body)


@settings(deadline=None)
@given(BODIES.filter(lambda body: not body.startswith(BOM * 2)))
def test_property_normalising_twice_changes_nothing_unless_two_marks_lead(
    body: str,
) -> None:
    assert normalise_body(normalise_body(body)) == normalise_body(body)


@settings(deadline=None)
@given(BODIES)
def test_property_line_ends_and_trailing_blanks_do_not_reach_the_hash(
    body: str,
) -> None:
    drifted = normalise_body(body).replace("\n", " \t\r\n") + "\r\r"
    assert body_hash(drifted) == body_hash(normalise_body(body))


@settings(deadline=None)
@given(BODIES, st.integers(0, 4))
def test_property_a_clean_body_hashes_the_same_before_and_after_being_read_back(
    body: str, marks: int
) -> None:
    clean = clean_body(BOM * marks + body)
    assert (
        body_hash(clean)
        == body_hash(normalise_body(clean))
        == hashlib.sha256(clean.encode()).hexdigest()
    )


def test_a_lone_surrogate_is_hashed_as_the_replacement_character() -> None:
    assert body_hash("\ud800") == body_hash("\ufffd")
    assert clean_body("\ud800") == "\ufffd\n"
