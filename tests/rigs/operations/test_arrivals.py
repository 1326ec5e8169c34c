"""What arrives is judged against what is here, in-process and with real git and ssh-keygen (rigs §9.1 to §9.4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.rigs.envelope.body_hash import body_hash
from bridgehead.rigs.envelope.text import timestamp_ms
from bridgehead.rigs.operations import arrivals
from bridgehead.rigs.operations.arrivals import Acceptance, Arrival, hold, inspect
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import Quarantine, verdict_line
from bridgehead.rigs.trust.attestation import make_nonce
from bridgehead.rigs.trust.incoming_changes import Refusal
from bridgehead.rigs.trust.signers import public_key_fingerprint
from bridgehead.rigs.trust.verification_kinds import Kind
from rigs.support.git_world import World, envelope

WIRE = Wire("origin", "main", "refs/remotes/origin/main")
ATTESTED_AT = "2026-05-15T10:30:00.000Z"
ATTESTED_MS = timestamp_ms(ATTESTED_AT) or 0
QUESTION = "please decide\n"
MIKE = "mike@example.com"


def rig_in(clone: Path) -> Rig:
    return Rig(
        lambda: GitRepository(clone),
        now_ms=lambda: ATTESTED_MS,
        random_bits=lambda _bits: 0,
        sleep=lambda _seconds: None,
        tell=lambda _text: None,
    )


def arrival_in(clone: Path) -> Arrival:
    rig = rig_in(clone)
    return inspect(rig, rig.repository.fetch(WIRE), Acceptance())


def kinds_of(arrival: Arrival) -> dict[str, tuple[Kind, ...]]:
    return {item.path: item.kinds for item in arrival.verification.items}


def pull(clone: Path) -> None:
    sync(rig_in(clone), SyncRequest(auto=True))


class Operator:
    """Relays from the other clone with a key that the first clone trusts."""

    def __init__(self, world: World, here: Path, there: Path, key: Path) -> None:
        self.world, self.there = world, there
        self.fingerprint = public_key_fingerprint(key.read_text())
        for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(key))):
            world.git("config", name, value, at=there)
        trusted = world.base / "allowed_signers"
        trusted.write_text(f'{MIKE} namespaces="git" {key.read_text()}')
        world.git("config", "gpg.ssh.allowedSignersFile", str(trusted), at=here)

    def turn(
        self, *, random: int = 7, parent: str = QUESTION, body: str = "yes\n"
    ) -> bytes:
        return (
            f"---\nfrom: mike-relay\nto: rig-a\ndate: 2026-05-15\nstatus: ▶ Relayed\ntype: DECISIONS\n"
            f"thread: demo-01\nin_reply_to: {body_hash(parent)}\nattested_by: {self.fingerprint}\n"
            f"attested_at: {ATTESTED_AT}\nnonce: {make_nonce(ATTESTED_MS, random)}\ndisplay_name: Mike\n"
            f"body_hash: {body_hash(body)}\n---\n{body}"
        ).encode()

    def relay(self, name: str, text: bytes, *, author: str = MIKE) -> None:
        (self.there / "demo-01").mkdir(exist_ok=True)
        (self.there / "demo-01" / name).write_bytes(text)
        self.world.git("add", "--", f"demo-01/{name}", at=self.there)
        people = {"GIT_AUTHOR_EMAIL": author, "GIT_COMMITTER_EMAIL": author}
        self.world.git(
            "commit",
            "-q",
            "-S",
            "-m",
            "relay",
            at=self.there,
            GIT_COMMITTER_DATE=ATTESTED_AT,
            **people,
        )
        self.world.git("push", "-q", "origin", "HEAD:main", at=self.there)


@pytest.fixture
def operator(
    world: World, clone: Path, other_clone: Path, make_key: Callable[[str], Path]
) -> Operator:
    return Operator(world, clone, other_clone, make_key("mike"))


def ask(
    world: World, there: Path, path: str = "demo-01/REQUEST.md", said: str = QUESTION
) -> None:
    thread = path.partition("/")[0]
    world.commit(there, {path: envelope(thread, kind="REQUEST", body=said)})


def test_a_turn_signed_by_its_author_in_answer_to_what_is_here_is_verified(
    world: World, clone: Path, other_clone: Path, operator: Operator
) -> None:
    ask(world, other_clone)
    pull(clone)
    operator.relay("RELAY.md", operator.turn())
    arrival = arrival_in(clone)
    assert arrival.refusal is None and kinds_of(arrival) == {}


def test_a_turn_that_somebody_else_committed_is_put_apart_although_the_key_is_trusted(
    world: World, clone: Path, other_clone: Path, operator: Operator
) -> None:
    ask(world, other_clone)
    operator.relay("RELAY.md", operator.turn(), author="eve@example.com")
    arrival = arrival_in(clone)
    assert kinds_of(arrival) == {"demo-01/RELAY.md": (Kind.ATTESTER_MISMATCH,)}
    assert [found.path for found in arrival.quarantined] == ["demo-01/RELAY.md"]


def test_a_turn_in_answer_to_another_thread_has_no_parent(
    world: World, clone: Path, other_clone: Path, operator: Operator
) -> None:
    ask(world, other_clone, "other-01/REQUEST.md")
    operator.relay("RELAY.md", operator.turn())
    assert kinds_of(arrival_in(clone))["demo-01/RELAY.md"] == (Kind.PARENT_UNKNOWN,)


def test_a_turn_in_answer_to_itself_has_no_parent(
    clone: Path, operator: Operator
) -> None:
    operator.relay("RELAY.md", operator.turn(parent="yes\n", body="yes\n"))
    assert kinds_of(arrival_in(clone))["demo-01/RELAY.md"] == (Kind.PARENT_UNKNOWN,)


def test_what_is_in_quarantine_here_is_nobodys_parent(
    world: World, clone: Path, other_clone: Path, operator: Operator
) -> None:
    bad = envelope("other-01", kind="REQUEST", body=QUESTION)
    world.commit(other_clone, {"demo-01/REQUEST.md": bad})
    pull(clone)
    assert Quarantine(GitRepository(clone).private_dir).holds("demo-01/REQUEST.md")
    operator.relay("RELAY.md", operator.turn())
    assert kinds_of(arrival_in(clone))["demo-01/RELAY.md"] == (Kind.PARENT_UNKNOWN,)


@pytest.mark.parametrize(
    "earlier", [True, False], ids=["in an earlier pull", "in the same pull"]
)
def test_a_nonce_is_used_once(
    world: World, clone: Path, other_clone: Path, operator: Operator, earlier: bool
) -> None:
    ask(world, other_clone)
    operator.relay("RELAY.md", operator.turn())
    if earlier:
        pull(clone)
    operator.relay("RELAY-2.md", operator.turn(body="no\n"))
    assert kinds_of(arrival_in(clone)) == {"demo-01/RELAY-2.md": (Kind.NONCE_REPLAYED,)}


def test_a_link_in_the_place_of_an_envelope_is_put_apart_and_never_followed(
    world: World, clone: Path, other_clone: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(envelope("demo-01", body="evil words\n"))
    ask(world, other_clone)
    (other_clone / "demo-01" / "STATE.md").symlink_to(secret)
    world.git("add", "demo-01/STATE.md", at=other_clone)
    world.git("commit", "-q", "-m", "a link", at=other_clone)
    world.git("push", "-q", "origin", "HEAD:main", at=other_clone)

    arrival = arrival_in(clone)

    assert kinds_of(arrival) == {"demo-01/STATE.md": (Kind.SYMLINK,)}
    assert arrival.taken_in == ["demo-01/REQUEST.md"]
    hold(rig_in(clone), arrival)
    assert Quarantine(GitRepository(clone).private_dir).names_in("demo-01") == {
        "STATE.md"
    }


def test_an_envelope_changed_since_the_last_pull_stops_the_next_one(
    world: World, clone: Path, other_clone: Path
) -> None:
    ask(world, other_clone)
    pull(clone)
    ask(world, other_clone, said="something else\n")
    arrival = arrival_in(clone)
    assert arrival.refusal is Refusal.NON_APPEND
    assert Kind.REWRITTEN in kinds_of(arrival)["demo-01/REQUEST.md"]
    head = world.head(clone)
    pull(clone)
    assert world.head(clone) == head


def test_an_envelope_changed_on_the_way_stops_the_pull(
    world: World, clone: Path, other_clone: Path
) -> None:
    ask(world, other_clone)
    ask(world, other_clone, said="something else\n")
    arrival = arrival_in(clone)
    assert arrival.refusal is Refusal.NON_APPEND
    assert Kind.REWRITTEN in kinds_of(arrival)["demo-01/REQUEST.md"]


def test_an_envelope_that_came_and_went_stops_the_pull(
    world: World, clone: Path, other_clone: Path
) -> None:
    ask(world, other_clone)
    ask(world, other_clone, "demo-01/STATE.md")
    world.git("rm", "-q", "demo-01/STATE.md", at=other_clone)
    world.git("commit", "-q", "-m", "gone", at=other_clone)
    world.git("push", "-q", "origin", "HEAD:main", at=other_clone)
    arrival = arrival_in(clone)
    assert arrival.refusal is Refusal.NON_APPEND
    assert [change.path for change in arrival.report.changed] == ["demo-01/STATE.md"]


@pytest.mark.parametrize(
    ("kind", "author", "believed"),
    [
        ("DECISIONS", MIKE, True),
        ("ACK", MIKE, False),
        ("DECISIONS", "eve@example.com", False),
    ],
    ids=["a decision", "no decision", "somebody else's decision"],
)
def test_only_a_verified_decision_is_a_verdict(
    world: World,
    clone: Path,
    other_clone: Path,
    operator: Operator,
    kind: str,
    author: str,
    believed: bool,
) -> None:
    bad = envelope("other-01", body="evil words\n")
    ask(world, other_clone)
    world.commit(other_clone, {"demo-01/STATE.md": bad})
    pull(clone)
    [entry] = Quarantine(GitRepository(clone).private_dir).kept_apart
    turn = operator.turn(body=f"I looked.\n{verdict_line(entry, lifts=True)}\n")
    operator.relay(
        "RELAY.md",
        turn.replace(b"type: DECISIONS", f"type: {kind}".encode()),
        author=author,
    )
    pull(clone)
    assert (
        Quarantine(GitRepository(clone).private_dir).holds("demo-01/STATE.md")
        is not believed
    )


def test_an_envelope_deleted_and_added_again_stops_the_pull(
    world: World, clone: Path, other_clone: Path
) -> None:
    ask(world, other_clone)
    world.git("rm", "-q", "demo-01/REQUEST.md", at=other_clone)
    world.git("commit", "-q", "-m", "gone", at=other_clone)
    ask(world, other_clone, said="something else\n")
    arrival = arrival_in(clone)
    assert arrival.refusal is Refusal.NON_APPEND
    assert Kind.REWRITTEN in kinds_of(arrival)["demo-01/REQUEST.md"]


def test_the_branch_moves_to_the_head_that_was_inspected_and_no_further(
    world: World, clone: Path, other_clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another fetch of the same clone may move the remote-tracking ref between our look and our step."""
    ask(world, other_clone)
    inspected = world.head(other_clone)
    keep_apart = arrivals.hold

    def hold_while_more_comes(rig: Rig, arrival: Arrival) -> None:
        keep_apart(rig, arrival)
        world.commit(other_clone, {"demo-01/REQUEST.md": b"rewritten"})
        world.git("fetch", "-q", at=clone)

    monkeypatch.setattr(arrivals, "hold", hold_while_more_comes)
    pull(clone)
    assert world.head(clone) == inspected
