"""`sync` where there is nothing to pull, and where envelopes lie deeper than they should (rigs §9)."""

from __future__ import annotations

import pytest

from support.rig_bridges import Bridge, Clone

ENVELOPE = "---\nfrom: win\nto: mac\ndate: 2026-05-15\nstatus: ▶ go\ntype: ACK\nthread: {}\n---\nx\n"


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    return bridge.clone("a", "mac-m5max")


def appended(bridge: Bridge, path: str, text: str, clone: str = "b") -> None:
    """Another clone pushes a file."""
    there = bridge.clone(clone)
    (there.path / path).parent.mkdir(parents=True)
    (there.path / path).write_text(text)
    there.git("add", ".")
    there.git("commit", "-q", "-m", "append")
    there.git("push", "-q")


def test_pulling_nothing_is_told_as_the_reference_tells_it(mac: Clone) -> None:
    before = mac.git("rev-parse", "HEAD")
    done = mac.rig("sync", "--auto").ok()
    assert (
        done.out
        == "rig-bridge: sync pulled=true fast_forward=true new_envelopes=0 diverged=false\n"
    )
    assert mac.git("rev-parse", "HEAD") == before


def test_whatever_counts_as_a_new_envelope_is_verified(
    bridge: Bridge, mac: Clone
) -> None:
    appended(bridge, "demo-01/deeper/ACK.md", ENVELOPE.format("demo-02"))
    pulled = mac.rig("sync", "--auto", "--json").ok().json
    assert (pulled["pulled"], pulled["new_envelopes"]) == (True, 0)
    assert (
        pulled["verification"]["items"]
        == pulled["quarantined"]
        == [
            {
                "path": "demo-01/deeper/ACK.md",
                "kinds": ["body_hash_absent", "thread_mismatch"],
            }
        ]
    )


def test_the_gate_says_a_line_per_check_with_the_remedy_of_those_that_fail(
    mac: Clone,
) -> None:
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


def test_a_remote_that_went_back_is_said_to_have_lost_commits(
    bridge: Bridge, mac: Clone
) -> None:
    opened(mac)
    bridge.clone("b").git("push", "-q", "--force", "origin", "HEAD~1:main")

    told = mac.rig("sync").ok().err

    assert "the remote's history was rewritten: a commit it had is gone" in told
    mac.git("push", "-q", "--force-with-lease")  # the remedy that is named
    assert "rewritten" not in mac.rig("sync").ok().err


@pytest.mark.parametrize("looked", ["before", "never", "by fetching only"])
@pytest.mark.parametrize(
    "command",
    [
        ("send", "STATE", "--thread", "demo-01", "--to", "windows-5080"),
        ("close", "demo-01", "--status", "completed"),
    ],
)
def test_a_remote_that_went_back_is_not_given_back_in_passing_what_it_lost(
    bridge: Bridge, mac: Clone, command: tuple[str, ...], looked: str
) -> None:
    opened(mac)
    mac.rig("send", "ACK", "--thread", "demo-01", "--to", "windows-5080").ok()
    other = bridge.clone("b")
    if looked == "by fetching only":
        appended(bridge, "demo-02/ACK.md", ENVELOPE.format("demo-02"), clone="c")
        mac.rig("sync").ok()
    other.git("push", "-q", "--force", "origin", "HEAD~1:main")
    if looked == "before":
        mac.rig("sync").ok()
    there = other.git("ls-remote", "origin", "main")

    for again in (command, ("push",)):
        refused = mac.rig(*again)
        assert refused.code == 1, refused
        assert (
            "the remote's history was rewritten: a commit it had is gone" in refused.err
        )
        assert other.git("ls-remote", "origin", "main") == there

    mac.git(*refused.err.partition("accept it (git ")[2].partition(")")[0].split())
    assert mac.rig("push").ok().out.startswith("rig-bridge: push turns=1 ")
    assert len(mac.git("ls-tree", "-r", "--name-only", "origin/main").split()) == 2


def test_what_a_killed_push_left_there_is_no_rewritten_history(mac: Clone) -> None:
    opened(mac)
    before = mac.git("rev-parse", "origin/main")
    mac.rig("send", "ACK", "--thread", "demo-01", "--to", "windows-5080").ok()
    mac.git("update-ref", "refs/remotes/origin/main", before)
    mac.rig("send", "STATE", "--thread", "demo-01", "--to", "windows-5080").ok()
    assert mac.git("status", "-sb") == "## main...origin/main"


def test_only_envelopes_count_as_turns_that_were_pushed(
    bridge: Bridge, mac: Clone
) -> None:
    opened(mac)
    mac.rig(
        "send", "STATE", "--thread", "demo-01", "--to", "windows-5080", "--no-push"
    ).ok()
    appended(bridge, "demo-02/ACK.md", ENVELOPE.format("demo-02"))
    mac.git("pull", "-q", "--no-rebase", "--no-edit")
    assert mac.rig("push").ok().out.startswith("rig-bridge: push turns=1 ")


def test_the_remedy_for_a_rewritten_history_keeps_what_was_never_pushed(
    bridge: Bridge, mac: Clone
) -> None:
    opened(mac)
    mac.rig(
        "send", "STATE", "--thread", "demo-01", "--to", "windows-5080", "--no-push"
    ).ok()
    bridge.clone("c").git("push", "-q", "--force", "origin", "HEAD~1:main")
    appended(bridge, "demo-02/ACK.md", ENVELOPE.format("demo-02"))

    told = mac.rig("sync", "--auto").ok().err

    mac.git(*told.partition("accept it (git ")[2].partition(")")[0].split())
    assert mac.rig("push").ok().out.startswith("rig-bridge: push turns=1 ")
    assert sorted(mac.git("ls-tree", "-r", "--name-only", "origin/main").split()) == [
        "demo-01/STATE.md",
        "demo-02/ACK.md",
    ]


def opened(clone: Clone) -> None:
    clone.rig("new", "demo-01").ok()
    clone.rig("send", "REQUEST", "--thread", "demo-01", "--to", "windows-5080").ok()
    clone.rig("sync").ok()


def test_a_sync_that_commits_nothing_does_not_speak_of_a_commit(mac: Clone) -> None:
    mac.git("remote", "set-url", "origin", "http://127.0.0.1:9/x.git")

    failed = mac.rig("sync")

    assert (
        failed.code == 1
        and "cannot be reached now" in failed.err
        and "the commit" not in failed.err
    )


def test_a_lock_that_is_in_the_way_of_a_commit_is_called_a_lock(mac: Clone) -> None:
    opened(mac)
    (mac.path / ".git/index.lock").touch()

    failed = mac.rig("send", "STATE", "--thread", "demo-01", "--to", "windows-5080")

    assert failed.code == 1 and "another git process holds this lock" in failed.err
