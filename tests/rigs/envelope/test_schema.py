"""Which frontmatter is valid, and where each fault lies."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.schema import REQUIRED, schema_faults
from bridgehead.rigs.envelope.yaml_core import Value

VALID: dict[str, Value] = {
    "from": "mac-m5max",
    "to": "windows-5080",
    "date": "2026-05-15",
    "status": "▶ go",
    "type": "ACK",
    "thread": "demo-01",
}


def paths(**changes: Value) -> set[str]:
    return {fault.path for fault in schema_faults({**VALID, **changes})}


def test_the_required_fields_are_enough() -> None:
    assert schema_faults(VALID) == ()


@pytest.mark.parametrize("name", REQUIRED)
def test_each_of_them_is_needed(name: str) -> None:
    faults = schema_faults({key: value for key, value in VALID.items() if key != name})
    assert [fault.path for fault in faults] == ["/"]
    assert name in faults[0].message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("priority", "high", {"/"}),
        ("from", "Mac", {"/from"}),
        ("from", None, {"/from"}),
        ("to", [], {"/to"}),
        ("to", 5080, {"/to"}),
        ("to", {"a": "b"}, {"/to"}),
        ("to", ["ok", "Mike", 7], {"/to/1", "/to/2"}),
        ("to", ["same", "same"], set()),
        ("type", "ack", {"/type"}),
        ("type", ["ACK"], {"/type"}),
        ("display_name", "🎯" * 80, set()),
        ("display_name", "🎯" * 81, {"/display_name"}),
        ("display_name", "", {"/display_name"}),
        ("tldr", "", {"/tldr"}),
        ("tldr", "x" * 1000, set()),
        ("references", [], set()),
        ("references", "a1b2c3d", {"/references"}),
        ("references", ["a1b2c3d", "a1b2c3d"], {"/references"}),
        ("references", ["zzz", "zzz"], {"/references/0", "/references/1"}),
        ("references", [1234567], {"/references/0"}),
        ("in_reply_to", "0" * 64, set()),
        ("in_reply_to", "abc", {"/in_reply_to"}),
        ("attested_by", "k" * 256, set()),
        ("attested_by", "k" * 257, {"/attested_by"}),
        ("attested_at", "2026-05-15", {"/attested_at"}),
        ("nonce", "n" * 64, set()),
        ("nonce", "n" * 65, {"/nonce"}),
    ],
)
def test_a_fault_is_found_at_the_value_that_has_it(
    name: str, value: Value, expected: set[str]
) -> None:
    assert paths(**{name: value}) == expected


def test_all_faults_are_reported_at_once() -> None:
    assert paths(date="today", status="go", thread="a") == {
        "/date",
        "/status",
        "/thread",
    }
