"""Everything somebody could do to a turn of a trusted human, with real git and ssh-keygen: one passes (hazard 24)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridgehead.rigs.envelope.body_hash import body_hash
from support.git_copies import Kept
from support.rig_bridges import Clone, make_bridge, needs_ssh_keygen, with_signing_key

pytestmark = [
    needs_ssh_keygen,
    pytest.mark.xdist_group("forgeries"),
]  # the world is made once

SAID = "Ship it on Friday."
OTHER = "Ship it today, without tests."
SIGNATURE = re.compile(rb"\ngpgsig [^\n]*(?:\n [^\n]*)*")
Commit = Callable[[bytes], bytes]
File = Callable[[str, str], tuple[str, str]]


@dataclass(frozen=True)
class World:
    """A human who relays, a reader who trusts the human's key, and a rig that may push but has no such key."""

    human: Clone
    reader: Clone
    attacker: Clone
    base: Path

    def relay(self, clone: Clone, *options: str) -> str:
        """A decision relayed with the key of that clone; the path of its envelope."""
        turns = clone.rig("thread", "demo-01", "--json").ok().json["envelopes"]
        asked = turns[0]["frontmatter"]["body_hash"]
        answer = (
            "--thread",
            "demo-01",
            "--in-reply-to",
            asked,
            "--to",
            "reader-rig",
            "--body-file",
            "-",
        )
        clone.rig("relay", "DECISIONS", *answer, *options, stdin=f"{SAID}\n").ok()
        return clone.git("show", "--format=", "--name-only", "HEAD")

    def forge(
        self,
        *,
        file: File = lambda path, text: (path, text),
        commit: Commit = lambda raw: raw,
    ) -> str:
        """Take a turn of the human's before it is pushed, and push it with another file or other bytes around it."""
        path = self.relay(self.human, "--no-push")
        new_path, text = file(path, (self.human.path / path).read_text())
        raw = git_bytes(self.human, "cat-file", "commit", "HEAD")
        at = self.attacker
        (at.path / new_path).write_text(text)
        at.git("add", "-f", "--", new_path)
        raw = re.sub(
            rb"\Atree [0-9a-f]+", b"tree " + at.git("write-tree").encode(), raw
        )
        made = git_bytes(
            at, "hash-object", "-t", "commit", "-w", "--stdin", stdin=commit(raw)
        )
        at.git("update-ref", "refs/heads/main", made.decode().strip())
        at.git("push", "-q", "origin", "main")
        return new_path

    def believed(self, path: str) -> tuple[list[str], bool]:
        """What speaks against a turn once the reader has pulled, and whether the reader calls it verified."""
        self.reader.rig("sync", "--auto").ok()
        items = self.reader.rig("verify", "--json").json["verification"]["items"]
        thread, name = path.split("/")
        turns = self.reader.rig("thread", thread, "--json").ok().json["envelopes"]
        states = [
            turn["verification"]["state"] for turn in turns if turn["filename"] == name
        ]
        kinds = [
            kind for item in items if item["path"] == path for kind in item["kinds"]
        ]
        return kinds, states == ["verified"]


def git_bytes(clone: Clone, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", *arguments]
    done = subprocess.run(
        command,
        cwd=clone.path,
        env=clone.environ(),
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    bridge = make_bridge(tmp_path_factory.mktemp("forgeries"))
    reader = bridge.clone("reader", "reader-rig")
    for thread in ("demo-01", "other-01"):
        reader.rig("new", thread).ok()
        reader.rig("send", "REQUEST", "--thread", thread, "--to", "mike-relay").ok()
    human = bridge.clone("human", "mike-relay")
    bridge.clone("attacker", "mike-relay")
    reader.rig(
        "trust", "add", "mike@example.com", str(with_signing_key(human, bridge.base))
    ).ok()
    return Kept(bridge.base)


@pytest.fixture
def world(ready: Kept) -> World:
    base = ready.restored()
    human, reader, attacker = (
        Clone(base / name, base / "home") for name in ("human", "reader", "attacker")
    )
    return World(human, reader, attacker, base)


def left_alone(world: World) -> str:
    return world.relay(world.human)


def unsigned(world: World) -> str:
    return world.forge(commit=lambda raw: SIGNATURE.sub(b"", raw))


def with_a_bad_signature(world: World) -> str:
    return world.forge(
        commit=lambda raw: raw.replace(b"DECISIONS (relay)", b"DECISIONS  (relay)")
    )


def signed_by_a_stranger(world: World) -> str:
    with_signing_key(world.attacker, world.base, "eve@example.com")
    return world.relay(world.attacker)


def signed_by_a_stranger_in_the_humans_name(world: World) -> str:
    with_signing_key(world.attacker, world.base, "eve@example.com")
    world.attacker.git("config", "user.email", "mike@example.com")
    return world.relay(world.attacker)


def signed_with_a_revoked_key(world: World) -> str:
    revoked = world.base / "revoked"
    world.reader.run(
        "ssh-keygen", "-q", "-k", "-f", str(revoked), str(world.base / "key-mike.pub")
    ).ok()
    world.reader.git("config", "gpg.ssh.revocationFile", str(revoked))
    return world.relay(world.human)


def with_a_key_that_is_trusted_no_more(world: World) -> str:
    world.reader.rig("trust", "remove", "mike@example.com").ok()
    world.human.git("config", "user.email", "old@example.com")
    newer = with_signing_key(world.attacker, world.base, "next@example.com")
    world.reader.rig("trust", "add", "next@example.com", str(newer)).ok()
    world.human.git("config", "user.email", "mike@example.com")
    return world.relay(world.human)


def replayed_with_the_humans_own_key(world: World) -> str:
    path = world.relay(world.human)
    again = "demo-01/RELAY-9.md"
    (world.human.path / again).write_text((world.human.path / path).read_text())
    world.human.git("add", "--", again)
    world.human.git("commit", "-q", "-S", "-m", "again")
    world.human.git("push", "-q")
    return again


def with_another_body(world: World) -> str:
    return world.forge(file=lambda path, text: (path, text.replace(SAID, OTHER)))


def with_another_body_and_its_hash(world: World) -> str:
    def edit(path: str, text: str) -> tuple[str, str]:
        edited = text.replace(SAID, OTHER)
        return path, re.sub(
            r"(?m)^body_hash: .*$", f"body_hash: {body_hash(OTHER + chr(10))}", edited
        )

    return world.forge(file=edit)


def with_other_front_matter(world: World) -> str:
    return world.forge(
        file=lambda path, text: (path, text.replace("to: reader-rig", "to: other-rig"))
    )


def filed_under_another_thread(world: World) -> str:
    return world.forge(
        file=lambda path, text: (path.replace("demo-01", "other-01"), text)
    )


def filed_under_another_thread_that_it_names(world: World) -> str:
    return world.forge(
        file=lambda path, text: (
            path.replace("demo-01", "other-01"),
            text.replace("thread: demo-01", "thread: other-01"),
        )
    )


@pytest.mark.parametrize(
    ("turn", "against"),
    [
        (left_alone, set()),
        (unsigned, {"relay_unsigned"}),
        (with_a_bad_signature, {"signature_bad"}),
        (signed_by_a_stranger, {"identity_mismatch"}),
        (signed_by_a_stranger_in_the_humans_name, {"identity_mismatch"}),
        (signed_with_a_revoked_key, {"signature_bad"}),
        (with_a_key_that_is_trusted_no_more, {"signer_unknown"}),
        (replayed_with_the_humans_own_key, {"nonce_replayed"}),
        (with_another_body, {"body_hash_mismatch", "signature_bad"}),
        (with_another_body_and_its_hash, {"signature_bad"}),
        (with_other_front_matter, {"signature_bad"}),
        (
            filed_under_another_thread,
            {"thread_mismatch", "signature_bad", "parent_unknown"},
        ),
        (filed_under_another_thread_that_it_names, {"signature_bad", "parent_unknown"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_of_all_that_can_be_done_to_a_turn_only_one_is_verified(
    world: World, turn: Callable[[World], str], against: set[str]
) -> None:
    path = turn(world)

    kinds, verified = world.believed(path)

    assert (set(kinds), verified) == (against, not against)
    read = world.reader.rig("thread", path.split("/")[0]).ok().out
    expected = turn is replayed_with_the_humans_own_key or against <= {"signer_unknown"}
    assert (read.count(SAID), OTHER in read) == (int(expected), False), (
        "what is broken is not read"
    )
