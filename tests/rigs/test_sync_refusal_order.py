"""Which reason is given when nothing new arrives and what passed by does not verify (rigs §9.2)."""

from __future__ import annotations

from bridgehead.rigs.trust.incoming_changes import Refusal, report_changes


def test_commits_without_envelopes_are_named_before_failed_verification() -> None:
    report = report_changes([], local_head="a", remote_head="b", local_ahead=0, remote_ahead=2)
    assert report.refusal(verification_failed=True) is Refusal.NOT_ELIGIBLE
    assert report.refusal(verification_failed=True, accept_non_envelope=True) is Refusal.VERIFICATION
