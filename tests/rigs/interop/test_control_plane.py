"""The control plane in rough weather: lost races, answers across threads, files that cannot be used (rigs §14)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.rig_bridges import Bridge, Clone


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    clone = bridge.clone("a", "mac-m5max")
    for thread in ("demo-01", "demo-02"):
        (clone.path / thread).mkdir()
    return clone


@pytest.fixture
def database(bridge: Bridge) -> Path:
    return bridge.base / "swarm.db"


def send(
    clone: Clone, kind: str, thread: str, *more: str, database: Path | None = None
) -> str:
    swarm = {"SWARM_DB": str(database)} if database else {}
    sent = clone.rig(
        "send", kind, "--thread", thread, "--to", "ops", "--json", *more, **swarm
    ).ok()
    return str(sent.json["commit_sha"])


def asked(database: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return list(connection.execute(question))


def states(database: Path) -> list[tuple[object, ...]]:
    return asked(
        database, "SELECT filename, lifecycle_state FROM bridge_messages ORDER BY id"
    )


def test_a_lost_race_leaves_a_row_for_every_commit_that_is_now_in_history(
    bridge: Bridge, mac: Clone, database: Path
) -> None:
    windows = bridge.clone("b", "windows-5080")
    (windows.path / "demo-01").mkdir()
    send(mac, "STATE", "demo-01", "--no-push", database=database)
    send(windows, "ACK", "demo-01")
    send(mac, "HANDOFF", "demo-01", database=database)
    assert states(database) == [
        ("STATE.md", "superseded"),
        ("ACK.md", "received"),
        ("STATE.md", "sent"),
        ("HANDOFF.md", "sent"),
    ]
    assert asked(
        database, "SELECT value FROM bridge_counters WHERE name = 'retries'"
    ) == [(1,)]


def test_a_reference_acknowledges_a_message_of_another_thread(
    mac: Clone, database: Path
) -> None:
    request = send(mac, "REQUEST", "demo-01", "--no-push", database=database)
    send(mac, "RESULT", "demo-02", "--no-push", "--ref", request[:7], database=database)
    assert states(database) == [("REQUEST.md", "acked"), ("RESULT.md", "sent")]


def test_reconciling_one_thread_does_not_pass_over_the_others(
    mac: Clone, database: Path
) -> None:
    send(mac, "REQUEST", "demo-01", "--no-push")
    send(mac, "STATE", "demo-02", "--no-push")
    assert (
        "added=1"
        in mac.rig("reconcile", "--thread", "demo-02", SWARM_DB=str(database)).ok().out
    )
    send(mac, "ACK", "demo-02", "--no-push", database=database)
    assert {name for name, _ in states(database)} == {
        "REQUEST.md",
        "STATE.md",
        "ACK.md",
    }


def test_tables_of_a_later_version_are_left_alone_with_one_warning(
    mac: Clone, database: Path
) -> None:
    send(mac, "STATE", "demo-01", "--no-push", database=database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE bridge_meta SET value = '99'")
    sent = mac.rig(
        "send",
        "ACK",
        "--thread",
        "demo-01",
        "--to",
        "ops",
        "--no-push",
        SWARM_DB=str(database),
    ).ok()
    assert sent.err.count("warning: the control plane") == 1
    assert states(database) == [("STATE.md", "sent")]


def test_a_change_that_cannot_be_ended_leaves_nothing_behind(
    mac: Clone, database: Path
) -> None:
    send(mac, "STATE", "demo-01", "--no-push", database=database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER t BEFORE INSERT ON bridge_cursor BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    sent = mac.rig(
        "send",
        "ACK",
        "--thread",
        "demo-01",
        "--to",
        "ops",
        "--no-push",
        SWARM_DB=str(database),
    ).ok()
    assert "was not written (full)" in sent.err
    assert states(database) == [("STATE.md", "sent")]
