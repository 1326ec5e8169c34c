"""What each rig command prints, as lines and as JSON."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.fields import StatusClass
from bridgehead.rigs.trust.attestation import Attestation
from bridgehead.rigs.trust.incoming_changes import Change, Refusal, report_changes
from bridgehead.rigs.trust.verification_kinds import PathFindings, report_on
from bridgehead.rigs.views.results import (
    Checked,
    Closed,
    Frozen,
    Initialised,
    Reconciled,
    Relayed,
    Replayed,
    Scaffolded,
    Sent,
    Synced,
    Thawed,
    Verified,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HASH = "a" * 64
SENT = Sent(
    type="ACK",
    thread_id="demo-01",
    file_path="demo-01/ACK.md",
    commit_sha=COMMIT,
    body_hash=HASH,
    status_class=StatusClass.ACTIVE,
    pushed=True,
    to=("mac-m5max",),
)


def test_init() -> None:
    result = Initialised("mac-m5max", "a")
    assert result.line() == "rig-bridge: init OK rig-id=mac-m5max root=a"
    assert result.json_object() == {
        "schema_version": "1.0",
        "op": "init",
        "rig_id": "mac-m5max",
        "root": "a",
    }
    assert (
        Initialised("x", "a", "Mac Claude").json_object()["display_name"]
        == "Mac Claude"
    )


def test_new() -> None:
    result = Scaffolded("demo-01", "demo-01/REQUEST.md")
    assert (
        result.line()
        == "rig-bridge: scaffolded type=REQUEST thread=demo-01 file=demo-01/REQUEST.md"
    )
    assert result.json_object() == {
        "schema_version": "1.0",
        "op": "new",
        "thread_id": "demo-01",
        "file_path": "demo-01/REQUEST.md",
        "type": "REQUEST",
    }


def test_send() -> None:
    assert (
        SENT.line()
        == "rig-bridge: sent type=ACK thread=demo-01 file=demo-01/ACK.md commit=0123456"
    )
    assert SENT.json_object() == {
        "schema_version": "1.0",
        "op": "send",
        "type": "ACK",
        "thread_id": "demo-01",
        "file_path": "demo-01/ACK.md",
        "commit_sha": COMMIT,
        "body_hash": HASH,
        "status_class": "active",
        "pushed": True,
        "to": ["mac-m5max"],
        "references": [],
    }


def test_send_tells_of_concurrent_turns_and_of_its_row_where_there_are_any_to_tell_of() -> (
    None
):
    told = SENT._replace(concurrent_with=(), row_id=7).json_object()
    assert told["concurrent_with"] == []
    assert told["row_id"] == 7


def test_close() -> None:
    result = Closed(
        "demo-01",
        StatusClass.COMPLETED,
        "demo-01/RESOLUTION.md",
        COMMIT,
        HASH,
        pushed=False,
    )
    assert (
        result.line()
        == "rig-bridge: closed type=RESOLUTION thread=demo-01 status=completed commit=0123456"
    )
    assert result.json_object() == {
        "schema_version": "1.0",
        "op": "close",
        "thread_id": "demo-01",
        "status": "completed",
        "commit_sha": COMMIT,
        "body_hash": HASH,
        "type": "RESOLUTION",
        "file_path": "demo-01/RESOLUTION.md",
        "pushed": False,
    }


def test_relay() -> None:
    attestation = Attestation(
        "SHA256:key", "2026-05-16T10:30:00.123Z", "01KRNJ0NG0-0000000000"
    )
    result = Relayed(
        "ACK",
        "demo-01",
        "demo-01/RELAY-01KRNJ0NG0.md",
        COMMIT,
        attestation,
        HASH,
        "b" * 64,
        pushed=True,
    )
    assert result.line() == (
        "rig-bridge: relayed type=ACK thread=demo-01 file=demo-01/RELAY-01KRNJ0NG0.md "
        "attested_by=SHA256:key nonce=01KRNJ0NG0-0000000000 commit=0123456"
    )
    attested = {
        "attested_by": "SHA256:key",
        "attested_at": "2026-05-16T10:30:00.123Z",
        "nonce": "01KRNJ0NG0-0000000000",
    }
    assert result.json_object() == {
        "schema_version": "1.0",
        "op": "relay",
        "type": "ACK",
        "thread_id": "demo-01",
        "file_path": "demo-01/RELAY-01KRNJ0NG0.md",
        "commit_sha": COMMIT,
        "attestation": attested,
        "thread": "demo-01",
        "file": "demo-01/RELAY-01KRNJ0NG0.md",
        "commit": COMMIT,
        **attested,
        "in_reply_to": HASH,
        "body_hash": "b" * 64,
        "pushed": True,
    }


def test_freeze_and_thaw() -> None:
    frozen = Frozen("demo-01", "2026-05-16T10:45:00.000Z")
    assert (
        frozen.line()
        == "rig-bridge: frozen thread=demo-01 until=2026-05-16T10:45:00.000Z"
    )
    assert frozen.json_object()["op"] == "freeze"
    assert frozen.json_object()["expires"] == "2026-05-16T10:45:00.000Z"
    assert Thawed("demo-01").line() == "rig-bridge: thawed thread=demo-01"
    assert Thawed("demo-01").json_object() == {
        "schema_version": "1.0",
        "op": "thaw",
        "thread_id": "demo-01",
    }


OK = report_on([PathFindings("demo-01/ACK.md", ())])
APPENDED = report_changes(
    [Change("A", "demo-01/ACK.md")],
    local_head="1" * 40,
    remote_head="2" * 40,
    local_ahead=0,
    remote_ahead=1,
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
            Synced(APPENDED, Refusal.NOT_ELIGIBLE, pulled=False, verification=OK),
            "rig-bridge: sync pulled=false diverged=false reason=not_fast_forward_eligible",
        ),
    ],
)
def test_sync_lines(result: Synced, line: str) -> None:
    assert result.line() == line


def test_a_sync_that_was_refused_says_why_and_shows_the_whole_report() -> None:
    refused = Synced(
        DIVERGED, Refusal.BOTH_AHEAD, pulled=False, verification=OK
    ).json_object()
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
        "quarantined": [],
    }


def test_a_sync_that_went_through_has_no_reason() -> None:
    assert (
        "reason"
        not in Synced(APPENDED, None, pulled=True, verification=OK).json_object()
    )


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
    assert (
        checked.line()
        == "rig-bridge: check ok=false remote=true clean=true behind=1 ahead=0 index=true"
    )
    assert checked.json_object()["index"] is True


def test_verify_reconcile_and_replay() -> None:
    assert Verified(OK).line() == "rig-bridge: verify checked=1 ok=1 warned=0 failed=0"
    assert Verified(OK).json_object()["verification"] == OK.json_object()
    assert (
        Reconciled(1, 2, 3).line()
        == "rig-bridge: reconciled added=1 pushed=2 superseded=3"
    )
    assert Reconciled(1, 2, 3).json_object()["superseded"] == 3
    assert Replayed(4, 5).line() == "rig-bridge: replayed threads=4 messages=5"
    assert Replayed(4, 5).json_object()["messages"] == 5
