"""A freeze: stored, read back, in force until it expires, open to relays."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.envelope.text import timestamp_ms
from bridgehead.rigs.threads.freeze import Freeze, ThreadFrozen, read_freeze

FREEZE = Freeze(
    "mike-relay", "2026-05-15T10:00:00.000Z", "2026-05-15T10:15:00.000Z", "0" * 64
)
END = timestamp_ms(FREEZE.expires) or 0


def test_what_is_stored_is_read_back() -> None:
    assert read_freeze(FREEZE.stored_text()) == FREEZE
    assert read_freeze(
        FREEZE._replace(in_reply_to=None).stored_text()
    ) == FREEZE._replace(in_reply_to=None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"rig": 5, "since": "a", "expires": "b"}',
        "[" * 100_000,
    ],
)
def test_a_blob_that_is_no_freeze_is_none(text: str) -> None:
    assert read_freeze(text) is None


def test_it_holds_until_it_expires() -> None:
    assert FREEZE.holds(END - 1)
    assert not FREEZE.holds(END)
    assert not FREEZE._replace(expires="never").holds(0)


def test_it_stops_ordinary_rigs_and_lets_relays_through() -> None:
    assert FREEZE.forbids(RigId("mac"), END - 1)
    assert not FREEZE.forbids(RigId("mac"), END)
    assert not FREEZE.forbids(RigId("anna-relay"), END - 1)


def test_the_error_names_who_and_until_when() -> None:
    error = ThreadFrozen("demo-01", FREEZE)
    assert "thread frozen by mike-relay until 2026-05-15T10:15:00.000Z" in error.message
    assert (error.hint or "").endswith("rig-bridge relay --abort --thread demo-01")
    assert "--despite-freeze" not in (error.hint or "")
