"""What `send`, `relay` and `close` refuse before anything is committed (rigs §8, §10, §11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.errors import SecretRefused, UserError
from bridgehead.rigs.envelope.body_hash import body_hash
from bridgehead.rigs.operations.posting import ArrivalRefused
from bridgehead.rigs.operations.relay import RelayRequest, relay
from bridgehead.rigs.operations.send import CloseRequest, SendRequest, close, send
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Pushed, Raced, Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.freeze import Freeze, ThreadFrozen
from rigs.support.git_world import World, envelope

NOW_MS = 1_800_000_000_000
FREEZE = Freeze("other-relay", "2027-01-15T08:00:00.000Z", "2099-01-01T00:00:00.000Z")
SECRET = "token ghp_" + "q7Zr2Lm9Xv4Ks8Tn1Bw6" + "Yc3Hd5Jf0PaGeUiO\n"
QUESTION = "please decide\n"


def rig_called(name: str, clone: Path) -> Rig:
    (clone / ".bridge").mkdir(exist_ok=True)
    (clone / ".bridge" / "config.yaml").write_text(f"rig_id: {name}\n")
    return Rig(
        lambda: GitRepository(clone),
        now_ms=lambda: NOW_MS,
        random_bits=lambda _bits: 0,
        sleep=lambda _seconds: None,
        tell=lambda _text: None,
    )


@pytest.fixture
def asked(world: World, clone: Path) -> Path:
    """A clone with a thread that holds one question, and its head."""
    world.commit(
        clone,
        {"demo-01/REQUEST.md": envelope("demo-01", kind="REQUEST", body=QUESTION)},
    )
    return clone


def sending(**changes: object) -> SendRequest:
    return SendRequest("STATE", "demo-01", ["rig-z"], push=False)._replace(**changes)


def relaying(**changes: object) -> RelayRequest:
    request = RelayRequest("ACK", "demo-01", body_hash(QUESTION), ["rig-a"], push=False)
    return request._replace(**changes)


@pytest.fixture
def operator(world: World, asked: Path, make_key: Callable[[str], Path]) -> Rig:
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", str(make_key("mike"))),
    ):
        world.git("config", name, value, at=asked)
    return rig_called("mike-relay", asked)


def test_a_relay_turn_is_signed(world: World, asked: Path, operator: Rig) -> None:
    sent = relay(operator, relaying())
    assert "\ngpgsig " in world.git("cat-file", "commit", sent.commit_sha, at=asked)
    assert world.head(asked) == sent.commit_sha


def test_what_may_not_be_relayed_leaves_the_clone_as_it_was(
    world: World, asked: Path, operator: Rig
) -> None:
    head = world.head(asked)
    with pytest.raises(UserError, match="parent unknown"):
        relay(operator, relaying(in_reply_to="f" * 64))
    with pytest.raises(SecretRefused):
        relay(operator, relaying(body=lambda: SECRET))
    with pytest.raises(UserError, match="relays signed turns"):
        send(operator, sending())
    with pytest.raises(UserError, match="is not a relay rig"):
        relay(rig_called("mike-desk", asked), relaying())
    assert world.head(asked) == head and world.porcelain(asked) == [
        "?? .bridge/config.yaml"
    ]


def test_a_secret_is_neither_sent_nor_put_into_the_last_word(
    world: World, asked: Path
) -> None:
    rig, head = rig_called("rig-a", asked), world.head(asked)
    for attempt in (
        lambda: send(rig, sending(body=lambda: SECRET)),
        lambda: send(rig, sending(tldr=SECRET.strip())),
        lambda: send(rig, sending(status=f"▶ {SECRET.strip()}")),
        lambda: close(
            rig, CloseRequest("demo-01", "completed", note=SECRET, push=False)
        ),
    ):
        with pytest.raises(SecretRefused):
            attempt()
    assert world.head(asked) == head


@pytest.mark.parametrize("thread", ["../outside", "/tmp", "demo-01/../../outside"])
def test_nothing_is_sent_to_a_directory_outside_the_clone(
    world: World, asked: Path, thread: str
) -> None:
    (world.base / "outside").mkdir()
    with pytest.raises(UserError, match="thread directory not found"):
        send(rig_called("rig-a", asked), sending(thread_id=thread))


def test_a_frozen_thread_is_not_written_to(world: World, asked: Path) -> None:
    rig = rig_called("rig-a", asked)
    GitRepository(asked).freeze(None, "demo-01", FREEZE.stored_text())
    with pytest.raises(ThreadFrozen):
        send(rig, sending())
    with pytest.raises(ThreadFrozen):
        close(rig, CloseRequest("demo-01", "completed", push=False))
    assert send(rig, sending(despite_freeze=True)).file_path == "demo-01/STATE.md"


def test_trying_again_while_the_remote_stands_still_makes_nothing_anew(
    world: World, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_called("rig-a", asked)
    push, answers = (
        GitRepository.push,
        iter([Raced("[remote rejected] (failed to update ref)")] * 2),
    )
    monkeypatch.setattr(
        GitRepository,
        "push",
        lambda self, wire, commit: next(answers, None) or push(self, wire, commit),
    )
    monkeypatch.setattr(
        GitRepository, "rebuild", lambda *_args, **_named: pytest.fail("rebuilt")
    )

    sent = send(rig, sending(push=True))

    assert (
        sent.pushed
        and world.git("rev-parse", "main", at=world.remote).strip() == sent.commit_sha
    )


def test_nothing_is_put_on_top_of_a_history_that_was_rewritten(
    world: World, asked: Path, other_clone: Path
) -> None:
    """What vanished there would come back under another name, as if somebody had said it twice."""
    world.git("pull", "-q", at=other_clone)
    world.commit(asked, {"demo-01/ACK.md": envelope("demo-01", body="published\n")})
    world.commit(
        other_clone,
        {"demo-01/STATE.md": envelope("demo-01", body="instead\n")},
        push=False,
    )
    world.git("push", "-q", "--force", "origin", "HEAD:main", at=other_clone)

    with pytest.raises(ArrivalRefused) as refused:
        send(rig_called("rig-a", asked), sending(push=True))

    assert "the remote's history was rewritten: a commit it had is gone" in (
        refused.value.hint or ""
    )
    assert sorted(
        world.git("ls-tree", "--name-only", "main:demo-01", at=world.remote).split()
    ) == [
        "REQUEST.md",
        "STATE.md",
    ]


def test_what_another_command_took_along_is_not_said_twice_by_repeating_it(
    world: World, asked: Path
) -> None:
    rig, away = rig_called("rig-a", asked), world.remote.with_name("away.git")
    wanted, other = (
        sending(push=True, tldr=words) for words in ("the first", "the second")
    )
    world.remote.rename(away)
    with pytest.raises(GitFailed):
        send(rig, wanted)
    away.rename(world.remote)
    send(rig_called("rig-a", asked), other)  # pushes both

    again = send(rig_called("rig-a", asked), wanted)
    later = send(
        rig_called("rig-a", asked), wanted
    )  # meant as such: it was acknowledged

    said = world.git("log", "--format=%s", "main", at=world.remote).splitlines()
    assert again.pushed and again.file_path == "demo-01/STATE.md"
    assert later.file_path == "demo-01/STATE-3.md"
    assert said.count("STATE: the first") == 2 and said.count("STATE: the second") == 1


def test_a_command_killed_after_its_push_is_not_said_twice_by_repeating_it(
    world: World, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    push = GitRepository.push

    def push_and_die(self: GitRepository, wire: Wire, commit: str) -> Pushed | Raced:
        push(self, wire, commit)
        raise Killed

    monkeypatch.setattr(GitRepository, "push", push_and_die)
    with pytest.raises(Killed):
        send(rig_called("rig-a", asked), sending(push=True, tldr="once"))
    monkeypatch.setattr(GitRepository, "push", push)

    again = send(rig_called("rig-a", asked), sending(push=True, tldr="once"))

    assert again.pushed
    assert (
        world.git("log", "--format=%s", "main", at=world.remote)
        .splitlines()
        .count("STATE: once")
        == 1
    )
