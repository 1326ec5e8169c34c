from __future__ import annotations

from bridgehead.rigs.envelope.fields import StatusClass
from bridgehead.rigs.trust.attestation import Attestation
from bridgehead.rigs.views.results import Closed, Frozen, Initialised, Relayed, Scaffolded, Sent, Thawed

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
    assert result.json_object() == {"schema_version": "1.0", "op": "init", "rig_id": "mac-m5max", "root": "a"}
    assert Initialised("x", "a", "Mac Claude").json_object()["display_name"] == "Mac Claude"


def test_new() -> None:
    result = Scaffolded("demo-01", "demo-01/REQUEST.md")
    assert result.line() == "rig-bridge: scaffolded type=REQUEST thread=demo-01 file=demo-01/REQUEST.md"
    assert result.json_object() == {
        "schema_version": "1.0",
        "op": "new",
        "thread_id": "demo-01",
        "file_path": "demo-01/REQUEST.md",
        "type": "REQUEST",
    }


def test_send() -> None:
    assert SENT.line() == "rig-bridge: sent type=ACK thread=demo-01 file=demo-01/ACK.md commit=0123456"
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


def test_send_tells_of_concurrent_turns_and_of_its_row_where_there_are_any_to_tell_of() -> None:
    told = SENT._replace(concurrent_with=(), row_id=7).json_object()
    assert told["concurrent_with"] == []
    assert told["row_id"] == 7


def test_close() -> None:
    result = Closed("demo-01", StatusClass.COMPLETED, "demo-01/RESOLUTION.md", COMMIT, HASH, pushed=False)
    assert (
        result.line() == "rig-bridge: closed type=RESOLUTION thread=demo-01 status=completed commit=0123456"
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
    attestation = Attestation("SHA256:key", "2026-05-16T10:30:00.123Z", "01KRNJ0NG0-0000000000")
    result = Relayed(
        "ACK", "demo-01", "demo-01/RELAY-01KRNJ0NG0.md", COMMIT, attestation, HASH, "b" * 64, pushed=True
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
    assert frozen.line() == "rig-bridge: frozen thread=demo-01 until=2026-05-16T10:45:00.000Z"
    assert frozen.json_object()["op"] == "freeze"
    assert frozen.json_object()["expires"] == "2026-05-16T10:45:00.000Z"
    assert Thawed("demo-01").line() == "rig-bridge: thawed thread=demo-01"
    assert Thawed("demo-01").json_object() == {"schema_version": "1.0", "op": "thaw", "thread_id": "demo-01"}
