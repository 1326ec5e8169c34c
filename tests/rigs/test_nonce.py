from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.trust.attestation import RANDOM_BITS, make_nonce, nonce_time_ms

TIMES = st.integers(0, 2**50 - 1)
RANDOM = st.integers(0, 2**RANDOM_BITS - 1)


@settings(deadline=None)
@given(TIMES, RANDOM)
def test_property_a_nonce_has_its_shape_and_gives_its_time_back(unix_ms: int, random_bits: int) -> None:
    nonce = make_nonce(unix_ms, random_bits)
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{10}-[0-9A-HJKMNP-TV-Z]{10}", nonce)
    assert nonce_time_ms(nonce) == unix_ms


@settings(deadline=None)
@given(TIMES, TIMES, RANDOM)
def test_property_nonces_sort_by_time(earlier: int, later: int, random_bits: int) -> None:
    earlier, later = sorted((earlier, later))
    assert make_nonce(earlier, random_bits) <= make_nonce(later, random_bits)


def test_a_known_moment() -> None:
    assert make_nonce(1_778_840_000_000, 0) == "01KRNJ0NG0-0000000000"


@pytest.mark.parametrize(
    "nonce", ["", "n" * 21, "01KRN8JHG0", "01KRN8JHG0-000000000I", "01KRN8JHG0-0000000000\n"]
)
def test_another_shape_has_no_time(nonce: str) -> None:
    assert nonce_time_ms(nonce) is None
