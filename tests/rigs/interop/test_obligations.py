"""What is owed and delivered, seen from both sides of the wire; waiting for it; sending it once (rigs §8)."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path

import pytest

from support.rig_bridges import OURS, Bridge, Clone, needs_reference, needs_ssh_keygen

SEND = ("--thread", "demo-01", "--to")


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    made = bridge.clone("a", "mac-m5max")
    made.rig("new", "demo-01").ok()
    return made


@pytest.fixture
def windows(bridge: Bridge, mac: Clone) -> Clone:
    """A rig that was asked something."""
    mac.rig("send", "REQUEST", *SEND, "windows-5080", "--tldr", "which toolkit?").ok()
    return bridge.clone("b", "windows-5080")


def header(clone: Clone, *flags: str) -> str:
    return clone.rig("inbox", *flags).ok().out.splitlines()[0]


def test_both_sides_see_what_is_owed_taken_and_delivered(
    mac: Clone, windows: Clone
) -> None:
    assert header(mac) == "rig-bridge: inbox waiting=0"
    assert "others owe this rig 1 answer;" in mac.rig("inbox").err
    assert "owed_by=windows-5080" in mac.rig("inbox", "--owed").ok().out
    assert (
        "this rig owes 0 answers and is owed 1" in mac.rig("status", "--wide").ok().err
    )
    assert (
        "this rig owes 1 answer and is owed 0; rig-bridge inbox --owed lists them"
        in windows.rig("status").ok().err
    )
    for flags in (("--json",), ("--wide", "--json")):
        [listed] = windows.rig("status", *flags).ok().json["threads"]
        assert (listed["owe"], listed["owed"], listed["unseen"]) == (1, 0, 0)
    windows.rig("send", "ACK", *SEND, "mac-m5max", "--by", "2h").ok()
    assert "state=taken by=20" in windows.rig("inbox").ok().out
    windows.rig("send", "RESPONSE", *SEND, "mac-m5max").ok()
    assert header(windows) == "rig-bridge: inbox waiting=0"

    mac.rig("sync", "--auto").ok()
    assert header(mac) == "rig-bridge: inbox waiting=1"
    found = mac.rig("inbox", "--json").ok()
    assert [(one["filename"], one["state"]) for one in found.json["envelopes"]] == [
        ("RESPONSE.md", "delivered")
    ]
    assert {one["rig_id"] for one in found.json["rigs"]} == {
        "mac-m5max",
        "windows-5080",
    }
    assert (
        found.json["remote_seen_at"] and "last fetched from the remote: 20" in found.err
    )

    assert (
        "this rig owes 0 answers and is owed 0; 1 delivered and not seen;"
        in mac.rig("status").ok().err
    )
    mac.rig("thread", "demo-01").ok()
    assert header(mac) == "rig-bridge: inbox waiting=0"
    assert "this rig owes" not in mac.rig("status").ok().err


def test_an_agent_that_is_shown_an_answer_has_seen_it(
    mac: Clone, windows: Clone
) -> None:
    windows.rig(
        "send", "RESULT", *SEND, "mac-m5max", "--body-file", "-", stdin="Built.\n"
    ).ok()
    mac.rig("sync", "--auto").ok()
    shown = mac.rig("inbox", "--prompt").ok().out
    assert "Delivered to you" in shown and "Built." in shown
    assert mac.rig("inbox", "--prompt").ok().out == "No envelope waits for this rig.\n"


def test_an_answer_names_its_question_so_that_all_clones_take_it_for_the_same(
    mac: Clone, windows: Clone
) -> None:
    asked = windows.git("rev-parse", "HEAD")
    sent = windows.rig("send", "RESPONSE", *SEND, "mac-m5max", "--json").ok().json
    assert sent["references"] == [asked]
    assert (
        windows.rig("send", "RESULT", *SEND, "mac-m5max", "--json")
        .ok()
        .json["references"]
        == []
    )


def test_what_is_overdue_says_so(mac: Clone, windows: Clone) -> None:
    mac.rig(
        "send", "VERIFY", *SEND, "windows-5080", "--by", "2020-01-01T00:00:00Z"
    ).ok()
    windows.rig("sync", "--auto").ok()
    found = windows.rig("inbox", "--json").ok().json["envelopes"]
    assert {one["filename"]: one["overdue"] for one in found} == {
        "VERIFY.md": True,
        "REQUEST.md": False,
    }
    assert windows.rig("inbox").ok().out.count("overdue=true") == 1
    items = (
        windows.run(str(OURS.with_name("bridgehead")), "pending", "--json")
        .ok()
        .json["items"]
    )
    assert ["overdue since 20" in item["question"]["title"] for item in items] == [
        True,
        False,
    ]
    refused = mac.rig("send", "STATE", *SEND, "windows-5080", "--by", "2h")
    assert refused.code == 1 and "--by goes with a question or an ACK" in refused.err
    assert mac.rig("send", "REQUEST", *SEND, "windows-5080", "--by", "soon").code == 1


def test_pending_shows_that_a_question_was_taken_on_and_the_estimate(
    windows: Clone,
) -> None:
    windows.rig("send", "ACK", *SEND, "mac-m5max", "--by", "2020-01-01T00:00Z").ok()
    [item] = (
        windows.run(str(OURS.with_name("bridgehead")), "pending", "--json")
        .ok()
        .json["items"]
    )
    assert (
        "(unverified, taken on, overdue since 2020-01-01T00:00:00Z)"
        in item["question"]["title"]
    )


@needs_ssh_keygen
def test_an_overdue_rig_is_told_of_to_its_human(
    bridge: Bridge, mac: Clone, windows: Clone
) -> None:
    human = bridge.clone("h")
    human.rig("init", "--rig-id", "mike-relay", "--sign").ok()
    human.rig("member", "add").ok()
    windows.rig("init", "--rig-id", "windows-5080", "--sign", "--force").ok()
    windows.rig("sync", "--auto").ok()
    windows.rig("member", "add").ok()
    human.rig("sync", "--auto").ok()
    human.rig("member", "add", "windows-5080").ok()
    mac.rig(
        "send", "VERIFY", *SEND, "windows-5080", "--by", "2020-01-01T00:00:00Z"
    ).ok()
    human.rig("sync", "--auto").ok()

    assert header(human) == "rig-bridge: inbox waiting=1"
    [late] = human.rig("inbox", "--json").ok().json["escalated"]
    assert (late["filename"], late["debtor"], late["overdue"]) == (
        "VERIFY.md",
        "windows-5080",
        True,
    )
    waiting = (
        human.run(str(OURS.with_name("bridgehead")), "pending", "--json")
        .ok()
        .json["items"]
    )
    [item] = [
        item for item in waiting if item["question"]["project"] == str(human.path)
    ]
    assert (
        "overdue since 2020-01-01T00:00:00Z, owed by windows-5080)"
        in item["question"]["title"]
    )
    assert item["question"]["context"]["debtor"] == "windows-5080"


def test_the_end_settles_the_rest_and_two_ends_are_a_conflict(
    mac: Clone, windows: Clone
) -> None:
    mac.rig("close", "demo-01", "--status", "cancelled", "--no-push").ok()
    windows.rig("close", "demo-01", "--status", "completed").ok()
    for told in (mac.rig("push").ok().err, windows.rig("sync", "--auto").ok().err):
        assert (
            "thread demo-01 was closed more than once: RESOLUTION.md, RESOLUTION-2.md"
            in told
        )
    for clone in (mac, windows):
        [conflict] = clone.rig("inbox", "--json").ok().json["conflicts"]
        assert conflict["files"] == ["RESOLUTION.md", "RESOLUTION-2.md"]
        assert "was closed more than once" in clone.rig("inbox").err
    assert "type=REQUEST" not in windows.rig("inbox").ok().out


def test_a_recipient_nobody_knows_is_named_with_the_nearest_one(
    mac: Clone, windows: Clone
) -> None:
    done = windows.rig("send", "ACK", *SEND, "mac-m5mx").ok()
    assert (
        'no rig named mac-m5mx has sent or received anything in this bridge. Did you mean "mac-m5max"?'
        in (done.err)
    )
    assert "no rig named" not in windows.rig("send", "ACK", *SEND, "mac-m5max").ok().err


def test_repeating_a_failed_send_doubles_nothing(
    bridge: Bridge, mac: Clone, windows: Clone
) -> None:
    again = ("send", "RESPONSE", *SEND, "mac-m5max", "--body-file", "-")
    windows.git("remote", "set-url", "origin", str(bridge.base / "gone"))
    for _ in range(2):
        failed = windows.rig(*again, stdin="12.4\n")
        assert failed.code == 1 and "rig-bridge push" in failed.err
    windows.git("remote", "set-url", "origin", str(bridge.remote))
    mac.rig("send", "STATE", *SEND, "windows-5080").ok()

    done = windows.rig(*again, stdin="12.4\n").ok()

    assert "no second envelope was written" in done.err
    assert windows.envelopes() == [
        "demo-01/REQUEST.md",
        "demo-01/RESPONSE.md",
        "demo-01/STATE.md",
    ]
    assert windows.git("status", "-sb") == "## main...origin/main"
    windows.rig(*again, stdin="12.4\n").ok()
    assert "demo-01/RESPONSE-2.md" in windows.envelopes()


def test_what_landed_locally_is_one_command_from_the_wire(
    mac: Clone, windows: Clone
) -> None:
    windows.rig("send", "STATE", *SEND, "mac-m5max", "--no-push").ok()
    mac.rig("send", "STATE", *SEND, "windows-5080").ok()
    assert windows.rig("push").ok().out.startswith("rig-bridge: push turns=1 commit=")
    assert windows.rig("push", "--json").ok().json["turns"] == 0
    assert windows.envelopes() == [
        "demo-01/REQUEST.md",
        "demo-01/STATE-2.md",
        "demo-01/STATE.md",
    ]


def test_wait_returns_at_once_for_what_is_there_and_is_bounded_for_what_is_not(
    mac: Clone, windows: Clone
) -> None:
    nothing = mac.rig("wait", "--timeout", "0")
    assert (nothing.code, nothing.out) == (1, "rig-bridge: wait arrived=0\n")
    assert mac.rig("wait", "--timeout", "soon").code == 1
    assert (
        windows.rig("wait", "--thread", "demo-01", "--for", "REQUEST", "--json")
        .ok()
        .json["envelopes"]
    )
    assert windows.rig("wait", "--for", "RESULT", "--timeout", "0").code == 1


def test_an_answer_after_the_end_is_delivered_also_to_a_clone_that_never_looked_at_a_thread(
    mac: Clone, windows: Clone
) -> None:
    mac.rig("close", "demo-01", "--status", "completed").ok()
    windows.rig("send", "RESULT", *SEND, "mac-m5max", "--tldr", "late").ok()

    assert "for this rig: 0 questions, 1 answer" in mac.rig("sync", "--auto").ok().err
    assert (
        "file=RESULT.md verification=unverified state=delivered"
        in mac.rig("inbox").ok().out
    )


def test_a_new_clone_is_not_told_of_what_was_over_before_it_came_not_even_after_it_looked_at_something(
    bridge: Bridge, windows: Clone
) -> None:
    windows.rig("new", "demo-02").ok()
    for thread in ("demo-01", "demo-02"):
        windows.rig("send", "RESULT", "--thread", thread, "--to", "mac-m5max").ok()
        windows.rig("close", thread, "--status", "completed").ok()
    later = bridge.clone("c", "mac-m5max")
    assert header(later) == "rig-bridge: inbox waiting=2"  # that they ended
    later.rig("thread", "demo-01").ok()
    assert [
        one["filename"] for one in later.rig("inbox", "--json").ok().json["envelopes"]
    ] == ["RESOLUTION.md"]


def test_an_answer_is_delivered_also_if_the_thread_ended_before_anybody_looked(
    mac: Clone, windows: Clone
) -> None:
    assert header(mac) == "rig-bridge: inbox waiting=0"
    windows.rig("send", "RESULT", *SEND, "mac-m5max").ok()
    windows.rig("close", "demo-01", "--status", "completed").ok()
    mac.rig("sync", "--auto").ok()
    found = mac.rig("inbox", "--json").ok().json["envelopes"]
    assert [one["filename"] for one in found] == ["RESOLUTION.md", "RESULT.md"]


def test_wait_wakes_up_on_arrival(mac: Clone, windows: Clone) -> None:
    with mac.start(
        "wait", "--thread", "demo-01", "--for", "RESPONSE,RESULT", "--timeout", "10m"
    ) as waiting:
        windows.rig("send", "ACK", *SEND, "mac-m5max").ok()
        windows.rig("send", "RESULT", *SEND, "mac-m5max").ok()
        out, _ = waiting.communicate()
    assert waiting.returncode == 0
    assert "type=RESULT from=windows-5080" in out and "ACK" not in out


def test_watch_runs_a_command_with_the_envelope_fenced_once(
    mac: Clone, windows: Clone, tmp_path: Path
) -> None:
    got = tmp_path / "got"
    script = tmp_path / "agent"
    script.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\ncat > {got}\necho said; exit 3\n"
    )
    script.chmod(0o755)
    with windows.start("watch", "--exec", str(script), "--interval", "5") as watching:
        try:
            assert watching.stdout is not None
            events = [json.loads(watching.stdout.readline()) for _ in range(2)]
            mac.rig("send", "VERIFY", *SEND, "windows-5080").ok()
            while [event["event"] for event in events].count("ran") < 2:
                events.append(json.loads(watching.stdout.readline()))
        finally:
            watching.terminate()
    assert [event["seq"] for event in events] == list(
        range(1, len(events) + 1)
    ) and all(map(itemgetter("at"), events))
    ran = [event for event in events if event["event"] == "ran"]
    assert [(one["filename"], one["exit_code"]) for one in ran] == [
        ("REQUEST.md", 3),
        ("VERIFY.md", 3),
    ]
    assert (
        "begin foreign text" in got.read_text()
        and "origin: rig mac-m5max" in got.read_text()
    )
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_command_that_takes_too_long_is_ended(mac: Clone, windows: Clone) -> None:
    with windows.start(
        "watch", "--exec", "sleep 1000", "--timeout", "1s", "--interval", "5"
    ) as watching:
        try:
            assert watching.stdout is not None
            events = [json.loads(watching.stdout.readline()) for _ in range(2)]
        finally:
            watching.terminate()
    assert (events[1]["event"], events[1]["ended"]) == ("ran", "timeout")


@needs_reference
def test_an_answer_of_the_reference_discharges(bridge: Bridge, mac: Clone) -> None:
    mac.rig("send", "REQUEST", *SEND, "linux-peer").ok()
    peer = bridge.clone("p", "linux-peer", by_reference=True)
    peer.reference("send", "RESPONSE", *SEND, "mac-m5max").ok()
    mac.rig("sync", "--auto").ok()
    assert (
        "file=RESPONSE.md verification=unverified state=delivered"
        in mac.rig("inbox").ok().out
    )
    assert "others owe" not in mac.rig("inbox").err
