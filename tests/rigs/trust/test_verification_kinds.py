"""Which findings refuse a pull, which quarantine an envelope, and which only warn."""

from __future__ import annotations

import pytest

from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    PathFindings,
    Verification,
    VerificationState,
    quarantines,
    refuses_pull,
    report_on,
    sum_up,
)

# rigs §9.4, and design §1 for what a council is asked
REFUSES = {Kind.REWRITTEN}
WARNS = {
    Kind.BODY_HASH_ABSENT,
    Kind.SIGNER_UNKNOWN,
    Kind.PARENT_UNKNOWN,
    Kind.ATTESTED_TIME_SKEW,
    Kind.SIGNER_UNBOUND,
    Kind.RELAY_UNATTESTED,
}


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_refuses_a_pull_quarantines_or_warns(kind: Kind) -> None:
    assert refuses_pull([kind]) is (kind in REFUSES)
    assert quarantines([kind]) is (kind not in REFUSES | WARNS)
    state = VerificationState.UNVERIFIED if kind in WARNS else VerificationState.BROKEN
    assert sum_up([kind], known_signer=True) == Verification(state, (kind,))


def test_what_is_settled_fails_no_more_unless_history_was_changed() -> None:
    bad = [
        PathFindings("t-1/A.md", (Kind.SYMLINK,)),
        PathFindings("t-1/B.md", (Kind.REWRITTEN,)),
    ]
    assert report_on(bad).failed == 2
    assert (
        report_on(bad, {"t-1/A.md", "t-1/B.md"}).warned,
        report_on(bad, {"t-1/B.md"}).failed,
    ) == (1, 2)


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
