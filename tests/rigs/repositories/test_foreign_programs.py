"""Nothing that pulled content, a remote or a left-over file can set off is ever run; the user's own helpers are.

Every case plants something that would leave a mark, then does everything a rig does, and looks for the mark.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bridgehead.host.file_errors import IsSymlink
from bridgehead.rigs.repositories.errors import FetchFailed, PushFailed
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Pushed, Raced, Wire
from bridgehead.rigs.threads.index import EnvelopeIndex
from rigs.support.git_world import World, envelope

WIRE = Wire("origin", "main", "refs/remotes/origin/main")
HOOKS = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
    "post-index-change",
]


class Trap:
    """A program that leaves a mark when it is run."""

    def __init__(self, base: Path) -> None:
        self.mark = base / "MARK"
        self.program = base / "trap.sh"
        self.program.write_text(
            f"#!/bin/sh\necho \"$0 $*\" >> '{self.mark}'\nhead -c 1 >/dev/null\nexit 0\n"
        )
        self.program.chmod(0o755)

    def named(self, name: str) -> Path:
        """The same trap under a name that tells who ran it."""
        path = self.program.with_name(f"trap-{name}.sh")
        path.symlink_to(self.program)
        return path

    @property
    def sprung(self) -> str:
        return self.mark.read_text() if self.mark.exists() else ""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def do_everything(world: World, clone: Path, other: Path) -> None:
    """Look, post, lose a race, rebuild, push, fetch, compare, pull, check signatures, freeze, thaw."""
    repository = world.repository(clone)
    EnvelopeIndex(repository).threads()
    (other / "demo-01").mkdir(exist_ok=True)
    world.commit(other, {"demo-01/THEIRS.md": envelope("demo-01", body="theirs\n")})
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with repository.lock():
        repository.recover()
        with repository.begin_posting(
            "demo-01/OURS.md", envelope("demo-01", body="ours\n")
        ) as posting:
            commit = posting.land("ACK: demo-01/OURS.md")
        assert isinstance(repository.push(WIRE, commit), Raced)
        rebuilt = repository.rebuild(repository.fetch(WIRE))
        assert rebuilt
        assert repository.push(WIRE, rebuilt[-1].commit) == Pushed(rebuilt[-1].commit)
        world.git("pull", "-q", at=other)
        world.commit(other, {"demo-01/LATER.md": envelope("demo-01", body="later\n")})
        tip = repository.fetch(WIRE)
        repository.compare(tip)
        repository.commits_between(None, tip)
        assert repository.fast_forward(tip) is None
        repository.freeze(WIRE, "demo-01", "note")
        repository.thaw(WIRE, "demo-01")
    repository.check_signatures([tip], None)
    repository.read_blobs([repository.blob_id(envelope("demo-01"))])
    EnvelopeIndex(world.repository(clone)).threads()
    assert not [file for file in repository.survey().dirty if "demo-01" in file.path]


def test_no_hook_of_the_clone_runs_but_commit_msg(world, clone, other_clone, trap):
    for name in (*HOOKS, "commit-msg"):
        (clone / ".git/hooks").mkdir(exist_ok=True)
        (clone / ".git/hooks" / name).symlink_to(trap.program)
    do_everything(world, clone, other_clone)
    runs = trap.sprung.splitlines()
    assert len(runs) == 1, runs
    assert runs[0].startswith(f"{clone}/.git/hooks/commit-msg ")


def test_hooks_in_tracked_files_do_not_run(world, clone, other_clone, trap):
    script = trap.program.read_bytes()
    for name in ("commit-msg", "post-merge", "pre-push"):
        world.commit(clone, {f"tools/{name}": script})
        (clone / "tools" / name).chmod(0o755)
    world.git("config", "core.fileMode", "false", at=clone)
    world.git("config", "core.hooksPath", "tools", at=clone)
    world.git("pull", "-q", at=other_clone)
    do_everything(world, clone, other_clone)
    assert trap.sprung == ""


def test_settings_that_name_a_program_stay_silent(world, clone, other_clone, trap):
    world.commit(clone, {".gitattributes": b"* diff=evil merge=evil\n"})
    world.git("pull", "-q", at=other_clone)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "pager.status",
        "core.editor",
        "sequence.editor",
        "core.askPass",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "gpg.program",
        "uploadpack.packObjectsHook",
        "core.sshCommand",
        "core.gitProxy",
        "credential.helper",
    ):
        world.git("config", key, str(trap.named(key)), at=clone)
    for key, value in {
        "log.showSignature": "true",
        "gc.auto": "1",
        "maintenance.auto": "true",
        "gc.autoDetach": "false",
        "fetch.recurseSubmodules": "true",
        "submodule.recurse": "true",
        "push.recurseSubmodules": "on-demand",
    }.items():
        world.git("config", key, value, at=clone)
    do_everything(world, clone, other_clone)
    assert trap.sprung == ""


def test_variables_that_name_a_program_stay_silent(
    world, clone, other_clone, trap, monkeypatch
):
    for name in (
        "GIT_PAGER",
        "PAGER",
        "GIT_EDITOR",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_EXTERNAL_DIFF",
    ):
        monkeypatch.setenv(name, str(trap.named(name)))
    do_everything(world, clone, other_clone)
    assert trap.sprung == ""


@pytest.mark.parametrize("kind", ["clean", "smudge", "process"])
@pytest.mark.parametrize("driver", ["Git.LFS", "a=b"])
def test_a_filter_chosen_by_pulled_attributes_does_not_run(
    world, clone, other_clone, trap, driver, kind
):
    world.git("config", f"filter.{driver}.{kind}", str(trap.program), at=clone)
    world.git("config", f"filter.{driver}.required", "true", at=clone)
    world.commit(other_clone, {".gitattributes": f"*.md filter={driver}\n".encode()})
    repository = world.repository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    do_everything(world, clone, other_clone)
    assert trap.sprung == ""


def test_a_pulled_submodule_is_neither_fetched_nor_entered(
    world, clone, other_clone, trap
):
    world.git("init", "-q", "sub")
    world.commit(world.base / "sub", {"x": b"x"}, push=False)
    world.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(world.base / "sub"),
        "sub",
        at=other_clone,
    )
    world.commit(other_clone, {})
    world.git("config", "submodule.sub.update", f"!{trap.program}", at=clone)
    world.git("config", "submodule.sub.active", "true", at=clone)
    world.git("config", "submodule.sub.url", str(world.base / "sub"), at=clone)
    world.git("config", "submodule.recurse", "true", at=clone)
    repository = world.repository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    do_everything(world, clone, other_clone)
    assert trap.sprung == ""
    assert not (clone / ".git/modules/sub").exists()


def test_a_submodule_that_is_checked_out_stays_as_it_is(world, clone, other_clone):
    world.git("init", "-q", "sub")
    sub = world.base / "sub"
    moved = world.commit(sub, {"x": b"2"}, push=False)
    world.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(sub),
        "sub",
        at=other_clone,
    )
    world.commit(other_clone, {})
    world.git("pull", "-q", at=clone)
    world.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "update",
        "--init",
        at=clone,
    )
    before = world.commit(clone / "sub", {"x": b"3"}, push=False)
    assert before != moved
    world.git("config", "submodule.recurse", "true", at=clone)
    world.git("config", "submodule.sub.active", "true", at=clone)
    world.git("-C", "sub", "checkout", "-q", moved, at=clone)
    world.git("fetch", "-q", str(clone / "sub"), before, at=other_clone / "sub")
    world.git("checkout", "-q", before, at=other_clone / "sub")
    world.git("add", "sub", at=other_clone)
    world.commit(other_clone, {})
    repository = world.repository(clone)
    (clone / "demo-01").mkdir(exist_ok=True)
    with repository.lock():
        with repository.begin_posting(
            "demo-01/OURS.md", envelope("demo-01")
        ) as posting:
            posting.land("ACK: demo-01/OURS.md")
        assert repository.rebuild(repository.fetch(WIRE), inspected=True)
    assert (world.head(clone / "sub"), (clone / "sub/x").read_bytes()) == (moved, b"2")


def test_a_pulled_gitmodules_that_git_itself_chokes_on_does_not_stop_us(
    world, clone, other_clone, trap
):
    broken = f'[submodule "sub"]\n\tpath = sub\n\turl = x\n\tupdate = !{trap.program}\n'
    world.commit(
        other_clone,
        {".gitmodules": broken.encode(), "demo-01/A.md": envelope("demo-01")},
    )
    repository = world.repository(clone)
    tip = repository.fetch(WIRE)
    assert [change.path for change in repository.compare(tip).changes] == [
        ".gitmodules",
        "demo-01/A.md",
    ]
    assert repository.fast_forward(tip) is None
    assert len(EnvelopeIndex(world.repository(clone)).threads()) == 1
    assert trap.sprung == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("remote.origin.url", "ext::{trap} x"),
        ("remote.origin.url", "evil::x"),
        ("remote.origin.vcs", "evil"),
        ("url.ext::{trap} .insteadOf", "{remote}"),
    ],
    ids=["ext", "helper", "vcs", "insteadOf"],
)
def test_transports_that_run_programs_are_refused(
    world, clone, trap, monkeypatch, key, value
):
    helpers = world.base / "bin"
    helpers.mkdir()
    (helpers / "git-remote-evil").symlink_to(trap.program)
    monkeypatch.setenv("PATH", f"{helpers}:{os.environ['PATH']}")
    names = {"trap": trap.program, "remote": world.remote}
    world.git("config", key.format(**names), value.format(**names), at=clone)
    world.git("config", "protocol.allow", "always", at=clone)
    repository = world.repository(clone)
    with pytest.raises(FetchFailed, match="not allowed"):
        repository.fetch(WIRE)
    with pytest.raises(PushFailed):
        repository.push(WIRE, world.head(clone))
    assert repository.ask_freeze(WIRE, "demo-01") is None
    assert trap.sprung == ""


def test_a_transport_the_user_allows_stays_allowed_except_ext(
    world, clone, trap, monkeypatch
):
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file")
    assert world.repository(clone).fetch(WIRE)
    world.git("config", "remote.origin.url", f"ext::{trap.program}", at=clone)
    with pytest.raises(FetchFailed):
        world.repository(clone).fetch(WIRE)
    assert trap.sprung == ""


def test_a_remote_named_like_an_option_is_only_a_name(world, clone, trap):
    evil = Wire(f"--upload-pack={trap.program}", "main", "refs/remotes/origin/main")
    repository = world.repository(clone)
    with pytest.raises(FetchFailed):
        repository.fetch(evil)
    with pytest.raises(PushFailed):
        repository.push(
            Wire(f"--receive-pack={trap.program}", "main", WIRE.tracking_ref),
            world.head(clone),
        )
    assert repository.ask_freeze(evil, "demo-01") is None
    assert trap.sprung == ""


class _Locked(BaseHTTPRequestHandler):
    """Asks everybody for a password."""

    seen: list[str]

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization", ""))  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def locked_server() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Locked)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_nobody_is_asked_for_a_password(world, clone, trap, locked_server, monkeypatch):
    world.git("config", "core.askPass", str(trap.program), at=clone)
    monkeypatch.setenv("SSH_ASKPASS", str(trap.program))
    monkeypatch.setenv("GIT_ASKPASS", str(trap.program))
    world.git(
        "remote",
        "set-url",
        "origin",
        f"http://127.0.0.1:{locked_server.server_port}/x.git",
        at=clone,
    )
    with pytest.raises(FetchFailed, match="terminal prompts disabled"):
        world.repository(clone).fetch(WIRE)
    assert trap.sprung == ""


def test_the_users_credential_helper_is_asked(world, clone, locked_server):
    helper = "!f() { echo username=me; echo password=secret; }; f"
    world.git("config", "credential.helper", helper, at=clone)
    world.git(
        "remote",
        "set-url",
        "origin",
        f"http://127.0.0.1:{locked_server.server_port}/x.git",
        at=clone,
    )
    with pytest.raises(FetchFailed):
        world.repository(clone).fetch(WIRE)
    expected = "Basic " + base64.b64encode(b"me:secret").decode()
    assert expected in locked_server.seen  # type: ignore[attr-defined]


def test_the_users_ssh_command_is_used(world, clone, trap):
    trap.program.write_text(f"#!/bin/sh\necho \"$*\" >> '{trap.mark}'\nexit 255\n")
    world.git("config", "core.sshCommand", str(trap.program), at=clone)
    world.git("remote", "set-url", "origin", "ssh://host.invalid/x.git", at=clone)
    with pytest.raises(FetchFailed):
        world.repository(clone).fetch(WIRE)
    assert "host.invalid" in trap.sprung


def test_nothing_is_written_through_a_linked_thread(
    world, clone, other_clone, tmp_path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (other_clone / "demo-05").symlink_to(outside)
    world.git("add", "demo-05", at=other_clone)
    world.commit(other_clone, {})
    repository = world.repository(clone)
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    assert not repository.has_directory("demo-05")
    with pytest.raises(IsSymlink), repository.lock():
        repository.begin_posting("demo-05/ACK.md", b"x")
    with pytest.raises(IsSymlink):
        repository.write_file("demo-05/ACK.md", b"x")
    assert list(outside.iterdir()) == []
    assert world.porcelain(clone) == []


def test_replacement_objects_do_not_hide_what_was_committed(world, clone):
    first = world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    second = world.commit(clone, {"demo-01/B.md": envelope("demo-01")})
    world.git("replace", second, first, at=clone)
    history = GitRepository(clone).history(second)
    assert [change.path for change in [*history.commits][-1].changes] == [
        "demo-01/B.md"
    ]


@pytest.mark.parametrize(
    "notes",
    [
        lambda world, clone: world.git(
            "notes", "add", "-m", ":000000 100644 0 1 A", at=clone
        ),
        lambda world, clone: world.git("config", "log.decorate", "full", at=clone),
        lambda world, clone: world.git("config", "log.showRoot", "false", at=clone),
        lambda world, clone: world.git("config", "format.pretty", "oneline", at=clone),
        lambda world, clone: world.git("config", "diff.renames", "copies", at=clone),
        lambda world, clone: world.git(
            "config", "status.showUntrackedFiles", "no", at=clone
        ),
        lambda world, clone: world.git("config", "color.ui", "always", at=clone),
        lambda world, clone: world.git(
            "config", "i18n.logOutputEncoding", "latin1", at=clone
        ),
        lambda world, clone: world.git("config", "core.abbrev", "4", at=clone),
        lambda world, clone: world.git("config", "core.quotePath", "true", at=clone),
        lambda world, clone: world.git("config", "log.mailmap", "true", at=clone),
    ],
)
def test_the_users_taste_in_output_does_not_confuse_the_reading_of_it(
    world, clone, notes
):
    message = (
        "commit 0000\n\ncommit abc\nauthor X <x> 1 +0\n\n:100644 fake\té\n\x1b[31m"
    )
    world.commit(clone, {"demo-01/é.md": envelope("demo-01")}, message)
    notes(world, clone)
    (clone / "loose.txt").write_text("x")
    repository = GitRepository(clone)
    [root, record] = repository.history(world.head(clone)).commits
    assert root.changes == ()
    assert record.message == message
    assert [(change.status, change.path) for change in record.changes] == [
        ("A", "demo-01/é.md")
    ]
    assert [file.line for file in repository.survey().dirty] == ["?? loose.txt"]


def test_odd_settings_are_read_as_git_reads_them(
    world, clone, make_key: Callable[[str], Path]
):
    world.git("config", "commit.gpgsign", "on", at=clone)
    world.git("config", "gpg.format", "ssh", at=clone)
    world.git("config", "user.signingkey", str(make_key("k")), at=clone)
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with repository.lock(), repository.begin_posting("demo-01/ACK.md", b"x") as posting:
        commit = posting.land("ACK: x")
    assert "gpgsig " in world.git("cat-file", "commit", commit, at=clone)
