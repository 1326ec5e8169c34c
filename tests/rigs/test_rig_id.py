from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.names import (
    RecipientMissing,
    RigId,
    RigIdInvalid,
    is_rig_id,
    parse_recipients,
    suggestion,
)


@pytest.mark.parametrize("text", ["x", "mac-m5max", "a--b", "mac-", "r2"])
def test_odd_but_legal_ids_are_rig_ids(text: str) -> None:
    assert is_rig_id(text)


@pytest.mark.parametrize("text", ["", "Mac", "5080", "-a", "mac_m5", "mac m5", "mac\n", "é", "a²"])
def test_other_spellings_are_not(text: str) -> None:
    assert not is_rig_id(text)


def test_what_is_typed_is_trimmed_and_lowercased() -> None:
    assert RigId.parse("\u00a0Mac-M5max ") == "mac-m5max"


def test_a_relay_rig_is_told_by_its_suffix() -> None:
    assert RigId.parse("mike-relay").is_relay
    assert not RigId.parse("relay-mike").is_relay


def test_a_bad_id_is_refused_with_the_place_it_came_from() -> None:
    with pytest.raises(RigIdInvalid, match=r'--to: rig id "bad_rig" is not a canonical kebab-case slug'):
        RigId.parse("Bad_Rig", where="--to")


def test_an_error_about_a_file_suggests_the_canonical_spelling() -> None:
    assert 'Did you mean "mac-m5max"?' in RigIdInvalid("Mac-M5max").message
    assert "Did you mean" not in RigIdInvalid("Mac Claude").message


@pytest.mark.parametrize(
    ("text", "expected"), [("Mac", "mac"), ("mac\n", "mac"), ("mac", None), ("5080", None), ("", None)]
)
def test_suggestions_are_made_only_for_untidy_spellings(text: str, expected: str | None) -> None:
    assert suggestion(text) == expected


def test_recipients_are_split_at_commas_and_kept_in_order_with_repetitions() -> None:
    assert parse_recipients(["B, a,,", "b"]) == ("b", "a", "b")


@pytest.mark.parametrize("typed", [[], [""], [" , "]])
def test_at_least_one_recipient_must_remain(typed: list[str]) -> None:
    with pytest.raises(RecipientMissing, match=r"`--to <rig-id>` is required \(one or more\)"):
        parse_recipients(typed)
