"""What speaks against the attestation of a relayed turn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.text import timestamp_ms
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.attestation import (
    RANDOM_BITS,
    Signature,
    Witness,
    is_relay_turn,
    make_nonce,
    names_key,
    nonce_time_ms,
    relay_findings,
)
from bridgehead.rigs.trust.membership import Standing
from bridgehead.rigs.trust.verification_kinds import Kind

KEY = "SHA256:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
ATTESTED_AT = "2026-05-15T10:30:00.000Z"
MOMENT = timestamp_ms(ATTESTED_AT) or 0
TURN: dict[str, Value] = {
    "from": "mike-relay",
    "in_reply_to": "0" * 64,
    "attested_by": KEY,
    "attested_at": ATTESTED_AT,
    "nonce": make_nonce(MOMENT, 7),
}
WITNESS = Witness(
    signature=Signature.KNOWN,
    key_names=(KEY,),
    standing=Standing(on_record=True, must_sign=True, owns=True, is_known=True),
    committed_at_ms=MOMENT + 2_000,
    parent_known=True,
    nonce_seen_before=False,
)
TIMES = st.integers(0, 2**50 - 1)
RANDOM = st.integers(0, 2**RANDOM_BITS - 1)


def findings(
    turn: dict[str, Value], witness: Witness = WITNESS, *, signers_known: bool = True
) -> list[Kind]:
    return list(
        relay_findings(turn, witness, signers_known=signers_known, must_sign="members")
    )


def test_nothing_speaks_against_a_turn_that_was_signed_by_its_attester() -> None:
    assert findings(TURN) == []


@pytest.mark.parametrize("name", ["in_reply_to", "attested_by", "attested_at", "nonce"])
def test_a_relay_turn_needs_all_its_fields(name: str) -> None:
    assert Kind.RELAY_FIELDS_MISSING in findings(
        {key: value for key, value in TURN.items() if key != name}
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"signature": Signature.NONE}, Kind.RELAY_UNSIGNED),
        ({"signature": Signature.BAD}, Kind.SIGNATURE_BAD),
        (
            {"signature": Signature.STRANGER, "standing": Standing()},
            Kind.SIGNER_UNKNOWN,
        ),
        (
            {"signature": Signature.STRANGER, "standing": Standing(on_record=True)},
            Kind.IDENTITY_MISMATCH,
        ),
        ({"key_names": ("SHA256:other",)}, Kind.ATTESTER_MISMATCH),
        (
            {"standing": Standing(owns=True, is_known=True, wrong_author=True)},
            Kind.ATTESTER_MISMATCH,
        ),
        ({"standing": Standing(is_known=True)}, Kind.IDENTITY_MISMATCH),
        ({"standing": Standing(retired=True)}, Kind.KEY_RETIRED),
        ({"parent_known": False}, Kind.PARENT_UNKNOWN),
        ({"nonce_seen_before": True}, Kind.NONCE_REPLAYED),
        ({"committed_at_ms": MOMENT + 600_001}, Kind.ATTESTED_TIME_SKEW),
        ({"committed_at_ms": MOMENT - 600_001}, Kind.ATTESTED_TIME_SKEW),
    ],
)
def test_each_fact_that_speaks_against_it_is_named_alone(
    change: dict[str, object], kind: Kind
) -> None:
    assert findings(TURN, WITNESS._replace(**change)) == [kind]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"from": "mike"}, [Kind.RELAY_FROM_NOT_RELAY]),
        ({"attested_by": "SHA256:somebody"}, [Kind.ATTESTER_MISMATCH]),
        ({"nonce": make_nonce(MOMENT + 5_000, 7)}, []),
        ({"nonce": make_nonce(MOMENT + 5_001, 7)}, [Kind.ATTESTED_TIME_SKEW]),
        ({"nonce": "of another shape"}, [Kind.ATTESTED_TIME_SKEW]),
        ({"attested_at": "2026-13-45T00:00:00Z"}, [Kind.ATTESTED_TIME_SKEW]),
    ],
)
def test_each_claim_is_held_against_the_others(
    change: dict[str, Value], kinds: list[Kind]
) -> None:
    assert findings({**TURN, **change}) == kinds


def test_without_an_allowed_signers_file_every_signer_is_unknown() -> None:
    assert findings(TURN, signers_known=False) == [Kind.SIGNER_UNKNOWN]
    assert findings(
        TURN, WITNESS._replace(signature=Signature.BAD), signers_known=False
    ) == [Kind.SIGNER_UNKNOWN]


def test_an_unattested_turn_of_a_relay_rig_is_flagged() -> None:
    plain: dict[str, Value] = {"from": "mike-relay"}
    assert is_relay_turn(plain)
    assert findings(plain, WITNESS._replace(signature=Signature.NONE)) == [
        Kind.RELAY_FIELDS_MISSING,
        Kind.RELAY_UNSIGNED,
    ]


@pytest.mark.parametrize(
    ("frontmatter", "expected"),
    [
        ({"from": "mac"}, False),
        ({"from": "mac", "in_reply_to": "0" * 64}, False),
        ({"from": "mac", "nonce": "x"}, True),
        ({"from": 7}, False),
        ({}, False),
    ],
)
def test_what_makes_a_relay_turn(frontmatter: dict[str, Value], expected: bool) -> None:
    assert is_relay_turn(frontmatter) is expected


@pytest.mark.parametrize(
    ("said", "names", "expected"),
    [
        (
            "/home/mike/.ssh/id_ed25519.pub",
            [KEY],
            True,
        ),  # what the reference writes: it names no key
        ("~/key with blanks", [KEY], True),
        (KEY, [KEY], True),
        ("SHA256:other", [KEY], False),
        ("0xDEADBEEF", ["AAAA1111DEADBEEF"], True),
        ("deadbeef!", ["AAAA1111DEADBEEF"], True),
        ("0123456789ABCDEF", ["AAAA1111DEADBEEF"], False),
        ("key::ssh-ed25519 AAAA", [KEY], False),
    ],
)
def test_an_attester_names_the_key_or_none(
    said: str, names: list[str], expected: bool
) -> None:
    assert names_key(said, names) is expected


def test_without_a_demand_an_unattested_turn_is_named_and_never_ok() -> None:
    unsigned = WITNESS._replace(signature=Signature.NONE, key_names=())
    found = list(
        relay_findings(
            {"from": "mike-relay"}, unsigned, signers_known=True, must_sign="none"
        )
    )
    assert found == [Kind.RELAY_UNATTESTED]


@settings(deadline=None)
@given(TIMES, RANDOM)
def test_property_a_nonce_has_its_shape_and_gives_its_time_back(
    unix_ms: int, random_bits: int
) -> None:
    nonce = make_nonce(unix_ms, random_bits)
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{10}-[0-9A-HJKMNP-TV-Z]{10}", nonce)
    assert nonce_time_ms(nonce) == unix_ms


@settings(deadline=None)
@given(TIMES, TIMES, RANDOM)
def test_property_nonces_sort_by_time(
    earlier: int, later: int, random_bits: int
) -> None:
    earlier, later = sorted((earlier, later))
    assert make_nonce(earlier, random_bits) <= make_nonce(later, random_bits)


def test_a_known_moment() -> None:
    assert make_nonce(1_778_840_000_000, 0) == "01KRNJ0NG0-0000000000"


@pytest.mark.parametrize(
    "nonce",
    ["", "n" * 21, "01KRN8JHG0", "01KRN8JHG0-000000000I", "01KRN8JHG0-0000000000\n"],
)
def test_another_shape_has_no_time(nonce: str) -> None:
    assert nonce_time_ms(nonce) is None
