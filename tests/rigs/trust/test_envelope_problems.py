"""Everything that is wrong with one envelope, in order."""

from __future__ import annotations

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.envelope_problems import (
    BadRigId,
    check_envelope,
    file_findings,
)
from bridgehead.rigs.trust.verification_kinds import Kind

HASH_OF_X = "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
VALID: dict[str, Value] = {
    "from": "mac-m5max",
    "to": "windows-5080",
    "date": "2026-05-15",
    "status": "▶ go",
    "type": "ACK",
    "thread": "demo-01",
    "body_hash": HASH_OF_X,
}


def envelope(**changes: Value) -> Envelope:
    return Envelope({**VALID, **changes}, "x\n")


def test_a_valid_envelope_gives_no_reason_for_words() -> None:
    verdict = check_envelope(envelope())
    assert verdict.valid
    assert not verdict.body_hash_absent and not verdict.long_tldr


def test_everything_wrong_is_collected_in_order() -> None:
    changes: dict[str, Value] = {
        "from": "Mac",
        "to": ["ok", "Mike X", 5],
        "body_hash": "0" * 64,
    }
    verdict = check_envelope(envelope(**changes))
    assert verdict.error_kinds == (
        Kind.SCHEMA_INVALID,
        Kind.BODY_HASH_MISMATCH,
        Kind.RIG_ID_INVALID,
        Kind.RIG_ID_INVALID,
    )
    assert verdict.hash_mismatch == ("0" * 64, HASH_OF_X)
    assert verdict.bad_rig_ids == (
        BadRigId("from", "Mac", "mac"),
        BadRigId("to", "Mike X", None),
    )
    assert len(verdict.schema_faults) == 3


def test_an_absent_hash_and_a_long_summary_are_warnings() -> None:
    long = check_envelope(envelope(tldr="🎯" * 281, body_hash=""))
    assert long.body_hash_absent and long.long_tldr
    assert check_envelope(envelope(tldr="🎯" * 280)).valid


def test_a_file_that_does_not_parse_is_judged_by_that_alone() -> None:
    verdict = check_envelope(ParseFailure("frontmatter is empty"))
    assert verdict.error_kinds == (Kind.PARSE_FAILED,)


def findings(parsed: Envelope | ParseFailure) -> tuple[Kind, ...]:
    return file_findings(parsed, check_envelope(parsed), "demo-01")


def test_a_file_is_held_against_the_directory_it_lies_in() -> None:
    assert findings(envelope()) == ()
    assert findings(envelope(thread="other-01")) == (Kind.THREAD_MISMATCH,)
    assert findings(envelope(thread=7)) == (Kind.SCHEMA_INVALID,)
    assert findings(ParseFailure("no")) == (Kind.PARSE_FAILED,)


def test_findings_name_each_kind_once() -> None:
    bad = envelope(**{"from": "A", "to": "B"})
    assert findings(bad) == (Kind.SCHEMA_INVALID, Kind.RIG_ID_INVALID)
    assert findings(parse_envelope(b"---\nthread: demo-01\n---\n")) == (
        Kind.SCHEMA_INVALID,
        Kind.BODY_HASH_ABSENT,
    )
