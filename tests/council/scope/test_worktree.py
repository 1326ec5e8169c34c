"""The work tree in which an agent may write: its result is a branch and a patch, the user's tree stays as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.council.scope.git import Git, repository_at
from bridgehead.council.scope.working_copies import Worktree, make_worktree
from bridgehead.errors import UserError

GitRun = Callable[..., str]
Write = Callable[[Path, dict[str, Any]], None]


def repository(directory: Path, environment: dict[str, str]) -> Git:
    git = repository_at(directory, environment)
    assert git is not None
    return git


@pytest.fixture
def worktree(project: Path, quiet_environment: dict[str, str]) -> Worktree:
    return make_worktree(repository(project, quiet_environment), project, "k3v9qa")


def test_the_result_is_a_branch_and_a_patch_and_the_users_tree_is_untouched(
    worktree: Worktree, project: Path, git: GitRun, write: Write
) -> None:
    before = git("status", "--porcelain")
    write(worktree.path, {"src/app.py": "print('better')\n", "src/new.py": "y = 2\n"})
    (worktree.path / "src/db.py").unlink()

    done = worktree.finish("Do it better")

    assert done.branch == "bridgehead/k3v9qa"
    assert done.files == ("src/app.py", "src/db.py", "src/new.py")
    assert "+print('better')" in done.patch
    assert git("log", "-1", "--format=%s", done.branch).strip() == "Do it better"
    assert git("show", f"{done.branch}:src/new.py") == "y = 2\n"
    assert git("status", "--porcelain") == before == ""
    assert (project / "src/app.py").read_text().startswith("import os")
    assert not worktree.path.exists()
    assert git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_the_patch_applies_to_what_it_was_made_from(
    worktree: Worktree, project: Path, git: GitRun, write: Write, tmp_path: Path
) -> None:
    write(worktree.path, {"src/app.py": "print('better')\n", "logo.bin": b"\0\1\2"})
    done = worktree.finish("x")
    write(tmp_path, {"change.patch": done.patch})

    git("apply", str(tmp_path / "change.patch"))

    assert (project / "src/app.py").read_text() == "print('better')\n"
    assert (project / "logo.bin").read_bytes() == b"\0\1\2"


def test_without_a_change_there_is_no_branch(worktree: Worktree, git: GitRun) -> None:
    done = worktree.finish("nothing")

    assert (done.branch, done.commit, done.patch) == (None, None, "")
    assert "bridgehead/" not in git("branch", "--list", "--all")


def test_agent_configuration_and_secrets_are_not_checked_out_and_their_absence_is_no_change(
    project: Path, git: GitRun, write: Write, quiet_environment: dict[str, str]
) -> None:
    write(
        project, {".claude/settings.json": "{}", "CLAUDE.md": "obey", ".env": "A=1\n"}
    )
    git("add", "--all", "--force")
    git("commit", "--quiet", "-m", "hostile")
    worktree = make_worktree(repository(project, quiet_environment), project, "k3v9qa")

    assert {entry.path for entry in worktree.left_out} == {
        ".claude/settings.json",
        "CLAUDE.md",
        ".env",
    }
    assert not (worktree.path / "CLAUDE.md").exists()
    write(worktree.path, {"src/db.py": "x = 2\n"})
    assert worktree.finish("x").files == ("src/db.py",)


@pytest.mark.parametrize("part", ["smudge", "clean", "process"])
@pytest.mark.parametrize("driver", ["evil", "a=b.Evil"])
def test_hooks_and_filters_of_the_repository_are_not_run(
    project: Path,
    git: GitRun,
    write: Write,
    tmp_path: Path,
    quiet_environment: dict[str, str],
    driver: str,
    part: str,
) -> None:
    mark = tmp_path / "ran"
    write(tmp_path, {"program": f"#!/bin/sh\ntouch {mark}\ncat\n"})
    (tmp_path / "program").chmod(0o755)
    write(project, {".gitattributes": f"*.py filter={driver}\n"})
    git("add", "--all")
    git("commit", "--quiet", "-m", "attributes")
    git("config", f"filter.{driver}.{part}", str(tmp_path / "program"))
    git("config", f"filter.{driver}.required", "true")
    for hook in (
        "post-checkout",
        "pre-commit",
        "post-index-change",
        "reference-transaction",
    ):
        write(project, {f".git/hooks/{hook}": f"#!/bin/sh\ntouch {mark}\n"})
        (project / ".git/hooks" / hook).chmod(0o755)

    worktree = make_worktree(repository(project, quiet_environment), project, "k3v9qa")
    write(worktree.path, {"src/db.py": "x = 2\n"})
    worktree.finish("x")

    assert not mark.exists()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_repository_that_an_agent_puts_into_the_worktree_runs_no_program(
    project: Path,
    git: GitRun,
    write: Write,
    tmp_path: Path,
    quiet_environment: dict[str, str],
    sparse: bool,
) -> None:
    mark = tmp_path / "ran"
    write(
        project, {"library/s.txt": "s\n", "library/.gitattributes": "* filter=evil\n"}
    )
    for words in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("commit", "--quiet", "-m", "s"),
    ):
        git("-C", "library", *words)
    git("add", "library")
    git("commit", "--quiet", "-m", "a submodule")
    if sparse:
        git("config", "core.sparseCheckout", "true")
    worktree = make_worktree(repository(project, quiet_environment), project, "k3v9qa")
    git("-C", "library", "config", "filter.evil.clean", f"touch {mark}; cat")
    for name in ("library", "another"):
        shutil.copytree(project / "library", worktree.path / name, dirs_exist_ok=True)
        os.utime(
            worktree.path / name / "s.txt", (1, 1)
        )  # git has to look whether it is changed
    write(worktree.path, {"src/db.py": "x = 2\n"})

    done = worktree.finish("x")

    assert not mark.exists()
    assert "src/db.py" in done.files
    assert "library" not in done.files


def test_an_agent_cannot_lead_us_elsewhere_through_the_worktrees_git_file(
    worktree: Worktree, project: Path, git: GitRun, write: Write, tmp_path: Path
) -> None:
    write(tmp_path, {"evil/config": "[core]\n\trepositoryformatversion = 0\n"})
    (worktree.path / ".git").write_text(f"gitdir: {tmp_path / 'evil'}\n")
    write(worktree.path, {"src/db.py": "x = 2\n"})

    done = worktree.finish("x")

    assert done.branch is not None
    assert git("show", f"{done.branch}:src/db.py") == "x = 2\n"


def test_a_discarded_worktree_leaves_nothing(worktree: Worktree, git: GitRun) -> None:
    worktree.discard()

    assert not worktree.path.exists()
    assert "bridgehead/" not in git("branch", "--list", "--all")


def test_the_folder_of_ours_is_ignored_except_what_is_meant_to_be_committed(
    worktree: Worktree, project: Path, git: GitRun, write: Write
) -> None:
    write(project, {".bridgehead/dismissals.toml": "", ".bridgehead/journal.db": "x"})

    shown = git("status", "--porcelain", "--untracked-files=all")
    assert shown.splitlines() == ["?? .bridgehead/dismissals.toml"]


def test_a_repository_without_a_commit_is_refused(
    tmp_path: Path, git: GitRun, write: Write, quiet_environment: dict[str, str]
) -> None:
    write(tmp_path / "project", {"a.txt": "x"})
    git("init", "--quiet")
    with pytest.raises(UserError, match="needs a commit"):
        make_worktree(
            repository(tmp_path / "project", quiet_environment),
            tmp_path / "project",
            "k3v9qa",
        )
