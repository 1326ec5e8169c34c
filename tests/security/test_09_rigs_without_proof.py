"""Hole 9: a stranger's RESOLUTION settled what a member asked, and a shallow clone showed forged mail as a member's."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rig_bridges import Bridge, Clone, make_bridge, needs_ssh_keygen

pytestmark = needs_ssh_keygen
IN_THREAD = ("--thread", "demo-01", "--to")


def member(bridge: Bridge, name: str, rig_id: str) -> Clone:
    clone = bridge.clone(name)
    clone.rig("init", "--rig-id", rig_id, "--sign").ok()
    clone.rig("member", "add").ok()
    return clone


@pytest.fixture
def bridge(tmp_path: Path) -> Bridge:
    return make_bridge(tmp_path)


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    """A keyed member that has asked a rig without a key."""
    mac = member(bridge, "a", "mac-m5max")
    mac.rig("new", "demo-01").ok()
    mac.rig("send", "REQUEST", *IN_THREAD, "windows-5080").ok()
    return mac


def test_a_stranger_without_a_key_settles_nothing_that_a_member_asked(
    bridge: Bridge, mac: Clone
) -> None:
    windows = bridge.clone("w", "windows-5080")
    stranger = bridge.clone("s", "nobody-knows")
    stranger.rig("close", "demo-01", "--status", "completed").ok()
    for clone in (mac, windows):
        clone.rig("sync", "--auto").ok()

    shown = windows.rig("inbox", "--json").ok()
    assert [one["type"] for one in shown.json["envelopes"]] == ["REQUEST"]
    assert "RESOLUTION.md settles nothing that mac-m5max asked" in shown.err
    assert "RESOLUTION of nobody-knows is not verified" in shown.err
    assert "is owed 1" in mac.rig("status").ok().err
    assert "settles nothing" in mac.rig("inbox").ok().err


def test_a_member_and_whoever_was_asked_still_settle_it(
    bridge: Bridge, mac: Clone
) -> None:
    windows = bridge.clone("w", "windows-5080")
    windows.rig("close", "demo-01", "--status", "completed").ok()
    assert windows.rig("inbox", "--json").ok().json["envelopes"] == []

    mac.rig("sync", "--auto").ok()
    mac.rig("new", "demo-02").ok()
    mac.rig("send", "REQUEST", "--thread", "demo-02", "--to", "windows-5080").ok()
    mac.rig("close", "demo-02", "--status", "cancelled").ok()
    windows.rig("sync", "--auto").ok()
    told = windows.rig("inbox", "--json").ok()
    assert "REQUEST" not in [one["type"] for one in told.json["envelopes"]]
    assert "settles nothing" not in told.err


def test_a_shallow_clone_proves_nothing_and_says_how_to_mend_it(
    bridge: Bridge, mac: Clone
) -> None:
    forger = bridge.clone("f", "mac-m5max")
    folder = forger.path / "demo-01"
    (folder / "REQUEST-2.md").write_text((folder / "REQUEST.md").read_text())
    forger.git("add", "-A")
    forger.git("commit", "-q", "--no-gpg-sign", "-m", "REQUEST: forged")
    forger.git("push", "-q", "origin", "HEAD")
    shallow = Clone(bridge.base / "shallow", bridge.base / "home")
    source = bridge.remote.as_uri()
    forger.git("clone", "-q", "--depth=1", source, str(shallow.path))
    shallow.rig("init", "--rig-id", "windows-5080")

    for command in (
        ("inbox",),
        ("inbox", "--json"),
        ("thread", "demo-01"),
        ("thread", "demo-01", "--json"),
        ("status",),
        ("verify",),
        ("sync", "--auto"),
        ("member", "list"),
        ("send", "STATE", *IN_THREAD, "mac-m5max"),
    ):
        done = shallow.rig(*command)
        assert done.code != 0, command
        assert "this clone is shallow" in done.err, (command, done.err)
        assert "git fetch --unshallow" in done.err
        assert "mac-m5max" not in done.out

    shallow.git("fetch", "-q", "--unshallow")
    shown = shallow.rig("inbox", "--json").ok().json["envelopes"]
    assert [(one["filename"], one["verification"]["state"]) for one in shown] == [
        ("REQUEST.md", "verified")
    ]
