"""`sync` where there is nothing to pull, and where envelopes lie deeper than they should (rigs §9)."""

from __future__ import annotations

import pytest

from support.rig_bridges import Bridge, Clone

ENVELOPE = "---\nfrom: win\nto: mac\ndate: 2026-05-15\nstatus: ▶ go\ntype: ACK\nthread: {}\n---\nx\n"


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    return bridge.clone("a", "mac-m5max")


def appended(bridge: Bridge, path: str, text: str) -> None:
    """Another clone pushes a file."""
    there = bridge.clone("b")
    (there.path / path).parent.mkdir(parents=True)
    (there.path / path).write_text(text)
    there.git("add", ".")
    there.git("commit", "-q", "-m", "append")
    there.git("push", "-q")


def test_pulling_nothing_is_told_as_the_reference_tells_it(mac: Clone) -> None:
    before = mac.git("rev-parse", "HEAD")
    done = mac.rig("sync", "--auto").ok()
    assert done.out == "rig-bridge: sync pulled=true fast_forward=true new_envelopes=0 diverged=false\n"
    assert mac.git("rev-parse", "HEAD") == before


def test_whatever_counts_as_a_new_envelope_is_verified(bridge: Bridge, mac: Clone) -> None:
    appended(bridge, "demo-01/deeper/ACK.md", ENVELOPE.format("demo-02"))
    pulled = mac.rig("sync", "--auto", "--json").ok().json
    assert (pulled["pulled"], pulled["new_envelopes"]) == (True, 0)
    assert (
        pulled["verification"]["items"]
        == pulled["quarantined"]
        == [{"path": "demo-01/deeper/ACK.md", "kinds": ["body_hash_absent", "thread_mismatch"]}]
    )


def test_the_gate_says_a_line_per_check_with_the_remedy_of_those_that_fail(mac: Clone) -> None:
    (mac.path / "loose.txt").write_text("x\n")
    mac.git("commit", "-q", "--allow-empty", "-m", "mine")
    done = mac.rig("sync", "--check")
    assert done.code == 1
    assert done.err.splitlines() == [
        "rig-bridge: remote: ok",
        "rig-bridge: clean: the work tree is not clean: git status",
        "rig-bridge: behind: ok",
        "rig-bridge: ahead: 1 commit to push: rig-bridge push",
        "rig-bridge: index: ok",
    ]
