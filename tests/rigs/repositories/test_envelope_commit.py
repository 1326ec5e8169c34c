"""One envelope, one commit, nothing else: whatever is staged, hooked, signed or killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.errors import UserError
from bridgehead.host.file_errors import FileTaken
from bridgehead.rigs.repositories.errors import CommitFailed
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Identity


@pytest.fixture
def thread(clone: Path) -> str:
    (clone / "demo-01").mkdir()
    return "demo-01"


def post(
    repository: GitRepository,
    path: str,
    content: bytes = b"one\n",
    subject: str = "ACK: x",
) -> str:
    with repository.lock(), repository.begin_posting(path, content) as posting:
        return posting.land(subject)


def test_a_landed_envelope_is_one_commit_of_one_file_and_leaves_a_clean_tree(
    world, clone, repository, thread
):
    commit = post(repository, "demo-01/ACK.md", subject="ACK: demo-01/ACK.md")

    assert world.head(clone) == commit
    assert world.files_of(clone) == ["demo-01/ACK.md"]
    assert world.porcelain(clone) == []
    assert world.git("log", "-1", "--format=%B%n%an <%ae>%n%cn <%ce>", at=clone) == (
        "ACK: demo-01/ACK.md\n\nOp One <op1@example.com>\nOp One <op1@example.com>\n"
    )
    assert world.git("diff-files", at=clone) == "", (
        "the index knows the times of the new file"
    )
    assert (
        world.git("log", "-1", "-g", "--format=%gs", at=clone)
        == "commit: ACK: demo-01/ACK.md\n"
    )


def test_what_the_user_has_staged_stays_staged_and_out_of_the_commit(
    world, clone, repository, thread
):
    world.commit(clone, {"old.txt": b"1\n", "moved.txt": b"m\n"})
    (clone / "staged.txt").write_text("mine\n")
    (clone / "old.txt").write_text("2\n")
    world.git("add", "staged.txt", "old.txt", at=clone)
    world.git("rm", "-q", "--cached", "moved.txt", at=clone)
    (clone / "old.txt").write_text("3\n")
    before = world.porcelain(clone)

    post(repository, "demo-01/ACK.md")

    assert world.files_of(clone) == ["demo-01/ACK.md"]
    assert world.porcelain(clone) == before
    assert world.git("show", ":old.txt", at=clone) == "2\n"


def test_leaving_without_landing_removes_the_file_and_leaves_index_and_head(
    world, clone, repository, thread
):
    head = world.head(clone)

    with (
        pytest.raises(ZeroDivisionError),
        repository.lock(),
        repository.begin_posting("demo-01/ACK.md", b"one\n"),
    ):
        assert (clone / "demo-01/ACK.md").read_bytes() == b"one\n"
        raise ZeroDivisionError

    assert world.head(clone) == head
    assert world.porcelain(clone) == []
    assert not repository.has_unfinished_posting()


def test_what_the_user_commits_meanwhile_is_not_lost(world, clone, repository, thread):
    begin = repository.begin_posting("demo-01/ACK.md", b"one\n")
    with pytest.raises(CommitFailed), repository.lock(), begin as posting:
        theirs = world.commit(clone, {"notes.txt": b"mine\n"}, push=False)
        posting.land("ACK: x")

    assert world.head(clone) == theirs
    assert not (clone / "demo-01/ACK.md").exists()


def test_a_name_that_is_taken_is_refused_on_disk_in_the_index_and_in_head(
    world, clone, repository, thread
):
    world.commit(clone, {"demo-01/ACK.md": b"sent\n"})
    (clone / "demo-01/STATE.md").write_text("a draft of the user\n")
    (clone / "demo-01/ACK.md").unlink()

    for name in ("STATE.md", "ACK.md"):
        with pytest.raises(FileTaken), repository.lock():
            repository.begin_posting(f"demo-01/{name}", b"x")
    world.git("rm", "-q", "--cached", "demo-01/ACK.md", at=clone)
    with pytest.raises(FileTaken), repository.lock():
        repository.begin_posting("demo-01/ACK.md", b"x")

    assert (clone / "demo-01/STATE.md").read_text() == "a draft of the user\n"
    assert not repository.has_unfinished_posting()


def test_a_draft_is_replaced_and_comes_back_when_the_commit_is_refused(
    world, clone, repository, thread
):
    draft = clone / "demo-01/REQUEST.md"
    draft.write_text("scaffold\n")
    hook = clone / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no messages today >&2\nexit 1\n")
    hook.chmod(0o755)

    def send() -> None:
        with (
            repository.lock(),
            repository.begin_posting(
                "demo-01/REQUEST.md", b"sent\n", replaces_draft=True
            ) as posting,
        ):
            posting.land("REQUEST: x")

    with pytest.raises(CommitFailed, match="git commit failed: no messages today"):
        send()
    assert draft.read_text() == "scaffold\n"
    assert world.porcelain(clone) == ["?? demo-01/REQUEST.md"]

    hook.unlink()
    send()
    assert draft.read_text() == "sent\n"
    assert world.porcelain(clone) == []


def test_an_operators_identity_is_author_and_committer(
    world, clone, repository, thread
):
    with repository.lock(), repository.begin_posting("demo-01/ACK.md", b"x") as posting:
        posting.land("ACK: x", identity=Identity("Mike Op", "mike@example.com"))

    assert world.git("log", "-1", "--format=%an %ae %cn %ce", at=clone) == (
        "Mike Op mike@example.com Mike Op mike@example.com\n"
    )


def test_the_first_commit_of_a_repository_can_be_an_envelope(world, tmp_path):
    world.git("init", "-q", "fresh")
    (tmp_path / "fresh/demo-01").mkdir()
    repository = GitRepository(tmp_path / "fresh")

    commit = post(repository, "demo-01/REQUEST.md")

    assert world.head(tmp_path / "fresh") == commit
    assert world.porcelain(tmp_path / "fresh") == []


def test_a_missing_identity_is_a_failed_commit_that_leaves_nothing(
    world, clone, repository, thread, home
):
    (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    with pytest.raises(CommitFailed, match="git commit failed"):
        post(repository, "demo-01/ACK.md")
    assert world.porcelain(clone) == []


def test_no_commit_is_made_in_the_middle_of_a_merge(world, clone, repository, thread):
    world.git("checkout", "-q", "-b", "side", at=clone)
    world.commit(clone, {"s.txt": b"s"}, push=False)
    world.git("checkout", "-q", "main", at=clone)
    world.commit(clone, {"m.txt": b"m"}, push=False)
    world.git("merge", "-q", "--no-commit", "--no-ff", "side", at=clone)

    with pytest.raises(CommitFailed, match="during a merge"):
        post(repository, "demo-01/ACK.md")
    assert not (clone / "demo-01/ACK.md").exists()


def test_a_thread_that_is_a_repository_of_its_own_is_refused(
    world, clone, repository, thread
):
    world.git("init", "-q", "demo-01", at=clone)
    with pytest.raises(UserError, match="separate git repository"):
        post(repository, "demo-01/ACK.md")
    assert not (clone / "demo-01/ACK.md").exists()


def test_it_works_from_a_subdirectory_and_in_a_linked_worktree(world, clone, thread):
    world.git("worktree", "add", "-q", "-b", "wt", "../wt", at=clone)
    worktree = world.base / "wt"
    (worktree / "demo-02").mkdir()

    post(GitRepository(clone / "demo-01"), "demo-01/ACK.md")
    post(GitRepository(worktree / "demo-02"), "demo-02/ACK.md")

    assert world.files_of(worktree) == ["demo-02/ACK.md"]
    assert world.porcelain(clone) == world.porcelain(worktree) == []


@pytest.mark.parametrize(
    "attributes",
    ["*.md ident", "*.md working-tree-encoding=UTF-16", "*.md text eol=crlf"],
)
def test_the_bytes_written_are_the_bytes_committed_whatever_the_attributes_say(
    world, clone, repository, thread, attributes
):
    world.commit(clone, {".gitattributes": f"{attributes}\n".encode()})
    content = b"$Id: abc$\nplain\n"

    post(repository, "demo-01/ACK.md", content)

    assert (
        world.git("cat-file", "blob", "HEAD:demo-01/ACK.md", at=clone).encode()
        == content
    )


def test_a_sha256_repository_works_the_same(world, tmp_path):
    made = world.git("init", "-q", "--object-format=sha256", "long", check=False)
    del made
    if not (tmp_path / "long/.git").exists():
        pytest.skip("this git cannot make SHA-256 repositories")
    (tmp_path / "long/demo-01").mkdir()
    repository = GitRepository(tmp_path / "long")

    commit = post(repository, "demo-01/ACK.md")

    assert len(commit) == 64
    assert world.porcelain(tmp_path / "long") == []
    assert [record.commit for record in repository.history(commit).commits] == [commit]
