"""Which characters at the end of a commit message's line are blanks: git's, not Python's (rigs §8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.rigs.repositories.errors import CommitFailed
from bridgehead.rigs.repositories.git.envelope_commit import tidy_message
from bridgehead.rigs.repositories.git.repository import GitRepository


def test_only_what_git_calls_blanks_is_cut_off_the_end_of_a_line() -> None:
    assert tidy_message("ACK: a \t\r\n") == "ACK: a\n"
    assert tidy_message("ACK: a\u00a0\n") == "ACK: a\u00a0\n"


def install(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def post(clone: Path, subject: str = "ACK: x") -> tuple[str, list[str]]:
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with repository.lock(), repository.begin_posting("demo-01/ACK.md", b"x") as posting:
        return posting.land(subject), posting.warnings


def message(world, clone) -> str:
    return world.git("log", "-1", "--format=%B", at=clone)


def test_it_may_edit_the_message_and_what_it_prints_is_passed_on(world, clone):
    install(
        clone / ".git/hooks/commit-msg",
        '#!/bin/sh\nprintf "\\n\\nReviewed: yes  \\n\\n\\n" >> "$1"\necho looked at it\n',
    )
    _, warnings = post(clone)
    assert message(world, clone) == "ACK: x\n\nReviewed: yes\n\n"
    assert warnings == ["looked at it"]


def test_it_sees_what_git_would_show_it(world, clone):
    script = """\
#!/bin/sh
env > hook-env
pwd > hook-pwd
git diff --cached --name-only > hook-diff
cat > hook-stdin
cp "$1" hook-msg
"""
    install(clone / ".git/hooks/commit-msg", script)
    (clone / "staged.txt").write_text("not part of it\n")
    world.git("add", "staged.txt", at=clone)
    post(clone, "ACK: é")
    assert (clone / "hook-pwd").read_text().strip() == str(clone)
    assert (clone / "hook-diff").read_text() == "demo-01/ACK.md\n"
    assert (clone / "hook-stdin").read_text() == ""
    assert (clone / "hook-msg").read_text() == "ACK: é\n"
    assert "GIT_EDITOR=:" in (clone / "hook-env").read_text()


def test_its_refusal_is_a_failed_commit_with_its_words(world, clone):
    install(
        clone / ".git/hooks/commit-msg",
        "#!/bin/sh\necho 'ticket number missing' >&2\nexit 3\n",
    )
    with pytest.raises(CommitFailed, match="git commit failed: ticket number missing"):
        post(clone)
    assert world.porcelain(clone) == []


def test_an_empty_message_is_refused(world, clone):
    install(clone / ".git/hooks/commit-msg", '#!/bin/sh\n: > "$1"\n')
    with pytest.raises(CommitFailed, match="empty message"):
        post(clone)


def test_a_script_without_a_first_line_is_given_to_the_shell(world, clone):
    install(clone / ".git/hooks/commit-msg", 'echo edited > "$1"\n')
    post(clone)
    assert message(world, clone) == "edited\n\n"


def test_one_that_cannot_be_run_refuses_the_commit(world, clone):
    install(clone / ".git/hooks/commit-msg", "#!/no/such/interpreter\n")
    with pytest.raises(CommitFailed, match="cannot be run"):
        post(clone)
    assert world.porcelain(clone) == []


def test_one_that_is_not_executable_is_ignored_as_git_does(world, clone):
    hook = clone / ".git/hooks/commit-msg"
    install(hook, "#!/bin/sh\nexit 1\n")
    hook.chmod(0o644)
    post(clone)


@pytest.mark.parametrize("relative", [True, False])
def test_a_hooks_path_of_the_users_own_is_followed(world, clone, tmp_path, relative):
    place = clone / ".git/my-hooks" if relative else tmp_path / "hooks"
    install(place / "commit-msg", '#!/bin/sh\necho mine > "$1"\n')
    world.git(
        "config",
        "core.hooksPath",
        ".git/my-hooks" if relative else str(place),
        at=clone,
    )
    assert GitRepository(clone).has_commit_msg_hook()
    post(clone)
    assert message(world, clone) == "mine\n\n"


def test_an_untracked_hooks_directory_in_the_work_tree_is_the_users_own(world, clone):
    install(clone / ".githooks/commit-msg", '#!/bin/sh\necho mine > "$1"\n')
    world.git("config", "core.hooksPath", ".githooks", at=clone)
    post(clone)
    assert message(world, clone) == "mine\n\n"


@pytest.mark.parametrize(
    "way",
    ["hooks path", "magic name", "link to file", "link to directory", "tracked link"],
)
def test_nothing_tracked_on_the_way_to_the_hook_is_trusted(world, clone, tmp_path, way):
    script = "#!/bin/sh\nexit 1\n"
    if way == "tracked link":
        install(tmp_path / "outside/commit-msg", script)
        (clone / "tools").symlink_to(tmp_path / "outside")
        world.git("add", "tools", at=clone)
        world.commit(clone, {})
    else:
        folder = (
            ":(icase)tools" if way == "magic name" else "tools"
        )  # git reads the first as a pattern, if it may
        world.commit(clone, {f"{folder}/commit-msg": script.encode()})
        (clone / folder / "commit-msg").chmod(0o755)
    world.git("config", "core.fileMode", "false", at=clone)
    if way == "link to file":
        (clone / ".git/hooks").mkdir(exist_ok=True)
        (clone / ".git/hooks/commit-msg").symlink_to("../../tools/commit-msg")
    elif way == "link to directory":
        (clone / ".git/linked").symlink_to("../tools")
        world.git("config", "core.hooksPath", ".git/linked", at=clone)
    else:
        world.git(
            "config",
            "core.hooksPath",
            ":(icase)tools" if way == "magic name" else "tools",
            at=clone,
        )
    _, warnings = post(clone)
    assert len(warnings) == 1
    assert "was not run: it is a tracked file" in warnings[0]


def test_hooks_of_a_linked_worktree_are_those_of_the_repository(world, clone):
    install(clone / ".git/hooks/commit-msg", '#!/bin/sh\necho shared > "$1"\n')
    world.git("worktree", "add", "-q", "-b", "wt", "../wt", at=clone)
    post(world.base / "wt")
    assert message(world, world.base / "wt") == "shared\n\n"


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("one\n", "one\n"),
        ("\n\n one  \n\n\n\ntwo\t\n\n", " one\n\ntwo\n"),
        ("# kept\n", "# kept\n"),
        ("\n \n", ""),
        ("", ""),
    ],
)
def test_a_message_is_tidied_as_git_does(world, clone, text, tidy):
    assert tidy_message(text) == tidy
    if tidy:
        (clone / "m").write_text(text)
        world.git("commit", "-q", "--allow-empty", "-F", "m", at=clone)
        assert world.git("log", "-1", "--format=%B", at=clone) == tidy + "\n"
