"""Which findings refuse a pull, and which only warn."""

from __future__ import annotations

import pytest

from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    PathFindings,
    Verification,
    VerificationState,
    refuses_pull,
    report_on,
    sum_up,
)

# rigs §9.4, and design §1 for what a council is asked: refuses a pull, state
POLICY = {
    Kind.PARSE_FAILED: (False, "broken"),
    Kind.SCHEMA_INVALID: (False, "broken"),
    Kind.RIG_ID_INVALID: (False, "broken"),
    Kind.BODY_HASH_MISMATCH: (True, "broken"),
    Kind.BODY_HASH_ABSENT: (False, "unverified"),
    Kind.THREAD_MISMATCH: (True, "broken"),
    Kind.SYMLINK: (True, "broken"),
    Kind.REWRITTEN: (True, "broken"),
    Kind.RELAY_FIELDS_MISSING: (False, "unverified"),
    Kind.RELAY_FROM_NOT_RELAY: (False, "unverified"),
    Kind.RELAY_UNSIGNED: (False, "unverified"),
    Kind.SIGNATURE_BAD: (True, "broken"),
    Kind.SIGNER_UNKNOWN: (False, "unverified"),
    Kind.ATTESTER_MISMATCH: (False, "unverified"),
    Kind.PARENT_UNKNOWN: (False, "unverified"),
    Kind.NONCE_REPLAYED: (True, "broken"),
    Kind.ATTESTED_TIME_SKEW: (False, "unverified"),
    Kind.COUNCIL_ABSENT: (True, "broken"),
    Kind.COUNCIL_UNREADABLE: (True, "broken"),
    Kind.COUNCIL_MISMATCH: (True, "broken"),
}


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_refuses_a_pull_or_warns(kind: Kind) -> None:
    refuses, state = POLICY[kind]
    assert refuses_pull([kind]) is refuses
    assert sum_up([kind], known_signer=True) == Verification(VerificationState(state), (kind,))


def test_only_a_known_signer_without_findings_is_verified() -> None:
    assert sum_up([], known_signer=True).state is VerificationState.VERIFIED
    assert sum_up([], known_signer=False).state is VerificationState.UNVERIFIED


def test_one_broken_finding_outweighs_the_others() -> None:
    kinds = (Kind.BODY_HASH_ABSENT, Kind.SYMLINK)
    assert sum_up(kinds, known_signer=True).json_object() == {
        "state": "broken",
        "kinds": ["body_hash_absent", "symlink"],
    }


def test_a_report_counts_and_lists_only_what_has_findings() -> None:
    report = report_on(
        [
            PathFindings("t-1/A.md", ()),
            PathFindings("t-1/B.md", (Kind.BODY_HASH_ABSENT,)),
            PathFindings("t-1/C.md", (Kind.BODY_HASH_ABSENT, Kind.THREAD_MISMATCH)),
        ]
    )
    assert report.checked == report.ok + report.warned + report.failed
    assert report.json_object() == {
        "checked": 3,
        "ok": 1,
        "warned": 1,
        "failed": 1,
        "items": [
            {"path": "t-1/B.md", "kinds": ["body_hash_absent"]},
            {"path": "t-1/C.md", "kinds": ["body_hash_absent", "thread_mismatch"]},
        ],
    }
