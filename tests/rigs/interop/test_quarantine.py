"""One gate for everything that arrives, and the lane beside it for what does not verify (rigs §9.3, §9.4)."""

from __future__ import annotations

import json

import pytest

from bridgehead.rigs.envelope.body_hash import body_hash
from support.rig_bridges import (
    Bridge,
    Clone,
    needs_reference,
    needs_ssh_keygen,
    with_signing_key,
)

SEND = ("--thread", "demo-01", "--to")


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    made = bridge.clone("a", "mac-m5max")
    made.rig("new", "demo-01").ok()
    made.rig("send", "REQUEST", *SEND, "windows-5080").ok()
    return made


@pytest.fixture
def windows(bridge: Bridge, mac: Clone) -> Clone:
    return bridge.clone("b", "windows-5080")


def envelope(
    kind: str,
    *,
    thread: str = "demo-01",
    sender: str = "windows-5080",
    said: str = "evil words",
) -> str:
    return (
        f"---\nfrom: {sender}\nto: mac-m5max\ndate: 2026-05-16\nstatus: ▶ s\ntype: {kind}\n"
        f"thread: {thread}\nbody_hash: {body_hash(said + chr(10))}\n---\n{said}\n"
    )


def pushed(clone: Clone, files: dict[str, str]) -> None:
    """Commit and push by hand, as somebody without our tool would."""
    for path, text in files.items():
        (clone.path / path).parent.mkdir(exist_ok=True)
        (clone.path / path).write_text(text)
        clone.git("add", "--", path)
    clone.git("commit", "-q", "-m", "by hand")
    clone.git("push", "-q")


BAD = {"demo-01/VERIFY.md": envelope("VERIFY", thread="other-01")}


def test_a_bad_envelope_does_not_stop_the_good_ones_behind_it(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, BAD)
    pushed(windows, {"demo-01/VERIFY-2.md": envelope("VERIFY", said="please look")})

    done = mac.rig("sync", "--auto").ok()

    assert done.out == (
        "rig-bridge: sync pulled=true fast_forward=true new_envelopes=1 diverged=false quarantined=1\n"
    )
    assert "! demo-01/VERIFY.md (quarantined: thread_mismatch)" in done.err
    assert [
        found["filename"] for found in mac.rig("inbox", "--json").json["envelopes"]
    ] == ["VERIFY-2.md"]
    for shown in (mac.rig("thread", "demo-01"), mac.rig("inbox", "--prompt")):
        assert (
            "please look" in shown.ok().out
            and "evil words" not in shown.out + shown.err
        )
    assert "envelopes=2" in mac.rig("status", "--wide").out


def test_quarantine_list_and_show_name_it_and_verify_does_not_fail_for_ever(
    mac: Clone, windows: Clone
) -> None:
    assert mac.rig("quarantine", "list").ok().out == "rig-bridge: quarantine held=0\n"
    pushed(windows, BAD)
    mac.rig("sync", "--auto").ok()

    assert (
        "path=demo-01/VERIFY.md state=held kinds=thread_mismatch"
        in mac.rig("quarantine", "list").ok().out
    )
    [entry] = mac.rig("quarantine", "list", "--json").ok().json["envelopes"]
    assert (entry["path"], entry["kinds"]) == ("demo-01/VERIFY.md", ["thread_mismatch"])
    shown = mac.rig("quarantine", "show", "demo-01/VERIFY.md").ok()
    assert (
        f"quarantine: lift demo-01/VERIFY.md {entry['blob']}" in shown.out
        and "evil" not in shown.out
    )
    assert "thread_mismatch: it names another thread" in shown.err
    assert mac.rig("quarantine", "show", "demo-01/NO.md").code == 1
    assert mac.rig("quarantine").code == 1
    assert "rig-bridge quarantine list" in mac.rig("quarantine", "--help").ok().out
    verified = mac.rig("verify").ok()
    assert (
        verified.out
        == "rig-bridge: verify checked=2 ok=1 warned=1 failed=0 quarantined=1\n"
    )
    assert "! demo-01/VERIFY.md (quarantined: thread_mismatch)" in verified.err


def test_a_fresh_clone_shows_no_bad_question_and_verify_puts_it_apart(
    bridge: Bridge, windows: Clone
) -> None:
    pushed(windows, BAD)
    fresh = bridge.clone("c", "mac-m5max")
    assert fresh.rig("inbox").ok().out == "rig-bridge: inbox waiting=0\n"
    assert "evil words" not in fresh.rig("thread", "demo-01").ok().out
    assert fresh.rig("verify").code == 1
    assert fresh.rig("verify").ok().out.endswith("failed=0 quarantined=1\n")
    assert "evil words" not in fresh.rig("thread", "demo-01").ok().out


def test_a_resolution_in_quarantine_closes_nothing(mac: Clone, windows: Clone) -> None:
    pushed(
        windows, {"demo-01/RESOLUTION.md": envelope("RESOLUTION", thread="other-01")}
    )
    mac.rig("sync", "--auto").ok()
    assert "open=1 closed=0" in mac.rig("status").ok().out


def test_accepting_it_takes_it_in_still_named(mac: Clone, windows: Clone) -> None:
    pushed(windows, BAD)
    done = mac.rig("sync", "--auto", "--accept-unverified").ok()
    assert "new_envelopes=1 diverged=false\n" in done.out
    assert "demo-01/VERIFY.md: thread_mismatch" in done.err
    assert "waiting=1" in mac.rig("inbox").ok().out
    assert "state=accepted" in mac.rig("quarantine", "list").ok().out
    mac.rig("verify").ok()


def test_the_pull_inside_send_says_what_came_and_leaves_the_question_waiting(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, {"demo-01/VERIFY.md": envelope("VERIFY", said="please look")})

    done = mac.rig("send", "RESPONSE", *SEND, "windows-5080").ok()

    assert "+ demo-01/VERIFY.md" in done.err
    waiting = mac.rig("inbox", "--json").json["envelopes"]
    assert [found["filename"] for found in waiting] == ["VERIFY.md"]


def test_the_pull_inside_send_is_the_same_gate_as_sync(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, BAD)

    done = mac.rig("send", "STATE", *SEND, "windows-5080").ok()

    assert "! demo-01/VERIFY.md (quarantined: thread_mismatch)" in done.err
    assert mac.rig("inbox").ok().out == "rig-bridge: inbox waiting=0\n"
    assert "state=held" in mac.rig("quarantine", "list").out
    assert "evil words" not in mac.rig("thread", "demo-01").out


@pytest.mark.parametrize(
    "command",
    [
        ("send", "STATE", *SEND, "windows-5080"),
        ("close", "demo-01", "--status", "completed"),
    ],
)
def test_a_changed_envelope_stops_every_pull(
    mac: Clone, windows: Clone, command: tuple[str, ...]
) -> None:
    request = windows.path / "demo-01" / "REQUEST.md"
    pushed(windows, {"demo-01/REQUEST.md": request.read_text() + "more\n"})

    pull = mac.rig("sync", "--auto", "--accept-unverified").ok()
    assert "reason=non_append_change_on_remote" in pull.out
    assert (
        f"git diff HEAD...{windows.git('rev-parse', 'HEAD')[:7]} shows what was changed"
        in pull.err
    )
    assert "quarantined" not in mac.rig("sync", "--auto").ok().err, (
        "nothing was moved, so nothing was put apart"
    )
    refused = mac.rig(*command)

    assert refused.code == 1 and "commit landed locally but push failed." in refused.err
    assert "! demo-01/REQUEST.md (modified in place" in refused.err
    assert "more" not in (mac.path / "demo-01" / "REQUEST.md").read_text()


def test_an_envelope_added_and_deleted_again_stops_the_pull(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, {"demo-01/STATE.md": envelope("STATE")})
    windows.git("rm", "-q", "demo-01/STATE.md")
    windows.git("commit", "-q", "-m", "gone")
    pushed(windows, {"demo-01/STATE-2.md": envelope("STATE")})
    done = mac.rig("sync", "--auto").ok()
    assert "reason=non_append_change_on_remote" in done.out
    assert "! demo-01/STATE.md (file deleted on remote)" in done.err


def test_a_readme_is_taken_with_the_flag_although_something_here_is_unpushed(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, {"README.md": "# hello\n"})

    refused = mac.rig("send", "STATE", *SEND, "windows-5080")
    assert (
        refused.code == 1
        and "rig-bridge sync --auto --accept-non-envelope" in refused.err
    )

    (mac.path / "README.md").write_text("mine\n")
    blocked = mac.rig("sync", "--auto", "--accept-non-envelope")
    assert blocked.code == 1 and "overwritten by the pull: README.md" in blocked.err
    (mac.path / "README.md").unlink()

    done = mac.rig("sync", "--auto", "--accept-non-envelope").ok()
    assert "pulled=true" in done.out and (mac.path / "README.md").exists()
    mac.git("push", "-q")
    assert mac.envelopes() == ["README.md", "demo-01/REQUEST.md", "demo-01/STATE.md"]
    assert (
        windows.rig("sync", "--auto")
        .ok()
        .out.startswith("rig-bridge: sync pulled=true")
    )


def test_watching_tells_of_a_refusal_once(mac: Clone, windows: Clone) -> None:
    pushed(windows, {"README.md": "# hello\n"})
    with mac.start("watch", "--auto", "--interval", "5") as watching:
        try:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            assert (first["event"], first["reason"]) == (
                "snapshot",
                "non_append_change_on_remote",
            )
            pushed(windows, {"README-2.md": "# hello again\n"})
            second = json.loads(watching.stdout.readline())
            assert (second["event"], second["reason"]) == (
                "refused",
                "non_append_change_on_remote",
            )
        finally:
            watching.terminate()


@needs_ssh_keygen
@pytest.mark.parametrize(
    ("word", "state", "waiting"),
    [("lift", "lifted", True), ("confirm", "confirmed", False)],
)
def test_a_signed_verdict_of_a_trusted_human_decides(
    bridge: Bridge, mac: Clone, windows: Clone, word: str, state: str, waiting: bool
) -> None:
    pushed(windows, BAD)
    mac.rig("sync", "--auto").ok()
    shown = mac.rig("quarantine", "show", "demo-01/VERIFY.md", "--json").ok().json
    relay = bridge.clone("r", "mike-relay")
    key = with_signing_key(relay, bridge.base)
    asked = relay.rig("thread", "demo-01", "--json").json["envelopes"][0][
        "frontmatter"
    ]["body_hash"]
    arguments = (
        "relay",
        "DECISIONS",
        "--thread",
        "demo-01",
        "--in-reply-to",
        asked,
        "--body-file",
        "-",
    )
    relay.rig(*arguments, stdin=f"I looked.\n{shown['verdict_lines'][word]}\n").ok()

    mac.rig("sync", "--auto").ok()
    assert (
        "state=held" in mac.rig("quarantine", "list").out
    )  # nobody here trusts that key yet
    mac.rig("trust", "add", "mike@example.com", str(key)).ok()
    mac.rig("verify").ok()

    assert f"state={state}" in mac.rig("quarantine", "list").out
    assert ("file=VERIFY.md" in mac.rig("inbox").out) is waiting
    advice = mac.rig("quarantine", "show", "demo-01/VERIFY.md").ok().out
    assert ("to accept it" in advice, "to exclude it" in advice) == (
        not waiting,
        waiting,
    )


@needs_ssh_keygen
def test_a_verdict_holds_in_the_clone_it_comes_from_if_that_trusts_the_key(
    bridge: Bridge, mac: Clone, windows: Clone
) -> None:
    relay = bridge.clone("r", "mike-relay")
    key = with_signing_key(relay, bridge.base)
    pushed(
        windows, {**BAD, "demo-01/VERIFY-2.md": envelope("VERIFY", thread="other-01")}
    )
    relay.rig("sync", "--auto").ok()
    asked = relay.rig("thread", "demo-01", "--json").json["envelopes"][0][
        "frontmatter"
    ]["body_hash"]
    arguments = (
        "relay",
        "DECISIONS",
        "--thread",
        "demo-01",
        "--in-reply-to",
        asked,
        "--body-file",
        "-",
    )

    def decide(filename: str) -> str:
        lines = relay.rig("quarantine", "show", f"demo-01/{filename}", "--json").json[
            "verdict_lines"
        ]
        return relay.rig(*arguments, stdin=f"{lines['lift']}\n").ok().err

    assert "lifts the quarantine of demo-01/VERIFY.md, but not in this clone" in decide(
        "VERIFY.md"
    )
    assert "state=lifted" not in relay.rig("quarantine", "list").out
    relay.rig("trust", "add", "mike@example.com", str(key)).ok()

    said = decide("VERIFY-2.md")

    assert (
        "lifts the quarantine of demo-01/VERIFY-2.md\n" in said
        and "thread_mismatch" not in said
    )
    assert (
        "path=demo-01/VERIFY-2.md state=lifted" in relay.rig("quarantine", "list").out
    )


def test_what_nothing_speaks_against_any_more_leaves_the_quarantine_with_the_next_verify(
    mac: Clone, windows: Clone
) -> None:
    pushed(
        windows, BAD | {"demo-01/VERIFY-2.md": envelope("VERIFY", said="please look")}
    )
    config = mac.path / ".bridge/config.yaml"
    usual = config.read_text()
    config.write_text(f"{usual}require_signed: all\n")
    mac.rig("sync", "--auto").ok()
    assert "held=2" in mac.rig("quarantine", "list").out

    config.write_text(usual)
    verified = mac.rig("verify").ok()

    assert "quarantined=1" in verified.out and "(quarantined: )" not in verified.err
    assert mac.rig("quarantine", "list").out.count("path=") == 1
    assert "file=VERIFY-2.md" in mac.rig("inbox").out


def test_a_configuration_that_cannot_be_used_is_named_by_commands_that_do_without(
    mac: Clone,
) -> None:
    config = mac.path / ".bridge/config.yaml"
    config.write_text(f"{config.read_text()}require_signed: sometimes\n")

    assert (
        "warning: .bridge/config.yaml: require_signed must be one of"
        in mac.rig("verify").ok().err
    )


def test_what_is_not_shown_is_not_said_to_be_in_a_quarantine_that_does_not_list_it(
    mac: Clone, windows: Clone
) -> None:
    pushed(windows, BAD)
    mac.git("pull", "-q")

    assert (
        "! demo-01/VERIFY.md (thread_mismatch); not shown"
        in mac.rig("thread", "demo-01").ok().err
    )
    assert mac.rig("quarantine", "list").out == "rig-bridge: quarantine held=0\n"


@needs_reference
def test_the_reference_works_on_beside_an_envelope_in_quarantine(
    bridge: Bridge, mac: Clone, windows: Clone
) -> None:
    pushed(windows, BAD)
    mac.rig("sync", "--auto").ok()
    peer = bridge.clone("p", "linux-peer", by_reference=True)
    peer.reference("send", "STATE", *SEND, "mac-m5max").ok()
    assert "new_envelopes=1" in mac.rig("sync", "--auto").ok().out
    mac.rig("send", "STATE", *SEND, "linux-peer").ok()
    peer.reference("sync", "--auto").ok()
    assert "demo-01/STATE-2.md" in peer.envelopes()
