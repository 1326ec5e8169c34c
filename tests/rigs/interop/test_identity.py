"""Who said it: keys that belong to somebody, a membership that is signed and dated, beside the npm reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.rigs.envelope.body_hash import body_hash
from support.git_copies import Kept
from support.rig_bridges import (
    Bridge,
    Clone,
    make_bridge,
    needs_reference,
    needs_ssh_keygen,
    with_signing_key,
)

pytestmark = [
    needs_ssh_keygen,
    pytest.mark.xdist_group("identity"),
]  # the members are made once
SEND = ("--thread", "demo-01", "--to")


def states(clone: Clone, thread: str = "demo-01") -> dict[str, str]:
    shown = clone.rig("thread", thread, "--json").ok().json["envelopes"]
    return {one["filename"]: one["verification"]["state"] for one in shown}


def signed(bridge: Bridge, name: str, rig_id: str) -> Clone:
    made = bridge.clone(name)
    made.rig("init", "--rig-id", rig_id, "--sign").ok()
    return made


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A human who has founded the membership; a rig that asked, was let in, and has asked another rig, signed."""
    bridge = make_bridge(tmp_path_factory.mktemp("members"))
    mike = signed(bridge, "m", "mike-relay")
    mike.rig("member", "add").ok()
    made = signed(bridge, "a", "mac-m5max")
    asked = made.rig("member", "add").ok()
    assert "a member admits it: rig-bridge member add mac-m5max" in asked.err
    told = mike.rig("sync", "--auto").ok().err
    assert (
        "a key that is not a member's asks to join; rig-bridge member list shows it"
        in told
    )
    assert "asks rig=mac-m5max key=SHA256:" in mike.rig("member", "list").ok().out
    mike.rig("member", "add", "mac-m5max").ok()
    made.rig("sync", "--auto").ok()
    made.rig("new", "demo-01").ok()
    made.rig("send", "REQUEST", *SEND, "windows-5080").ok()
    return Kept(bridge.base)


@pytest.fixture
def bridge(request: pytest.FixtureRequest, bridge: Bridge) -> Bridge:
    """The bridge with its members where a test is about them, else an empty one."""
    if "mac" in request.fixturenames:
        return Bridge(request.getfixturevalue("members").restored())
    return bridge


@pytest.fixture
def mike(bridge: Bridge) -> Clone:
    return Clone(bridge.base / "m", bridge.base / "home")


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    return Clone(bridge.base / "a", bridge.base / "home")


def test_a_human_under_the_relay_name_of_another_is_quarantined(bridge: Bridge) -> None:
    mac = bridge.clone("a", "mac-m5max")
    (mac.path / "demo-01").mkdir()
    asked = (
        mac.rig("send", "REQUEST", *SEND, "mike-relay", "--json").ok().json["body_hash"]
    )
    alice = bridge.clone("b", "mike-relay")
    hers = with_signing_key(alice, bridge.base, "alice@example.com")
    alice.rig("relay", "DECISIONS", "--thread", "demo-01", "--in-reply-to", asked).ok()
    mac.rig("trust", "add", "alice@example.com", str(hers)).ok()

    done = mac.rig("sync", "--auto").ok()

    assert (
        "quarantined: identity_mismatch" in done.err and "new_envelopes=0" in done.out
    )


def test_init_sign_makes_a_key_that_git_signs_with(bridge: Bridge) -> None:
    made = bridge.clone("a")
    done = made.rig("init", "--rig-id", "mac-m5max", "--sign", "--json").ok().json
    assert done["signing_key"].startswith("SHA256:")
    private = Path(made.git("config", "user.signingkey").removesuffix(".pub"))
    assert private.stat().st_mode & 0o077 == 0 and private.is_relative_to(
        made.path / ".git"
    )
    (made.path / "demo-01").mkdir()
    made.rig("send", "STATE", *SEND, "windows-5080").ok()
    assert "gpgsig" in made.git("cat-file", "commit", "HEAD")
    assert made.git("status", "--porcelain") == ""

    named = bridge.clone("b")
    named.rig(
        "init", "--rig-id", "windows-5080", "--signing-key", f"{private}.pub"
    ).ok()
    assert (
        named.rig("init", "--rig-id", "x", "--force", "--signing-key", "nothing").code
        == 1
    )


def test_a_new_identity_keeps_the_other_settings_if_they_are_our_own_and_can_be_used(
    bridge: Bridge,
) -> None:
    made = bridge.clone("n", "linux-a")
    config = made.path / ".bridge/config.yaml"
    config.write_text(
        "rig_id: linux-a\ndisplay_name: Ann\nbranch: bridge\nrequire_signed: all\ntheirs: 3\n"
    )
    again = ("init", "--rig-id", "linux-b", "--force")

    made.rig(*again).ok()
    assert (
        config.read_text()
        == "rig_id: linux-b\nbranch: bridge\nrequire_signed: all\ntheirs: 3\n"
    )

    config.write_text("rig_id: linux-a\nbranch: bridge\nrequire_signed: sometimes\n")
    made.rig(*again).ok()
    assert config.read_text() == "rig_id: linux-b\n"

    config.write_text("rig_id: linux-a\nallowed_signers: from-others\n")
    made.git("add", "--force", ".bridge/config.yaml")
    made.rig(*again).ok()
    assert config.read_text() == "rig_id: linux-b\n"


@needs_ssh_keygen
def test_whoever_has_no_key_is_told_the_command_that_makes_one(bridge: Bridge) -> None:
    made = bridge.clone("n", "linux-a")

    told = made.rig("member", "add").err

    made.rig(
        *told.partition("hint: rig-bridge ")[2].partition(" creates")[0].split()
    ).ok()
    made.rig("member", "add").ok()


def test_a_member_signs_and_whoever_does_not_is_not_that_member(
    bridge: Bridge, mac: Clone
) -> None:
    eve = bridge.clone("e", "mac-m5max")
    eve.rig("send", "VERIFY", *SEND, "windows-5080").ok()
    windows = bridge.clone("w", "windows-5080")

    assert windows.rig("verify").code == 1
    assert (
        "path=demo-01/VERIFY.md state=held kinds=signature_missing"
        in windows.rig("quarantine", "list").out
    )
    waiting = windows.rig("inbox", "--json").ok().json["envelopes"]
    assert [(one["filename"], one["verification"]["state"]) for one in waiting] == [
        ("REQUEST.md", "verified")
    ]


def test_an_unsigned_answer_in_a_members_name_discharges_nothing(
    bridge: Bridge, mac: Clone
) -> None:
    asked_at = mac.git("rev-parse", "HEAD")
    windows = bridge.clone("w", "windows-5080")
    windows.rig("send", "REQUEST", *SEND, "mac-m5max").ok()
    eve = bridge.clone("e", "mac-m5max")
    eve.rig(
        "send",
        "RESPONSE",
        *SEND,
        "windows-5080",
        "--ref",
        windows.git("rev-parse", "HEAD"),
    ).ok()

    for policy in ("members", "relay", "none"):
        mac.git("reset", "-q", "--hard", asked_at)
        (mac.path / ".bridge" / "config.yaml").write_text(
            f"rig_id: mac-m5max\nrequire_signed: {policy}\n"
        )
        mac.rig("sync", "--auto").ok()
        names = [
            one["filename"] for one in mac.rig("inbox", "--json").ok().json["envelopes"]
        ]
        assert names == ["REQUEST-2.md"], policy


def test_an_observer_asks_and_owes_nothing(
    bridge: Bridge, mac: Clone, mike: Clone
) -> None:
    eye = signed(bridge, "o", "eye")
    key = str(eye.path / ".git" / "bridgehead" / "keys" / "eye-1.pub")
    mike.rig("sync", "--auto").ok()
    mike.rig("member", "add", "eye", key, "--role", "observer").ok()
    eye.rig("sync", "--auto").ok()
    eye.rig("send", "REQUEST", *SEND, "mac-m5max").ok()
    mac.rig("sync", "--auto").ok()
    mac.rig("send", "REQUEST", *SEND, "eye").ok()
    eye.rig("sync", "--auto").ok()
    for clone in (mac, eye):
        assert clone.rig("inbox").ok().out == "rig-bridge: inbox waiting=0\n"


def test_a_rig_without_a_key_goes_on_unsigned(bridge: Bridge, mac: Clone) -> None:
    windows = bridge.clone("w", "windows-5080")
    windows.rig("send", "RESPONSE", *SEND, "mac-m5max").ok()
    assert "new_envelopes=1 diverged=false\n" in mac.rig("sync", "--auto").ok().out
    assert states(mac) == {"REQUEST.md": "verified", "RESPONSE.md": "unverified"}


def test_a_rotated_key_leaves_old_turns_verified_and_signs_no_new_ones(
    bridge: Bridge, mac: Clone
) -> None:
    old = mac.git("config", "user.signingkey")
    mac.rig("member", "rotate").ok()
    assert mac.git("config", "user.signingkey") != old
    mac.rig("send", "STATE", *SEND, "windows-5080").ok()
    mac.git("config", "user.signingkey", old)
    mac.rig("send", "STATE", *SEND, "windows-5080").ok()
    windows = bridge.clone("w", "windows-5080")

    assert windows.rig("verify").code == 1
    assert (
        "path=demo-01/STATE-2.md state=held kinds=key_retired"
        in windows.rig("quarantine", "list").out
    )
    assert states(windows) == {"REQUEST.md": "verified", "STATE.md": "verified"}


def test_what_a_compromised_key_signed_since_is_not_believed(
    bridge: Bridge, mac: Clone, mike: Clone
) -> None:
    when = {
        "GIT_AUTHOR_DATE": "@4000000000 +0000",
        "GIT_COMMITTER_DATE": "@4000000000 +0000",
    }
    mac.rig("send", "STATE", *SEND, "windows-5080", **when).ok()
    mike.rig("sync", "--auto").ok()
    mike.rig("member", "remove", "mac-m5max", "--since", "2090-01-01").ok()
    windows = bridge.clone("w", "windows-5080")
    assert windows.rig("verify").code == 1
    assert (
        "path=demo-01/STATE.md state=held kinds=key_retired"
        in windows.rig("quarantine", "list").out
    )
    assert states(windows) == {"REQUEST.md": "verified"}


def test_a_stolen_key_does_not_dodge_its_retirement_by_a_side_branch(
    bridge: Bridge, mac: Clone
) -> None:
    windows = bridge.clone("w", "windows-5080")
    old = mac.git("config", "user.signingkey")
    mac.rig("member", "rotate").ok()
    windows.rig("sync", "--auto").ok()
    eve = bridge.clone("e")
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", old)):
        eve.git("config", name, value)
    eve.git("checkout", "-q", "-b", "before", "HEAD~1")
    said = "evil words\n"
    (eve.path / "demo-01" / "EVIL.md").write_text(
        "---\nfrom: mac-m5max\nto: windows-5080\ndate: 2026-05-16\nstatus: ▶ s\ntype: VERIFY\nthread: demo-01\n"
        f"body_hash: {body_hash(said)}\n---\n{said}"
    )
    eve.git("add", ".")
    eve.git("commit", "-q", "-S", "-m", "evil")
    for first, second in (("main", "before"), ("before", "main")):
        eve.git("checkout", "-q", first)
        eve.git("merge", "-q", "--no-ff", "-m", "merge", second)
    eve.git("push", "-q", "origin", "before:main")

    done = windows.rig("sync", "--auto").ok()
    assert "! demo-01/EVIL.md (quarantined: key_retired)" in done.err
    fresh = bridge.clone("f", "windows-5080")
    for clone in (windows, fresh):
        assert "EVIL" not in clone.rig("inbox").ok().out
        assert "evil words" not in clone.rig("thread", "demo-01").ok().out


def test_a_rig_that_was_removed_is_told_that_nobody_hears_it(
    mac: Clone, mike: Clone
) -> None:
    heard = mac.rig("send", "STATE", *SEND, "windows-5080").ok()
    mike.rig("sync", "--auto").ok()
    mike.rig("member", "remove", "mac-m5max").ok()

    unheard = mac.rig("send", "RESULT", *SEND, "windows-5080").ok()

    assert "warning" not in heard.err
    assert "other rigs quarantine this" in unheard.err
    assert "rig-bridge member add mac-m5max <its .pub file>" in unheard.err
    assert (
        "! demo-01/RESULT.md (quarantined: key_retired)"
        in mike.rig("sync", "--auto").ok().err
    )


def test_only_members_let_others_in(bridge: Bridge, mac: Clone, mike: Clone) -> None:
    eve = signed(bridge, "e", "eve")
    refused = eve.rig(
        "member",
        "add",
        "mallory-relay",
        str(eve.path / ".git/bridgehead/keys/eve-1.pub"),
    )
    assert refused.code == 1 and "nothing was written" in refused.err
    refused = mac.rig(
        "member", "add", "eve", str(eve.path / ".git/bridgehead/keys/eve-1.pub")
    )
    assert refused.code == 1 and "a human member decides" in refused.err
    body = '[{"act":"leave","rig":"mike-relay"}]'
    (eve.path / "bridge-members" / "EVIL.md").write_text(
        "---\nfrom: mike-relay\nto: eve\ndate: 2026-05-16\nstatus: ▶ s\ntype: STATE\nthread: bridge-members\n"
        f"---\n```json bridgehead-membership\n{body}\n```\n"
    )
    eve.git("add", ".")
    eve.git("commit", "-q", "-m", "evil")
    eve.git("push", "-q")

    done = mac.rig("sync", "--auto").ok()

    assert (
        "! bridge-members/EVIL.md (quarantined: body_hash_absent, membership_refused)"
        in done.err
    )
    listed = mac.rig("member", "list", "--json").ok().json
    assert [one["rig_id"] for one in listed["members"]] == ["mac-m5max", "mike-relay"]
    assert listed["founder"] == "mike-relay"


def test_nobody_writes_into_the_members_thread_by_hand(mac: Clone) -> None:
    for command in (
        ("new", "bridge-members"),
        ("send", "STATE", "--thread", "bridge-members", "--to", "x"),
        ("close", "bridge-members", "--status", "completed"),
    ):
        refused = mac.rig(*command)
        assert refused.code == 1 and "is reserved" in refused.err, command


def test_a_relay_by_a_member_is_verified_and_its_freeze_is_bounded(
    bridge: Bridge, mac: Clone, mike: Clone
) -> None:
    mike.rig("sync", "--auto").ok()
    mike.rig("member", "add", "mike-relay", "--freeze-minutes", "5").ok()
    asked = mike.rig("thread", "demo-01", "--json").json["envelopes"][0]["frontmatter"][
        "body_hash"
    ]
    until = (
        mike.rig("relay", "--begin", "--thread", "demo-01", "--json")
        .ok()
        .json["expires"]
    )
    refused = mac.rig("send", "STATE", *SEND, "windows-5080")
    assert refused.code == 1 and until in refused.err and "despite" not in refused.err
    eve = bridge.clone("e", "mike-relay")
    eve.git("fetch", "-q", "origin", "refs/bridge/frozen/*:refs/bridge/frozen/*")
    refused = eve.rig("relay", "--abort", "--thread", "demo-01")
    assert refused.code == 1 and "does not let mike-relay freeze or thaw" in refused.err
    (eve.path / "other-01").mkdir()
    eve.git(
        "push", "-q", "origin", "refs/bridge/frozen/demo-01:refs/bridge/frozen/other-01"
    )
    (mac.path / "other-01").mkdir()
    replayed = mac.rig(
        "send", "STATE", "--thread", "other-01", "--to", "windows-5080"
    ).ok()
    assert "the freeze of other-01 in the name of mike-relay is ignored" in replayed.err
    mike.rig("sync", "--auto").ok()
    mike.rig("relay", "DECISIONS", "--thread", "demo-01", "--in-reply-to", asked).ok()
    mac.rig("sync", "--auto").ok()
    assert set(states(mac).values()) == {"verified"}
    mac.rig("send", "STATE", *SEND, "windows-5080").ok()


def test_a_freeze_nobody_may_ask_for_does_not_hold(bridge: Bridge, mac: Clone) -> None:
    eve = bridge.clone("e", "mike-relay")
    note = {
        "rig": "mike-relay",
        "since": "2026-01-01T00:00:00.000Z",
        "expires": "2090-01-01T00:00:00.000Z",
    }
    blob = (
        eve.run("git", "hash-object", "-w", "--stdin", stdin=json.dumps(note))
        .ok()
        .out.strip()
    )
    eve.git("push", "-q", "origin", f"{blob}:refs/bridge/frozen/demo-01")

    done = mac.rig("send", "STATE", *SEND, "windows-5080").ok()

    assert "is ignored: it is not signed" in done.err
    refused = eve.rig("relay", "--begin", "--thread", "demo-01")
    assert refused.code == 1 and "does not let mike-relay freeze" in refused.err


@needs_reference
def test_the_reference_works_beside_the_membership(bridge: Bridge, mac: Clone) -> None:
    peer = bridge.clone("p", "linux-peer", by_reference=True)
    assert "thread=bridge-members" in peer.reference("status").ok().out
    peer.reference("send", "RESPONSE", *SEND, "mac-m5max").ok()
    assert "new_envelopes=1 diverged=false\n" in mac.rig("sync", "--auto").ok().out
    mac.rig("member", "rotate").ok()
    mac.rig("send", "STATE", *SEND, "linux-peer").ok()
    assert "pulled=true" in peer.reference("sync", "--auto").ok().out
    assert mac.rig("verify").ok().out.endswith("failed=0\n")


@needs_reference
def test_a_relay_written_by_the_reference_is_verified_by_its_signature(
    bridge: Bridge,
) -> None:
    mac = bridge.clone("a", "mac-m5max")
    (mac.path / "demo-01").mkdir()
    asked = (
        mac.rig("send", "REQUEST", *SEND, "mike-relay", "--json").ok().json["body_hash"]
    )
    relay = bridge.clone("c", "mike-relay", by_reference=True)
    key = with_signing_key(relay, bridge.base)
    mac.rig("trust", "add", "mike@example.com", str(key)).ok()
    relay.reference("relay", "ACK", "--thread", "demo-01", "--in-reply-to", asked).ok()

    mac.rig("sync", "--auto").ok()

    assert [
        state for name, state in states(mac).items() if name.startswith("RELAY-")
    ] == ["verified"]
