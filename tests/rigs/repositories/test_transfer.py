"""Exactly one branch goes out, exactly one comes in, and only on the branch the other rigs read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehead.errors import UserError
from bridgehead.rigs.repositories.errors import FetchFailed, GitFailed, PushFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import GitAnswer
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.transfer import clear_stale_locks
from bridgehead.rigs.repositories.records import InTheWay, Pushed, Raced, Wire
from rigs.support.git_world import envelope

WIRE = Wire("origin", "main", "refs/remotes/origin/main")


def test_another_branch_is_off_the_wire_and_the_way_back_is_named(world, clone):
    world.git("checkout", "-q", "-b", "side", at=clone)
    with pytest.raises(UserError) as refused:
        GitRepository(clone).wire()
    assert (
        'branch "side" has no upstream configured, but the bridge uses origin/main'
        in str(refused.value)
    )
    assert (
        refused.value.hint
        == "git switch main, or set branch: side in .bridge/config.yaml"
    )
    with pytest.raises(UserError) as unpublished:
        GitRepository(clone).wire(branch="side")
    assert unpublished.value.hint == "git push --set-upstream origin side"
    with pytest.raises(UserError, match='branch "side" has no upstream configured'):
        GitRepository(clone).upstream()


def test_a_branch_of_another_name_that_follows_the_wire_is_on_it(
    world, clone, other_clone
):
    world.git("checkout", "-q", "-b", "mine", "--track", "origin/main", at=clone)
    repository = GitRepository(clone)
    assert repository.wire() == WIRE
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with repository.lock(), repository.begin_posting("demo-01/ACK.md", b"x") as posting:
        commit = posting.land("ACK: x")
    assert repository.push(WIRE, commit) == Pushed(commit)
    assert world.git("rev-parse", "main", at=world.remote).strip() == commit
    assert world.git("branch", "--list", "mine", at=world.remote) == ""


def test_a_lock_that_a_killed_fetch_left_is_cleared_once_it_is_old(
    world, clone, other_clone
):
    theirs = world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01")})
    lock = clone / ".git/refs/remotes/origin/main.lock"
    lock.touch()
    repository = GitRepository(clone)

    with pytest.raises(FetchFailed, match="cannot lock ref"):
        repository.fetch(WIRE)
    assert lock.exists()

    os.utime(lock, (1, 1))
    assert repository.fetch(WIRE) == theirs
    assert not lock.exists()


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads/main",
        "index",
        "packed-refs",
        "refs/remotes/../heads/main",
        "../other",
    ],
)
def test_a_lock_that_is_not_of_what_is_fetched_is_left_alone_however_old(clone, name):
    lock = clone / ".git" / f"{name}.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    refused = GitAnswer(1, b"", f"error: Unable to create '{lock}': File exists.\n")

    assert not clear_stale_locks(Clone(clone), refused)
    assert lock.exists()


def test_a_detached_head_is_on_no_wire(world, clone):
    world.git("checkout", "-q", "--detach", at=clone)
    repository = GitRepository(clone)
    for ask in (repository.wire, repository.upstream):
        with pytest.raises(UserError, match="detached HEAD"):
            ask()
    assert repository.head().commit == world.head(clone)


def test_an_upstream_that_is_gone_has_nothing_unpushed(world, clone):
    world.git("update-ref", "-d", "refs/remotes/origin/main", at=clone)
    assert GitRepository(clone).unpushed() == []


def test_a_clone_of_an_empty_remote_can_push_its_first_turn(world, tmp_path):
    world.git("init", "-q", "--bare", "-b", "main", "empty.git")
    world.git("clone", "-q", str(tmp_path / "empty.git"), "first")
    repository = GitRepository(tmp_path / "first")
    wire = repository.wire()
    assert wire == WIRE
    assert repository.head().commit is None
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/REQUEST.md", b"x") as posting,
    ):
        commit = posting.land("REQUEST: x")
    assert repository.push(wire, commit) == Pushed(commit)
    assert repository.head().commit == commit


def test_only_the_wire_branch_and_the_freezes_are_fetched(world, clone, other_clone):
    world.git("tag", "v1", at=other_clone)
    world.git("push", "-q", "origin", "v1", "HEAD:refs/heads/other", at=other_clone)
    tip = world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    world.git("push", "-q", "origin", "HEAD:refs/bridge/frozen/x1", at=other_clone)
    before = set(world.git("for-each-ref", "--format=%(refname)", at=clone).split())

    assert GitRepository(clone).fetch(WIRE) == tip

    after = set(world.git("for-each-ref", "--format=%(refname)", at=clone).split())
    assert after - before == {"refs/bridge/frozen/x1"}
    assert not (clone / ".git/FETCH_HEAD").exists()


def test_a_rewound_remote_is_fetched_and_shows_as_divergence(world, clone, other_clone):
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    world.git("push", "-q", "--force", "origin", "HEAD:main", at=other_clone)
    tip = world.commit(other_clone, {"demo-01/B.md": envelope("demo-01")})
    repository = GitRepository(clone)
    assert repository.fetch(WIRE) == tip
    incoming = repository.compare(tip)
    assert (incoming.ahead, incoming.behind) == (1, 1)


def test_histories_that_never_met_are_compared_from_nothing(world, clone, other_clone):
    world.git("checkout", "-q", "--orphan", "new", at=other_clone)
    world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")}, push=False)
    world.git("push", "-q", "--force", "origin", "HEAD:main", at=other_clone)
    repository = GitRepository(clone)
    tip = repository.fetch(WIRE)
    incoming = repository.compare(tip)
    assert incoming.base is None
    assert [change.path for change in incoming.changes] == ["demo-01/A.md"]
    with repository.lock():
        assert repository.rebuild(tip) is None


def test_a_refusal_of_the_remote_is_told_in_its_words(world, clone):
    hook = world.remote / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no pushes on Sunday' >&2\nexit 1\n")
    hook.chmod(0o755)
    commit = world.commit(clone, {"demo-01/A.md": envelope("demo-01")}, push=False)
    with pytest.raises(PushFailed) as refused:
        GitRepository(clone).push(WIRE, commit)
    assert refused.value.message.startswith("git push origin main failed: ")
    assert "hook declined" in refused.value.message
    assert refused.value.exit_code == 1


def test_pushing_what_is_there_already_is_a_success(world, clone):
    commit = world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    assert GitRepository(clone).push(WIRE, commit) == Pushed(commit)


def test_staged_and_modified_files_of_the_user_survive_a_pull(
    world, clone, other_clone
):
    world.commit(clone, {"notes.txt": b"1\n"})
    world.git("pull", "-q", at=other_clone)
    tip = world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    (clone / "notes.txt").write_text("2\n")
    (clone / "new.txt").write_text("n\n")
    world.git("add", "new.txt", at=clone)
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    assert world.head(clone) == tip
    assert sorted(world.porcelain(clone)) == [" M notes.txt", "A  new.txt"]


@pytest.mark.parametrize(
    ("obstacle", "named"),
    [
        (lambda clone: (clone / "demo-01").write_text("a file"), "demo-01"),
        (lambda clone: (clone / "demo-01").symlink_to("/tmp"), "demo-01"),
        (lambda clone: (clone / "demo-01").symlink_to("nowhere"), "demo-01"),
        (
            lambda clone: (
                (clone / ".git/info/exclude").write_text("demo-01\n"),
                (clone / "demo-01").symlink_to("nowhere"),
            ),
            "demo-01",
        ),
        (
            lambda clone: (
                (clone / "demo-01").mkdir(),
                (clone / "demo-01/A.md").mkdir(),
            ),
            "demo-01/A.md",
        ),
        (
            lambda clone: (
                (clone / "demo-01").mkdir(),
                (clone / "demo-01/A.md").symlink_to("x"),
            ),
            "demo-01/A.md",
        ),
    ],
    ids=["file", "link", "dangling directory", "ignored", "directory", "dangling"],
)
def test_whatever_is_in_the_way_of_a_pull_is_named_and_kept(
    world, clone, other_clone, obstacle, named
):
    world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    obstacle(clone)
    head = world.head(clone)
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) == InTheWay((named,))
    assert world.head(clone) == head
    assert (clone / named).exists() or (clone / named).is_symlink()


@pytest.mark.parametrize(
    "staged", [False, True], ids=["in the work tree", "in the index too"]
)
@pytest.mark.parametrize(
    "written", [0, 30, None], ids=["nothing", "a part", "everything"]
)
def test_what_a_pull_left_that_was_cut_off_is_not_in_the_way_of_the_next(
    world, clone, other_clone, staged, written
):
    tip = world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    (clone / "demo-01").mkdir()
    (clone / "demo-01/A.md").write_bytes(envelope("demo-01")[:written])
    if staged:
        world.git("add", "demo-01/A.md", at=clone)
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    assert world.head(clone) == tip
    assert world.porcelain(clone) == []
    assert (clone / "demo-01/A.md").read_bytes() == envelope("demo-01")


def test_what_is_the_same_is_left_where_something_else_is_in_the_way(
    world, clone, other_clone
):
    world.commit(
        other_clone, {"demo-01/A.md": envelope("demo-01"), "demo-01/B.md": b"theirs\n"}
    )
    (clone / "demo-01").mkdir()
    (clone / "demo-01/A.md").write_bytes(envelope("demo-01"))
    (clone / "demo-01/B.md").write_text("mine\n")
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) == InTheWay(
        ("demo-01/B.md",)
    )
    assert (clone / "demo-01/A.md").exists() and (
        clone / "demo-01/B.md"
    ).read_text() == "mine\n"


def test_an_ignored_file_is_not_overwritten_by_a_pull(world, clone, other_clone):
    (clone / ".git/info/exclude").write_text("A.md\n")
    (clone / "demo-01").mkdir()
    (clone / "demo-01/A.md").write_text("mine\n")
    world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) == InTheWay(
        ("demo-01/A.md",)
    )
    assert (clone / "demo-01/A.md").read_text() == "mine\n"


def test_local_edits_of_a_file_the_remote_changed_are_in_the_way(
    world, clone, other_clone
):
    world.commit(clone, {"README.txt": b"1\n"})
    world.git("pull", "-q", at=other_clone)
    world.commit(other_clone, {"README.txt": b"2\n"})
    (clone / "README.txt").write_text("mine\n")
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) == InTheWay(("README.txt",))
    assert (clone / "README.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    "left", [b"two\nthr", b"two\nthree\n"], ids=["half of it", "all of it"]
)
def test_a_file_that_a_killed_pull_had_begun_to_replace_is_not_in_the_way(
    world, clone, other_clone, left
):
    world.commit(clone, {"README.txt": b"1\n"})
    world.git("pull", "-q", at=other_clone)
    tip = world.commit(other_clone, {"README.txt": b"two\nthree\n"})
    (clone / "README.txt").write_bytes(left)
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    assert (world.head(clone), world.porcelain(clone)) == (tip, [])


@pytest.mark.parametrize(
    "mine", [b"", b"two\nthree\nfour\n"], ids=["emptied", "more than arrives"]
)
def test_what_is_left_of_an_edited_file_is_its_owner_s(world, clone, other_clone, mine):
    world.commit(clone, {"README.txt": b"1\n", "notes.txt": b"1\n"})
    world.git("pull", "-q", at=other_clone)
    world.commit(other_clone, {"README.txt": b"two\nthree\n", "notes.txt": b"2\n"})
    (clone / "README.txt").write_bytes(mine)
    (clone / "notes.txt").write_bytes(b"2")
    repository = GitRepository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) == InTheWay(
        ("README.txt", "notes.txt")
    )
    assert [(clone / name).read_bytes() for name in ("README.txt", "notes.txt")] == [
        mine,
        b"2",
    ]


def test_only_a_descendant_can_be_fast_forwarded_to(world, clone, other_clone):
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")}, push=False)
    world.commit(other_clone, {"demo-01/B.md": envelope("demo-01")})
    repository = GitRepository(clone)
    with pytest.raises(GitFailed, match="Not possible to fast-forward"):
        repository.fast_forward(repository.fetch(WIRE))


def test_the_head_that_is_named_is_taken_although_more_was_fetched_since(
    world, clone, other_clone
):
    repository = GitRepository(clone)
    named = world.commit(other_clone, {"demo-01/A.md": envelope("demo-01")})
    assert repository.fetch(WIRE) == named
    world.commit(other_clone, {"demo-01/B.md": envelope("demo-01")})
    repository.fetch(WIRE)
    assert repository.fast_forward(named) is None
    assert world.head(clone) == named


def test_a_signed_turn_is_signed_again_when_it_is_rebuilt(
    world, clone, other_clone, make_key
):
    world.git("config", "gpg.format", "ssh", at=clone)
    world.git("config", "user.signingkey", str(make_key("k")), at=clone)
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01")})
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours") as posting,
    ):
        commit = posting.land("ACK (relay): demo-01 nonce=1", must_sign=True)
    date = world.git("log", "-1", "--format=%aD", commit, at=clone)
    assert isinstance(repository.push(WIRE, commit), Raced)
    with repository.lock():
        [turn] = repository.rebuild(repository.fetch(WIRE)) or []
    assert "gpgsig " in world.git("cat-file", "commit", turn.commit, at=clone)
    assert (
        world.git("log", "-1", "--format=%s|%aD", turn.commit, at=clone)
        == f"ACK (relay): demo-01 nonce=1|{date}"
    )


def test_a_turn_that_cannot_be_signed_again_stays_as_it_was(
    world, clone, other_clone, make_key
):
    key = make_key("k")
    world.git("config", "gpg.format", "ssh", at=clone)
    world.git("config", "user.signingkey", str(key), at=clone)
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01")})
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours") as posting,
    ):
        commit = posting.land("ACK: x", must_sign=True)
    key.with_suffix("").unlink()
    with (
        pytest.raises(GitFailed, match="could not be committed on the new tip"),
        repository.lock(),
    ):
        repository.rebuild(repository.fetch(WIRE))
    assert world.head(clone) == commit
    assert world.porcelain(clone) == []
    assert not repository.has_unfinished_posting()


def test_a_local_file_that_has_the_next_name_is_stepped_over_when_rebuilding(
    world, clone, other_clone
):
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01")})
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours") as posting,
    ):
        posting.land("ACK: demo-01/ACK.md")
    (clone / "demo-01/ACK-2.md").write_text("a draft\n")
    with repository.lock():
        [turn] = repository.rebuild(repository.fetch(WIRE)) or []
    assert turn.path == "demo-01/ACK-3.md"
    assert (clone / "demo-01/ACK-2.md").read_text() == "a draft\n"


def test_what_the_user_changed_stops_a_rebuild_that_would_overwrite_it(
    world, clone, other_clone
):
    world.commit(other_clone, {"demo-01/ACK.md": envelope("demo-01")})
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"ours") as posting,
    ):
        commit = posting.land("ACK: demo-01/ACK.md")
    (clone / "demo-01/ACK.md").write_text("edited after sending\n")
    with pytest.raises(GitFailed, match="read-tree"), repository.lock():
        repository.rebuild(repository.fetch(WIRE))
    assert world.head(clone) == commit
    assert world.porcelain(clone) == [" M demo-01/ACK.md"]
    assert not repository.has_unfinished_posting()


SSH_ENDED = "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights"


@pytest.mark.parametrize(
    ("said", "cause", "advice"),
    [
        (
            f"ssh: Could not resolve hostname hub.invalid: Name or service not known\n{SSH_ENDED}",
            "ssh: Could not resolve hostname hub.invalid: Name or service not known",
            "cannot be reached",
        ),
        (
            f"No ED25519 host key is known for hub.\nHost key verification failed.\n{SSH_ENDED}",
            "Host key verification failed.",
            "ssh does not know the host",
        ),
        (
            f"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n{SSH_ENDED}",
            "Host key verification failed.",
            "the host key is not the one ssh knows",
        ),
        (
            f"Connection closed by 10.0.0.1 port 22\n{SSH_ENDED}",
            "Connection closed by 10.0.0.1 port 22",
            "be reached",
        ),
        (
            f"git@hub: Permission denied (publickey).\n{SSH_ENDED}",
            "git@hub: Permission denied (publickey).",
            "ssh -v",
        ),
        (
            "fatal: unable to access 'http://hub/x/': Failed to connect to hub port 80",
            "unable to access 'http://hub/x/': Failed to connect to hub port 80",
            "cannot be reached",
        ),
        (
            "error: cannot lock ref 'refs/remotes/origin/main': Unable to create '/x/main.lock': File exists.\nhelp",
            "cannot lock ref 'refs/remotes/origin/main': Unable to create '/x/main.lock': File exists.",
            "remove the file",
        ),
        (
            "fatal: something nobody has seen before",
            "something nobody has seen before",
            "by hand",
        ),
    ],
)
def test_a_fetch_that_fails_says_why_and_what_can_be_done(
    said: str, cause: str, advice: str
) -> None:
    error = FetchFailed("origin", said)
    assert error.message == f"git fetch failed: {cause}"
    assert advice in (error.hint or "")


def test_what_the_server_says_about_a_refusal_is_shown(world, clone):
    hook = world.remote / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\necho 'You may not push to protected branches.' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    commit = world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")}, push=False)

    with pytest.raises(PushFailed) as caught:
        GitRepository(clone).push(WIRE, commit)

    assert (
        "(hook declined): You may not push to protected branches."
        in caught.value.message
    )
    assert "protects this branch" in (caught.value.hint or "")


def test_commits_that_the_remote_had_and_has_no_more_are_named_until_this_clone_follows(
    world, clone, other_clone
):
    kept = world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    lost = world.commit(clone, {"demo-01/ACK-2.md": envelope("demo-01", body="lost\n")})
    ours = world.commit(
        clone,
        {"demo-01/ACK-3.md": envelope("demo-01", body="never pushed\n")},
        push=False,
    )
    repository = GitRepository(clone)
    assert repository.gone_from_remote(repository.fetch(WIRE)) == []
    world.git("fetch", "-q", at=other_clone)
    world.git("reset", "-q", "--hard", kept, at=other_clone)
    world.commit(
        other_clone,
        {"demo-01/STATE.md": envelope("demo-01", body="instead\n")},
        push=False,
    )
    world.git("push", "-q", "--force", "origin", "HEAD:main", at=other_clone)

    for _ in range(2):  # also when nothing new is fetched
        assert GitRepository(clone).gone_from_remote(
            GitRepository(clone).fetch(WIRE)
        ) == [lost]
    assert world.head(clone) == ours

    world.git("reset", "-q", "--hard", "origin/main", at=clone)
    assert GitRepository(clone).gone_from_remote(GitRepository(clone).fetch(WIRE)) == []
