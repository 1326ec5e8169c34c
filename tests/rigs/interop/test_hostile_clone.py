"""A clone that somebody else prepared chooses no file outside itself and nobody to trust (rigs §2, §10)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.rig_bridges import Bridge, Clone, needs_ssh_keygen, with_signing_key

CONFIG = "rig_id: mac-m5max\n"


@pytest.fixture
def hostile(bridge: Bridge) -> Clone:
    """The clone from which everything bad is pushed."""
    asking = bridge.clone("w", "windows-5080")
    asking.rig("new", "demo-01").ok()
    asking.rig("send", "REQUEST", "--thread", "demo-01", "--to", "mac-m5max").ok()
    return bridge.clone("h", "evil-relay")


@pytest.fixture
def precious(bridge: Bridge) -> Path:
    """A database of the user that no bridge has any business with."""
    path = bridge.base / "precious.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table mine (x)")
        database.commit()
    return path


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [
            name
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table'"
            )
        ]


def push_tracked(
    clone: Clone, path: str, text: str | None = None, link: str | None = None
) -> None:
    target = clone.path / path
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    if link is not None:
        target.symlink_to(link)
    else:
        target.write_text(text or "")
    clone.git("add", "-f", "--", path)
    clone.git("commit", "-q", "-m", "gift")
    clone.git("push", "-q")


@pytest.mark.parametrize("named", ["absolute", "climbing"])
def test_a_tracked_configuration_names_no_database(
    bridge: Bridge, hostile: Clone, precious: Path, named: str
) -> None:
    path = str(precious) if named == "absolute" else "../precious.db"
    push_tracked(hostile, ".bridge/config.yaml", f"{CONFIG}control_plane: {path}\n")
    victim = bridge.clone("v")

    done = victim.rig("sync", "--auto").ok()

    assert tables(precious) == ["mine"]
    assert "control_plane in it is ignored" in done.err


def test_a_tracked_link_leads_to_no_database(
    bridge: Bridge, hostile: Clone, precious: Path
) -> None:
    push_tracked(hostile, ".bridge/control-plane.db", link=str(precious))
    victim = bridge.clone("v")
    (victim.path / ".bridge" / "config.yaml").write_text(
        f"{CONFIG}control_plane: true\n"
    )

    done = victim.rig("sync", "--auto").ok()

    assert tables(precious) == ["mine"]
    assert "no control plane is used" in done.err


@needs_ssh_keygen
@pytest.mark.parametrize("configured_by", ["them", "the user"])
def test_tracked_signers_are_trusted_by_nobody(
    bridge: Bridge, hostile: Clone, configured_by: str
) -> None:
    key = with_signing_key(hostile, bridge.base, "evil@example.com")
    asked = hostile.rig("thread", "demo-01", "--json").json["envelopes"][0][
        "frontmatter"
    ]["body_hash"]
    hostile.rig(
        "relay",
        "DECISIONS",
        "--thread",
        "demo-01",
        "--in-reply-to",
        asked,
        "--to",
        "mac-m5max",
    ).ok()
    signers = f'evil@example.com namespaces="git" {key.read_text()}'
    push_tracked(hostile, ".bridge/allowed_signers", signers)
    config = f"{CONFIG}allowed_signers: .bridge/allowed_signers\n"
    if configured_by == "them":
        push_tracked(hostile, ".bridge/config.yaml", config)
    victim = bridge.clone("v")
    if configured_by == "the user":
        (victim.path / ".bridge" / "config.yaml").write_text(config)

    found = victim.rig("inbox", "--json").ok()

    states = {
        entry["type"]: entry["verification"]["state"]
        for entry in found.json["envelopes"]
    }
    assert states["DECISIONS"] == "unverified"
    assert (
        "none is trusted" in found.err
        or "allowed_signers in it is ignored" in found.err
    )
    if configured_by == "the user":
        refused = victim.rig("trust", "add", "evil@example.com", str(key))
        assert refused.code == 1 and "is tracked" in refused.err
