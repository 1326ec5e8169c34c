"""Our rigs and rigs that run the npm reference share one repository; neither notices a difference."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.rig_bridges import (
    Bridge,
    Clone,
    needs_reference,
    needs_ssh_keygen,
    with_signing_key,
)

pytestmark = [pytest.mark.peer, needs_reference]


@pytest.fixture
def ours(bridge: Bridge) -> Clone:
    return bridge.clone("a", "mac-m5max")


@pytest.fixture
def theirs(bridge: Bridge) -> Clone:
    return bridge.clone("b", "windows-5080", by_reference=True)


def without_commit(line: str) -> str:
    return re.sub(r"commit=\w+", "commit=…", line)


def test_an_identity_written_by_either_tool_serves_the_other(bridge: Bridge) -> None:
    first = bridge.clone("x", "mac-m5max")
    second = bridge.clone("y", "windows-5080", by_reference=True)

    assert (
        first.reference("new", "demo-01").ok().out
        == second.rig("new", "demo-01").ok().out
    )
    assert (first.path / ".bridge/config.yaml").read_text() == "rig_id: mac-m5max\n"


def test_what_we_send_the_reference_pulls_lists_and_shows(
    ours: Clone, theirs: Clone
) -> None:
    (ours.path / "demo-01").mkdir()
    ours.rig(
        "send",
        "REQUEST",
        "--thread",
        "demo-01",
        "--to",
        "windows-5080",
        "--tldr",
        "opening ask",
    ).ok()

    pulled = theirs.reference("sync", "--auto").ok()

    assert "pulled=true" in pulled.out and "new_envelopes=1" in pulled.out
    assert theirs.reference("status").ok().out == ours.rig("status").ok().out
    assert (
        theirs.reference("thread", "demo-01").ok().out
        == ours.rig("thread", "demo-01").ok().out
    )


def test_what_the_reference_sends_we_pull_list_and_show(
    ours: Clone, theirs: Clone
) -> None:
    (theirs.path / "demo-02").mkdir()
    theirs.reference(
        "send",
        "HANDOFF",
        "--thread",
        "demo-02",
        "--to",
        "mac-m5max,ops",
        "--status",
        "🎯 go: now #1",
    ).ok()

    pulled = ours.rig("sync", "--auto", "--json").ok().json

    assert pulled["pulled"] is True and pulled["verification"] == {
        "checked": 1, "ok": 1, "warned": 0, "failed": 0, "items": []
    }  # fmt: skip
    assert (
        ours.rig("status", "--wide")
        .ok()
        .out.splitlines()[1]
        .startswith(theirs.reference("status", "--wide").ok().out.splitlines()[1])
    )
    assert (
        ours.rig("thread", "demo-02").ok().out
        == theirs.reference("thread", "demo-02").ok().out
    )


def test_the_same_command_writes_the_same_bytes(ours: Clone, theirs: Clone) -> None:
    for clone in (ours, theirs):
        (clone.path / "demo-03").mkdir()
        (clone.path / ".bridge/config.yaml").write_text(
            "rig_id: same-rig\ndisplay_name: Same Rig\n"
        )
    arguments = (
        "send",
        "RESULT",
        "--thread",
        "demo-03",
        "--to",
        "x",
        "--to",
        "y",
        "--tldr",
        'a "b": c',
        "--no-push",
    )

    mine, other = ours.rig(*arguments).ok(), theirs.reference(*arguments).ok()

    assert without_commit(mine.out) == without_commit(other.out)
    assert (ours.path / "demo-03/RESULT.md").read_bytes() == (
        theirs.path / "demo-03/RESULT.md"
    ).read_bytes()
    assert ours.git("log", "-1", "--format=%s%n%b") == theirs.git(
        "log", "-1", "--format=%s%n%b"
    )


def test_a_thread_closed_by_either_is_closed_for_both(
    ours: Clone, theirs: Clone
) -> None:
    (ours.path / "demo-04").mkdir()
    ours.rig("send", "REQUEST", "--thread", "demo-04", "--to", "windows-5080").ok()
    theirs.reference("sync", "--auto").ok()
    theirs.reference("close", "demo-04", "--status", "completed", "--note", "done").ok()
    ours.rig("sync", "--auto").ok()

    assert "closed=1" in ours.rig("status").out
    again = ours.rig("close", "demo-04", "--status", "cancelled")
    assert again.code == 1 and "a thread may only be closed once" in again.err


@needs_ssh_keygen
def test_a_relay_turn_of_ours_is_an_ordinary_envelope_for_the_reference(
    bridge: Bridge, theirs: Clone
) -> None:
    relay = bridge.clone("c", "mike-relay")
    with_signing_key(relay, bridge.base)
    (theirs.path / "demo-05").mkdir()
    theirs.reference(
        "send", "REQUEST", "--thread", "demo-05", "--to", "mike-relay"
    ).ok()
    relay.rig("sync", "--auto").ok()
    asked = relay.rig("thread", "demo-05", "--json").json["envelopes"][0][
        "frontmatter"
    ]["body_hash"]

    relay.rig("relay", "DECISIONS", "--thread", "demo-05", "--in-reply-to", asked).ok()

    assert "new_envelopes=1" in theirs.reference("sync", "--auto").ok().out
    assert "type=DECISIONS" in theirs.reference("thread", "demo-05").ok().out


@needs_ssh_keygen
def test_a_relay_turn_of_the_reference_is_checked_by_us(
    bridge: Bridge, ours: Clone
) -> None:
    relay = bridge.clone("c", "mike-relay", by_reference=True)
    with_signing_key(relay, bridge.base)
    (ours.path / "demo-06").mkdir()
    asked = ours.rig(
        "send", "REQUEST", "--thread", "demo-06", "--to", "mike-relay", "--json"
    ).json["body_hash"]
    relay.reference("sync", "--auto").ok()
    relay.reference("relay", "ACK", "--thread", "demo-06", "--in-reply-to", asked).ok()

    pulled = ours.rig("sync", "--auto", "--json").json

    kinds = pulled["verification"]["items"][0]["kinds"]
    assert pulled["pulled"] is True and kinds == ["signer_unknown"]


def test_both_tools_may_send_at_the_same_time(ours: Clone, theirs: Clone) -> None:
    (ours.path / "demo-07").mkdir()
    ours.rig("send", "REQUEST", "--thread", "demo-07", "--to", "windows-5080").ok()
    theirs.reference("sync", "--auto").ok()

    def send_theirs(number: int) -> None:
        # The reference has no retry: when its push is rejected its operator rebases by hand, as it advises.
        done = theirs.reference(
            "send",
            "STATE",
            "--thread",
            "demo-07",
            "--to",
            "mac-m5max",
            "--tldr",
            f"t{number}",
        )
        while done.code != 0:
            theirs.git("pull", "-q", "--rebase")
            pushed = subprocess.run(
                ["git", "push", "-q"],
                cwd=theirs.path,
                env=theirs.environ(),
                check=False,
            )
            if pushed.returncode == 0:
                break

    def send_ours(number: int) -> None:
        ours.rig(
            "send",
            "ACK",
            "--thread",
            "demo-07",
            "--to",
            "windows-5080",
            "--tldr",
            f"o{number}",
        ).ok()

    with ThreadPoolExecutor(2) as pool:
        mine = pool.submit(lambda: [send_ours(number) for number in range(4)])
        other = pool.submit(lambda: [send_theirs(number) for number in range(4)])
        mine.result(), other.result()

    ours.rig("sync", "--auto").ok()
    subjects = ours.git("log", "--format=%s").splitlines()
    assert sorted(s for s in subjects if s.startswith("ACK")) == [
        f"ACK: o{n}" for n in range(4)
    ]
    assert sorted(s for s in subjects if s.startswith("STATE")) == [
        f"STATE: t{n}" for n in range(4)
    ]
    assert ours.rig("verify").ok().out.endswith("failed=0\n")
