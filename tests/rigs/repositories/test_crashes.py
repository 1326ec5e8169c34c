"""A kill -9 at any step leaves a state the next command understands; nothing is lost, nothing stays half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from bridgehead.errors import LockTimeout
from bridgehead.host import child
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git import command as command_module
from bridgehead.rigs.repositories.git import history, survey
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.repositories.records import Recovered, Wire
from rigs.support.git_world import World, envelope
from support.signal_steps import children, stopped_at_every_step

PROGRAMS = Path(__file__).parent / "programs"
WIRE = Wire("origin", "main", "refs/remotes/origin/main")
MOST_STEPS = 60
FOLLOWED = (child.__file__, command_module.__file__)

INDEX_FILES = [f"index.sqlite{suffix}" for suffix in ("", "-wal", "-shm")]


def run_and_kill(clone: Path, task: str, step: int, moment: str) -> bool:
    """Return whether the program was killed; False means it had no such step."""
    command = [
        sys.executable,
        str(PROGRAMS / "die_at_step.py"),
        str(clone),
        task,
        str(step),
        moment,
    ]
    finished = subprocess.run(command, capture_output=True, check=False)
    assert finished.returncode in (0, -signal.SIGKILL), finished.stderr.decode()
    return finished.returncode != 0


def recover(clone: Path) -> Recovered | None:
    repository = GitRepository(clone)
    with repository.lock():
        return repository.recover()


def leftovers(clone: Path) -> list[str]:
    private = [path.name for path in (clone / ".git/bridgehead").iterdir()]
    hidden = [path.name for path in (clone / "demo-01").glob(".*")]
    return sorted(
        {*private, *hidden}
        - {"lock", "children", "COMMIT_EDITMSG", "fetched", *INDEX_FILES}
    )


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("draft", [False, True], ids=["new", "draft"])
def test_a_posting_killed_at_any_step_is_finished_or_taken_back(
    world: World, clone: Path, moment: str, draft: bool
):
    repository = GitRepository(clone)
    (clone / ".git/hooks").mkdir(exist_ok=True)
    repository.install_commit_msg_hook(b"#!/bin/sh\nexit 0\n")
    (clone / "demo-01").mkdir()
    (clone / "staged.txt").write_text("the user's own\n")
    world.git("add", "staged.txt", at=clone)
    file = clone / "demo-01/ACK.md"
    outcomes = set()
    for step in range(MOST_STEPS):
        before = world.head(clone)
        if draft:
            file.write_text("draft\n")
        if not run_and_kill(clone, "post", step, moment):
            break
        seen = world.porcelain(clone)
        assert "D  demo-01/ACK.md" not in seen, (
            "a plain commit would now delete the envelope"
        )
        recovered = recover(clone)
        outcomes.add(recovered is not None and recovered.commit is not None)
        assert leftovers(clone) == []
        if world.head(clone) == before:
            assert recovered is None or recovered.commit is None
            assert file.exists() == draft
            assert not draft or file.read_text() == "draft\n"
            file.unlink(missing_ok=True)
        else:
            assert file.read_bytes() == b"ours\n"
            world.git("reset", "-q", "--soft", "HEAD~1", at=clone)
            world.git("rm", "-q", "-f", "demo-01/ACK.md", at=clone)
            (clone / "demo-01").mkdir(exist_ok=True)
        assert world.porcelain(clone) == ["A  staged.txt"]
    else:
        pytest.fail("the program never came to its end")
    assert step > 8
    assert outcomes == {True, False}
    assert world.files_of(clone) == ["demo-01/ACK.md"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_rebuild_killed_at_any_step_leaves_the_old_or_the_new_turns(
    world, clone, other_clone, moment
):
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01", body="theirs\n")})
    (clone / "demo-01").mkdir()
    (clone / "staged.txt").write_text("the user's own\n")
    world.git("add", "staged.txt", at=clone)
    repository = GitRepository(clone)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours\n") as posting,
    ):
        old = posting.land("ACK: demo-01/ACK.md")
    for step in range(MOST_STEPS):
        if not run_and_kill(clone, "rebuild", step, moment):
            break
        recover(clone)
        assert leftovers(clone) == []
        assert world.porcelain(clone) == ["A  staged.txt"]
        if world.head(clone) != old:
            assert (clone / "demo-01/ACK-2.md").read_bytes() == b"ours\n"
            world.git("read-tree", "-m", "-u", "HEAD", old, at=clone)
            world.git("update-ref", "HEAD", old, at=clone)
        assert (clone / "demo-01/ACK.md").read_bytes() == b"ours\n"
    else:
        pytest.fail("the program never came to its end")
    assert step > 8
    assert (clone / "demo-01/ACK-2.md").read_bytes() == b"ours\n"
    assert world.porcelain(clone) == ["A  staged.txt"]


def test_an_edited_envelope_of_a_killed_posting_is_left_to_its_editor(world, clone):
    (clone / "demo-01").mkdir()
    assert run_and_kill(clone, "post", 3, "after")
    (clone / "demo-01/ACK.md").write_text("my words\n")
    assert recover(clone) == Recovered("demo-01/ACK.md", None)
    assert (clone / "demo-01/ACK.md").read_text() == "my words\n"
    assert recover(clone) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"path": "../../x", "blob": "", "had_draft": false, "pid": 1}',
    ],
)
def test_a_journal_that_cannot_be_read_is_dropped(clone, world, content):
    journal = clone / ".git/bridgehead/posting.json"
    journal.parent.mkdir(exist_ok=True)
    journal.write_bytes(content)
    assert GitRepository(clone).has_unfinished_posting()
    assert recover(clone) is None
    assert not GitRepository(clone).has_unfinished_posting()


def test_the_lock_is_held_for_as_long_as_a_git_of_a_killed_command_runs(
    world, clone, tmp_path, monkeypatch
):
    """A wrapper around git halts in update-ref; its parent is killed there; the next command waits for the git."""
    (clone / "demo-01").mkdir()
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    os.mkfifo(reached)
    os.mkfifo(go_on)
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    real = subprocess.run(
        ["which", "git"], capture_output=True, text=True, check=True
    ).stdout.strip()
    halt = f'echo x > "{reached}"; read x < "{go_on}"'
    wrapper.write_text(
        f'#!/bin/sh\ncase " $* " in *" update-ref "*) {halt};; esac\nexec {real} "$@"\n'
    )
    wrapper.chmod(0o755)
    command = [
        sys.executable,
        str(PROGRAMS / "die_at_step.py"),
        str(clone),
        "post",
        "999",
        "after",
    ]
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    running = subprocess.Popen(
        command, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE
    )
    reached.read_text()
    running.kill()
    running.communicate()

    with pytest.raises(LockTimeout), Clone(clone).lock(timeout_seconds=0.1):
        pytest.fail("the orphan still has work to do")
    go_on.write_text("x\n")
    recovered = recover(clone)

    assert recovered is not None
    assert recovered.commit == world.head(clone)
    assert world.porcelain(clone) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_during_the_commit_finishes_or_undoes_it(world, clone, name):
    """The hook sends the signal to its parent: a moment at which nothing is committed yet."""
    (clone / "demo-01").mkdir()
    repository = GitRepository(clone)
    (clone / ".git/hooks").mkdir(exist_ok=True)
    repository.install_commit_msg_hook(
        f"#!/bin/sh\nkill -{name[3:]} $PPID\nexit 0\n".encode()
    )

    class Stopped(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(getattr(signal, name), stop)
    try:
        with (
            pytest.raises(Stopped),
            repository.lock(),
            repository.begin_posting("demo-01/ACK.md", b"x") as posting,
        ):
            posting.land("ACK: x")
    finally:
        signal.signal(getattr(signal, name), before)
    assert posting.commit is None
    assert world.porcelain(clone) == []
    assert not repository.has_unfinished_posting()


def test_an_interrupt_after_the_branch_moved_is_a_finished_commit(
    world, clone, monkeypatch
):
    (clone / "demo-01").mkdir()
    repository = GitRepository(clone)
    from bridgehead.rigs.repositories.git import envelope_commit

    move = envelope_commit.move_branch

    def move_and_be_interrupted(*arguments: object) -> None:
        move(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(envelope_commit, "move_branch", move_and_be_interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"x") as posting,
    ):
        posting.land("ACK: x")
    assert posting.commit == world.head(clone)
    assert world.porcelain(clone) == []


def test_a_reading_git_stopped_at_any_step_is_reaped(clone):
    git = Clone(clone).git
    steps = list(stopped_at_every_step(lambda: git.ask("rev-parse", "HEAD"), *FOLLOWED))
    assert len(steps) > 50


def test_a_writing_git_stopped_at_any_step_has_written_all_or_nothing(clone):
    """Also while its input is on the way: git gets the end of it and does not wait for more."""
    git = Clone(clone).git
    content = b"x" * 200_000
    whole = Clone(clone).blob_id(content)

    def write() -> None:
        git.write("hash-object", "-w", "--stdin", stdin=content)

    stored = set()
    for _ in stopped_at_every_step(write, *FOLLOWED):
        objects = [
            path
            for path in (clone / ".git/objects").glob("??/*")
            if path.parent.name != "pa"
        ]
        names = {path.parent.name + path.name for path in objects}
        stored.add(whole in names)
        (clone / f".git/objects/{whole[:2]}/{whole[2:]}").unlink(missing_ok=True)
    assert stored == {True, False}


def test_a_survey_stopped_at_any_step_leaves_no_git(clone):
    look = partial(GitSurvey, Clone(clone), None)
    steps = list(
        stopped_at_every_step(lambda: look().tracked(), *FOLLOWED, survey.__file__)
    )
    assert len(steps) > 50


def test_reading_all_commits_stopped_at_any_step_leaves_no_git(clone, world):
    head = world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    git = Clone(clone).git

    look = lambda: list(history.history(git, head, None).commits)  # noqa: E731
    steps = list(stopped_at_every_step(look, *FOLLOWED, history.__file__))

    assert len(steps) > 50


def test_commits_that_nobody_reads_to_the_end_leave_no_git(clone, world):
    head = world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    world.commit(clone, {"demo-01/ACK-2.md": envelope("demo-01")})
    others = children()
    commits = iter(history.history(Clone(clone).git, head, None).commits)
    assert next(commits).commit
    del commits
    assert children() <= others


def test_a_log_that_fails_is_no_short_history(clone):
    with pytest.raises(GitFailed):
        list(history.history(Clone(clone).git, "0" * 40, None).commits)


def test_a_posting_killed_before_the_index_knew_its_times_can_be_made_again_elsewhere(
    world, clone, other_clone
):
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01", body="theirs\n")})
    (clone / "demo-01").mkdir()
    repository = GitRepository(clone)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours\n") as posting,
    ):
        posting.land("ACK: demo-01/ACK.md")
    blob = world.git("rev-parse", "HEAD:demo-01/ACK.md", at=clone).strip()
    world.git("update-index", "--force-remove", "demo-01/ACK.md", at=clone)
    world.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"100644,{blob},demo-01/ACK.md",
        at=clone,
    )

    with repository.lock():
        rebuilt = repository.rebuild(repository.fetch(WIRE))

    assert [one.path for one in rebuilt or ()] == ["demo-01/ACK-2.md"]
    assert world.porcelain(clone) == []


@pytest.mark.parametrize("written", ["theirs", "a part", "empty", "nothing"])
def test_a_git_killed_while_it_wrote_the_files_of_a_rebuild_is_undone(
    world, clone, other_clone, written
):
    theirs = envelope("demo-01", body="theirs\n")
    world.commit(other_clone, {"demo-01/ACK.md": theirs, "demo-01/STATE.md": theirs})
    (clone / "demo-01").mkdir()
    repository = GitRepository(clone)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours\n") as posting,
    ):
        old = posting.land("ACK: demo-01/ACK.md")
    index = (clone / ".git/index").read_bytes()
    with repository.lock():
        repository.rebuild(repository.fetch(WIRE))
    new = world.head(clone)
    # As the kill leaves it: branch and index as before, some files already as they should become.
    world.git("update-ref", "HEAD", old, at=clone)
    (clone / ".git/index").write_bytes(index)
    (clone / ".git/bridgehead/rebuild.json").write_text(
        f'{{"old": "{old}", "new": "{new}"}}'
    )
    if written == "nothing":
        (clone / "demo-01/ACK.md").unlink()
    elif written != "theirs":
        (clone / "demo-01/ACK.md").write_bytes(
            theirs[:30] if written == "a part" else b""
        )

    recover(clone)

    assert world.porcelain(clone) == []
    assert (clone / "demo-01/ACK.md").read_bytes() == b"ours\n"
    with repository.lock():
        assert repository.rebuild(repository.fetch(WIRE))
    assert world.porcelain(clone) == []


def test_words_written_into_a_file_of_a_killed_rebuild_stay(world, clone, other_clone):
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01", body="theirs\n")})
    (clone / "demo-01").mkdir()
    repository = GitRepository(clone)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours\n") as posting,
    ):
        old = posting.land("ACK: demo-01/ACK.md")
    with repository.lock():
        new = repository.fetch(WIRE)
    (clone / ".git/bridgehead/rebuild.json").write_text(
        f'{{"old": "{old}", "new": "{new}"}}'
    )
    (clone / "demo-01/ACK.md").write_text("my words\n")
    recover(clone)
    assert (clone / "demo-01/ACK.md").read_text() == "my words\n"
