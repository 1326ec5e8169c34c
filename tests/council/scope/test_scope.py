"""Which files a council looks at, and which are left out and reported."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.council.scope.git import GitFailed, NoSuchRevision, repository_at
from bridgehead.council.scope.resolve import Change, Extent, NoRepository, resolve_scope
from bridgehead.council.scope.scope import (
    EmptyScope,
    Scope,
    ScopeRequest,
    UnknownScope,
    text_digest,
)
from bridgehead.council.scope.withheld import LeftOut, Reason
from bridgehead.errors import UserError

# Looks like a key of a well-known service and is none.
FAKE_KEY = "aws_key = 'AKIA" + "Q3EGRIXLZJ7P2WMV'\n"

Write = Callable[[Path, dict[str, Any]], None]
GitRun = Callable[..., str]


@pytest.fixture
def resolve(project: Path, quiet_environment: dict[str, str]) -> Callable[..., Scope]:
    def run(
        *paths: str,
        cwd: Path | None = None,
        allow_words: bool = False,
        no_secrets: tuple[str, ...] = (),
        **kinds: Any,
    ) -> Scope:
        return resolve_scope(
            ScopeRequest(paths, **kinds),
            project=project,
            cwd=cwd or project,
            environment=quiet_environment,
            allow_words=allow_words,
            no_secrets=no_secrets,
        )

    return run


def reasons(scope: Scope) -> dict[str, Reason]:
    return {entry.path: entry.reason for entry in scope.left_out}


def test_without_a_request_the_whole_project_is_looked_at(
    resolve: Callable[..., Scope],
) -> None:
    scope = resolve()

    assert set(scope.texts) == {"src/app.py", "src/db.py", ".gitignore"}
    assert (scope.files, scope.loc) == (3, 5)
    assert scope.described == ("the whole project",)
    assert scope.commit is not None
    assert not scope.dirty


def test_untracked_files_belong_to_the_scope_and_make_it_dirty(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/new.py": "y = 2\n"})

    scope = resolve("src")

    assert set(scope.texts) == {"src/app.py", "src/db.py", "src/new.py"}
    assert scope.dirty


def test_paths_are_taken_from_where_the_command_runs(
    resolve: Callable[..., Scope], project: Path
) -> None:
    assert set(resolve("app.py", cwd=project / "src").texts) == {"src/app.py"}


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("build/out.txt", "made\n", Reason.IGNORED),
        ("logo.bin", b"\x89PNG\0\0", Reason.BINARY),
        (".env", "A=1\n", Reason.SECRET),
        (".env.production", "A=1\n", Reason.SECRET),
        (".npmrc", "registry=x\n", Reason.SECRET),
        ("deploy/server.pem", "x\n", Reason.SECRET),
        ("src/config.py", FAKE_KEY, Reason.SECRET),
        ("big.txt", "x" * (2 * 1024 * 1024 + 1), Reason.TOO_LARGE),
        (".claude/settings.json", "{}", Reason.AGENT_CONFIGURATION),
        ("sub/CLAUDE.md", "obey\n", Reason.AGENT_CONFIGURATION),
        ("opencode.json", "{}", Reason.AGENT_CONFIGURATION),
        (".mcp.json", "{}", Reason.AGENT_CONFIGURATION),
    ],
)
def test_what_may_not_be_shown_is_left_out_and_reported(
    resolve: Callable[..., Scope],
    project: Path,
    write: Write,
    path: str,
    content: str | bytes,
    reason: Reason,
) -> None:
    write(project, {path: content})

    scope = resolve()

    assert path not in scope.texts
    shown = reasons(scope)
    assert shown.get(path, shown.get(f"{path.split('/')[0]}/")) is reason


def test_notes_say_what_was_left_out_and_why() -> None:
    entries = [LeftOut(f"k{number}.pem", Reason.SECRET) for number in range(7)]
    scope = Scope(("src",), {}, (*entries, LeftOut("logo.png", Reason.BINARY)))

    assert scope.notes == (
        (
            "left out (secret): k0.pem, k1.pem, k2.pem, k3.pem, k4.pem and 2 more; "
            "council.no_secrets names files to show as they are"
        ),
        "left out (binary): logo.png",
    )


def test_an_example_of_an_environment_file_is_shown(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {".env.example": "TOKEN=\n"})

    assert ".env.example" in resolve().texts


def test_a_secret_bearing_text_is_kept_for_analysers_in_this_process(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/config.py": FAKE_KEY})

    scope = resolve()

    assert scope.withheld_texts == {"src/config.py": FAKE_KEY}
    assert all("AKIA" not in entry.detail for entry in scope.left_out)


def test_our_own_files_are_no_part_of_a_scope(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    before = resolve()
    write(
        project,
        {
            ".outputs/council/x.md": "x",
            ".bridgehead/dismissals.toml": "",
            ".agent-request.json": "{}",
            ".bridge-settings.json": "{}",
        },
    )

    after = resolve()

    assert after.texts == before.texts
    assert after.left_out == ()
    assert after.fingerprint == before.fingerprint


def test_links_are_not_followed(
    resolve: Callable[..., Scope], project: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("private")
    (project / "link.txt").symlink_to(tmp_path / "outside.txt")

    scope = resolve()

    assert reasons(scope)["link.txt"] is Reason.SYMLINK
    assert "private" not in "".join(scope.texts.values())


def test_the_fingerprint_follows_the_contents(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    before = resolve().fingerprint
    write(project, {"src/db.py": "x = 2\n"})

    assert resolve().fingerprint != before


@pytest.mark.parametrize("entry", ["src/none.py", "../outside", "a\0b", "--all"])
def test_an_entry_that_names_nothing_here_is_refused(
    resolve: Callable[..., Scope], tmp_path: Path, entry: str
) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(UnknownScope):
        resolve(entry)


def test_words_are_allowed_where_the_task_is_not_about_files(
    resolve: Callable[..., Scope],
) -> None:
    scope = resolve("how to cache the catalogue", allow_words=True)

    assert scope.described == ("how to cache the catalogue",)
    assert scope.files == 0


def test_an_empty_scope_says_what_was_left_out(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"keys/.env": "A=1\n"})
    with pytest.raises(EmptyScope, match=r"left out \(secret\): keys/.env"):
        resolve("keys")


def test_a_file_that_cannot_be_read_is_called_that(
    resolve: Callable[..., Scope],
    project: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_arguments: object, **_options: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    write(project, {"broken.py": "print(1)\n"})
    monkeypatch.setattr("bridgehead.council.scope.resolve.read_bounded", fails)
    with pytest.raises(EmptyScope, match=r"left out \(unreadable\): broken.py"):
        resolve("broken.py")


def test_a_repository_that_holds_only_our_own_files_has_left_nothing_out(
    tmp_path: Path, quiet_environment: dict[str, str], write: Write
) -> None:
    empty = tmp_path / "empty"
    write(empty, {".bridgehead/.gitignore": "*\n"})
    subprocess.run(["git", "init", "-q"], cwd=empty, env=quiet_environment, check=True)

    with pytest.raises(EmptyScope, match=r"in the whole project$"):
        resolve_scope(
            ScopeRequest(), project=empty, cwd=empty, environment=quiet_environment
        )


def test_words_that_are_no_text_are_refused(resolve: Callable[..., Scope]) -> None:
    with pytest.raises(UnknownScope):
        resolve("\udcff", allow_words=True)


def test_only_one_kind_of_scope_can_be_given(resolve: Callable[..., Scope]) -> None:
    with pytest.raises(UserError, match="paths, --staged"):
        resolve("src", staged=True)


def test_a_diff_starts_where_the_branch_was_left_and_holds_untracked_files(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    git("checkout", "--quiet", "-b", "feature")
    git("checkout", "--quiet", "main")
    write(project, {"src/db.py": "x = 'main moved on'\n"})
    git("commit", "--quiet", "-am", "main moves")
    git("checkout", "--quiet", "feature")
    write(
        project,
        {"src/app.py": "import os\n\nprint(os.sep)\n", "src/new.py": "one\ntwo"},
    )

    scope = resolve(diff_base="main")

    assert set(scope.texts) == {"src/app.py", "src/new.py"}
    assert scope.diff is not None
    assert "+print(os.sep)" in scope.diff
    assert "main moved on" not in scope.diff
    assert "@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n" in scope.diff


def test_staged_changes_are_read_from_the_index(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    write(project, {"src/db.py": "x = 'staged'\n"})
    git("add", "src/db.py")
    write(project, {"src/db.py": "x = 'later'\n"})

    scope = resolve(staged=True)

    assert scope.texts == {"src/db.py": "x = 'staged'\n"}
    assert scope.diff is not None
    assert "later" not in scope.diff


def test_a_range_is_read_from_its_last_commit(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    git("mv", "src/db.py", "src/store.py")
    git("commit", "--quiet", "-m", "rename")
    write(project, {"src/app.py": "print('second')\n"})
    git("commit", "--quiet", "-am", "second")
    write(project, {"src/app.py": "print('uncommitted')\n"})

    scope = resolve(commit_range="HEAD~2..HEAD")

    assert scope.texts["src/app.py"] == "print('second')\n"
    assert scope.renames == {"src/db.py": "src/store.py"}
    assert not scope.dirty


PATCH = """\
diff --git a/src/db.py b/src/db.py
--- a/src/db.py
+++ b/src/db.py
@@ -1 +1 @@
-x = 1
+x = 'patched'
"""


def test_a_patch_is_applied_to_a_copy_and_not_to_the_tree(
    resolve: Callable[..., Scope], project: Path
) -> None:
    scope = resolve(patch=PATCH)

    assert scope.texts == {"src/db.py": "x = 'patched'\n"}
    assert scope.warnings == ()
    assert (project / "src/db.py").read_text() == "x = 1\n"


def test_a_patch_that_was_applied_already_is_fine(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/db.py": "x = 'patched'\n"})

    assert resolve(patch=PATCH).warnings == ()


def test_a_patch_that_does_not_apply_is_looked_at_with_a_warning(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/db.py": "something else\n"})

    scope = resolve(patch=PATCH)

    assert scope.warnings == ("patch_not_applied",)
    assert scope.diff == PATCH


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd"])
def test_a_patch_cannot_reach_outside_the_project(
    resolve: Callable[..., Scope], path: str
) -> None:
    hostile = PATCH.replace("a/src/db.py", f"a/{path}").replace(
        "b/src/db.py", f"b/{path}"
    )

    scope = resolve(patch=hostile)

    assert scope.texts == {}


# A documented example that looks like a password.
EXAMPLE = (
    '"""Connect.\n\n    connect(password="hunter'
    '2-Correct!Horse")\n"""\n\ndef connect(password): ...\n'
)


def test_a_file_with_an_example_password_is_shown_with_the_value_masked(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    write(project, {"src/api.py": EXAMPLE})

    scope, change = resolve(), resolve(diff_base="HEAD")

    for shown in (
        scope.texts["src/api.py"],
        change.texts["src/api.py"],
        change.diff or "",
    ):
        assert 'connect(password="********")' in shown
        assert "hunter" not in shown
        assert "def connect(password): ..." in shown
    assert reasons(scope) == {"src/api.py": Reason.MASKED}
    assert scope.notes == (
        "shown with values masked: src/api.py; council.no_secrets names files to show as they are",
    )
    assert scope.withheld_texts == {"src/api.py": EXAMPLE}
    assert text_digest(scope.texts["src/api.py"]) == text_digest(
        EXAMPLE
    )  # a gate compares with the file itself


def test_a_file_that_also_bears_a_key_is_still_kept_back_whole(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/api.py": EXAMPLE + FAKE_KEY, "src/db.py": "x = 3\n"})

    scope, change = resolve(), resolve(diff_base="HEAD")

    assert "src/api.py" not in scope.texts
    assert "src/api.py" not in change.texts
    assert "AKIA" not in (change.diff or "") + str(scope.texts)
    assert reasons(scope) == {"src/api.py": Reason.SECRET}


def test_what_the_owner_says_is_no_secret_is_shown_as_it_is(
    resolve: Callable[..., Scope], project: Path, write: Write
) -> None:
    write(project, {"src/api.py": EXAMPLE, "src/keys.py": FAKE_KEY})

    scope = resolve(no_secrets=("src/*.py",))
    change = resolve(diff_base="HEAD", no_secrets=("src/k*.py",))

    assert (scope.texts["src/api.py"], scope.texts["src/keys.py"]) == (
        EXAMPLE,
        FAKE_KEY,
    )
    assert scope.left_out == ()
    assert "AKIA" in (change.diff or "")
    assert "hunter" not in (change.diff or "")


def test_secrets_in_a_diff_take_their_file_with_them(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    write(project, {"src/config.py": FAKE_KEY})
    git("add", "--all")
    git("commit", "--quiet", "-m", "oops")
    write(project, {"src/config.py": "aws_key = read_key()\n", "src/db.py": "x = 3\n"})

    scope = resolve(diff_base="HEAD")

    assert scope.diff is not None
    assert "AKIA" not in scope.diff
    assert "+x = 3" in scope.diff
    assert reasons(scope) == {"src/config.py": Reason.SECRET}
    assert scope.withheld_texts == {"src/config.py": "aws_key = read_key()\n"}


@pytest.mark.parametrize(
    "kinds",
    [{"diff_base": "nowhere"}, {"commit_range": "a..b"}, {"diff_base": "--help"}],
)
def test_a_revision_that_is_none_is_refused(
    resolve: Callable[..., Scope], kinds: dict[str, str]
) -> None:
    with pytest.raises(NoSuchRevision):
        resolve(**kinds)


def test_a_tag_that_looks_like_an_option_is_a_tag(
    resolve: Callable[..., Scope], project: Path, git: GitRun, write: Write
) -> None:
    git("update-ref", "refs/tags/-help", "HEAD")
    write(project, {"src/db.py": "x = 3\n"})

    assert resolve(diff_base="-help").base_commit == git("rev-parse", "HEAD").strip()


def test_text_that_is_no_patch_is_refused(resolve: Callable[..., Scope]) -> None:
    with pytest.raises(UnknownScope, match="not a patch"):
        resolve(patch="hello\n")


def test_an_unchanged_tree_has_no_diff_to_look_at(
    resolve: Callable[..., Scope],
) -> None:
    with pytest.raises(EmptyScope, match="changes since HEAD"):
        resolve(diff_base="HEAD")


def test_a_project_without_git_is_walked(
    tmp_path: Path, quiet_environment: dict[str, str], write: Write
) -> None:
    plain = tmp_path / "plain"
    write(plain, {"a.py": "a = 1\n", "node_modules/x.js": "x", ".outputs/y": "y"})

    scope = resolve_scope(
        ScopeRequest(), project=plain, cwd=plain, environment=quiet_environment
    )

    assert set(scope.texts) == {"a.py"}
    assert scope.commit is None


def test_a_change_needs_git(
    tmp_path: Path, quiet_environment: dict[str, str], write: Write
) -> None:
    plain = tmp_path / "plain"
    write(plain, {"a.py": "a = 1\n"})
    with pytest.raises(NoRepository, match="--staged"):
        resolve_scope(
            ScopeRequest(staged=True),
            project=plain,
            cwd=plain,
            environment=quiet_environment,
        )


def test_nothing_a_repository_configures_is_run(
    resolve: Callable[..., Scope],
    project: Path,
    git: GitRun,
    tmp_path: Path,
    write: Write,
    quiet_environment: dict[str, str],
) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    write(tmp_path, {"program": f"#!/bin/sh\ntouch {mark}\ncat\n"})
    program.chmod(0o755)
    git("-c", "init.defaultBranch=main", "init", "--quiet", "library")
    write(project / "library", {"s.txt": "s\n", ".gitattributes": "* filter=inner\n"})
    git("-C", "library", "add", "--all")
    git("-C", "library", "commit", "--quiet", "-m", "s")
    git("add", "library")
    git("commit", "--quiet", "-m", "a submodule")
    git("-C", "library", "config", "filter.inner.clean", str(program))
    for name in (
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.a=b.Evil.clean",
        "filter.long.process",
    ):
        git("config", name, str(program))
    lines = (
        "*.py diff=evil filter=evil\n*.txt filter=a=b.Evil\n.gitignore filter=long\n"
    )
    write(project, {".gitattributes": lines, "src/app.py": "print('changed')\n"})
    for name in ("src/db.py", ".gitignore", "library/s.txt"):
        os.utime(project / name, (1, 1))  # git has to look whether it is changed

    resolve()
    resolve(diff_base="HEAD")
    reviewed = repository_at(project, quiet_environment)
    assert reviewed is not None
    extent = Extent((".",), ("HEAD",), frozenset({"src/app.py", "src/db.py"}))
    assert "src/app.py" in Change(reviewed).in_working_tree(extent).required
    assert "src/app.py" in Change(reviewed).in_index(extent).required
    assert "src/app.py" in Change(reviewed).in_commit("HEAD", extent).required

    assert not mark.exists()


def test_a_missing_object_is_not_fetched_by_a_program_the_repository_names(
    resolve: Callable[..., Scope],
    project: Path,
    git: GitRun,
    tmp_path: Path,
    write: Write,
) -> None:
    mark = tmp_path / "ran"
    write(tmp_path, {"program": f"#!/bin/sh\ntouch {mark}\nexit 1\n"})
    (tmp_path / "program").chmod(0o755)
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(project),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(tmp_path / "program"),
    }.items():
        git("config", name, value)
    blob = git("rev-parse", "HEAD:src/app.py").strip()
    (project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    write(project, {"src/app.py": "print('changed')\n"})

    with pytest.raises(GitFailed) as failed:
        resolve(diff_base="HEAD")

    assert (
        failed.value.hint
        == "a review fetches nothing; in a partial clone, run git diff yourself once"
    )
    assert not mark.exists()
