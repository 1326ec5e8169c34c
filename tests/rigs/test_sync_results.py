from __future__ import annotations

import pytest

from bridgehead.rigs.trust.incoming_changes import Change, Refusal, report_changes
from bridgehead.rigs.trust.verification_kinds import PathFindings, report_on
from bridgehead.rigs.views.results import Checked, Reconciled, Replayed, Synced, Verified

OK = report_on([PathFindings("demo-01/ACK.md", ())])
APPENDED = report_changes(
    [Change("A", "demo-01/ACK.md")], local_head="1" * 40, remote_head="2" * 40, local_ahead=0, remote_ahead=1
)
DIVERGED = APPENDED._replace(local_ahead=1)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            Synced(APPENDED, None, pulled=False, verification=OK),
            "rig-bridge: sync pulled=false fast_forward=true new_envelopes=1 diverged=false",
        ),
        (
            Synced(APPENDED, None, pulled=True, verification=OK),
            "rig-bridge: sync pulled=true fast_forward=true new_envelopes=1 diverged=false",
        ),
        (
            Synced(DIVERGED, Refusal.BOTH_AHEAD, pulled=False, verification=OK),
            "rig-bridge: sync pulled=false diverged=true reason=both_sides_diverged",
        ),
        (
            Synced(APPENDED, Refusal.VERIFICATION, pulled=False, verification=OK),
            "rig-bridge: sync pulled=false diverged=false reason=verification_failed",
        ),
    ],
)
def test_sync_lines(result: Synced, line: str) -> None:
    assert result.line() == line


def test_a_sync_that_was_refused_says_why_and_shows_the_whole_report() -> None:
    refused = Synced(DIVERGED, Refusal.BOTH_AHEAD, pulled=False, verification=OK).json_object()
    assert refused == {
        "schema_version": "1.0",
        "op": "sync",
        "pulled": False,
        "fast_forward_eligible": False,
        "diverged": True,
        "new_envelopes": 1,
        "divergence_report": DIVERGED.json_object(),
        "fast_forward": False,
        "new_envelopes_count": 1,
        "changed_envelopes_count": 0,
        "local_head": "1" * 40,
        "remote_head": "2" * 40,
        "reason": "both_sides_diverged",
        "verification": {"checked": 1, "ok": 1, "warned": 0, "failed": 0, "items": []},
    }


def test_a_sync_that_went_through_has_no_reason() -> None:
    assert "reason" not in Synced(APPENDED, None, pulled=True, verification=OK).json_object()


@pytest.mark.parametrize(
    ("checked", "ok"),
    [
        (Checked(remote=True, clean=True, behind=0, ahead=0, indexed=True), True),
        (Checked(remote=False, clean=True, behind=0, ahead=0, indexed=True), False),
        (Checked(remote=True, clean=False, behind=0, ahead=0, indexed=True), False),
        (Checked(remote=True, clean=True, behind=1, ahead=0, indexed=True), False),
        (Checked(remote=True, clean=True, behind=0, ahead=1, indexed=True), False),
        (Checked(remote=True, clean=True, behind=0, ahead=0, indexed=False), False),
    ],
)
def test_the_check_is_ok_only_if_everything_is(checked: Checked, ok: bool) -> None:
    assert checked.ok is ok
    assert checked.json_object()["ok"] is ok


def test_check_line() -> None:
    checked = Checked(remote=True, clean=True, behind=1, ahead=0, indexed=True)
    assert checked.line() == "rig-bridge: check ok=false remote=true clean=true behind=1 ahead=0 index=true"
    assert checked.json_object()["index"] is True


def test_verify_reconcile_and_replay() -> None:
    assert Verified(OK).line() == "rig-bridge: verify checked=1 ok=1 warned=0 failed=0"
    assert Verified(OK).json_object()["verification"] == OK.json_object()
    assert Reconciled(1, 2, 3).line() == "rig-bridge: reconciled added=1 pushed=2 superseded=3"
    assert Reconciled(1, 2, 3).json_object()["superseded"] == 3
    assert Replayed(4, 5).line() == "rig-bridge: replayed threads=4 messages=5"
    assert Replayed(4, 5).json_object()["messages"] == 5
