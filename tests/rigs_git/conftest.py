"""A little world of git repositories: a bare remote and clones of it, with a home directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.rigs.body_hash import body_hash
from bridgehead.rigs.repositories.git import GitRepository

GLOBAL_CONFIG = """\
[user]
\tname = Op One
\temail = op1@example.com
[core]
\tautocrlf = false
[init]
\tdefaultBranch = main
"""


def envelope(
    thread: str, sender: str = "rig-a", *, body: str = "hello\n", kind: str = "ACK", date: str = "2026-05-15"
) -> bytes:
    """A valid envelope."""
    lines = [
        "---",
        f"from: {sender}",
        "to: rig-z",
        f"date: {date}",
        f"status: ▶ {kind} sent",
        f"type: {kind}",
        f"thread: {thread}",
        f"body_hash: {body_hash(body)}",
        "---",
        body,
    ]
    return "\n".join(lines).encode()


class World:
    """Bare repository `remote.git` and clones beside it, all under one temporary directory."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.remote = base / "remote.git"

    def git(self, *arguments: str, at: Path | None = None, check: bool = True, **env: str) -> str:
        finished = subprocess.run(
            ["git", *arguments],
            cwd=at or self.base,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if check and finished.returncode != 0:
            raise AssertionError(f"git {arguments}: {finished.stderr.decode()}")
        return finished.stdout.decode("utf-8", "surrogateescape")

    def clone(self, name: str) -> Path:
        self.git("clone", "-q", str(self.remote), name)
        return self.base / name

    def repository(self, clone: Path) -> GitRepository:
        return GitRepository(clone)

    def commit(self, clone: Path, files: dict[str, bytes], message: str = "x", *, push: bool = True) -> str:
        """Commit files by hand, as an operator with plain git would."""
        for path, content in files.items():
            target = clone / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            self.git("add", "-f", "--", path, at=clone)
        self.git("commit", "-q", "--allow-empty", "-m", message, at=clone)
        if push:
            self.git("push", "-q", "origin", "HEAD:main", at=clone)
        return self.head(clone)

    def head(self, clone: Path) -> str:
        return self.git("rev-parse", "HEAD", at=clone).strip()

    def porcelain(self, clone: Path) -> list[str]:
        return self.git("status", "--porcelain", "-uall", at=clone).splitlines()

    def files_of(self, clone: Path, commit: str = "HEAD") -> list[str]:
        listed = self.git(
            "diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-z", commit, at=clone
        )
        return listed.split("\0")[:-1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of one's own; nothing of the machine's configuration is seen."""
    directory = tmp_path / "home"
    directory.mkdir()
    config = directory / ".gitconfig"
    config.write_text(GLOBAL_CONFIG)
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "SSH_", "GNUPG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return directory


@pytest.fixture
def world(tmp_path: Path, home: Path) -> World:
    """A remote with one empty commit and two clones, `a` and `b`."""
    made = World(tmp_path)
    made.git("init", "-q", "--bare", "-b", "main", str(made.remote))
    clone = made.clone("a")
    made.git("commit", "-q", "--allow-empty", "-m", "root", at=clone)
    made.git("push", "-q", "-u", "origin", "main", at=clone)
    made.clone("b")
    return made


@pytest.fixture
def clone(world: World) -> Path:
    return world.base / "a"


@pytest.fixture
def other_clone(world: World) -> Path:
    return world.base / "b"


@pytest.fixture
def repository(world: World, clone: Path) -> GitRepository:
    return world.repository(clone)


@pytest.fixture
def make_key(tmp_path: Path) -> Callable[[str], Path]:
    """Make an SSH key pair and return the path of its public half."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")

    def make(name: str) -> Path:
        path = tmp_path / name
        command = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            f"{name}@example.com",
            "-f",
            str(path),
        ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        return path.with_suffix(".pub")

    return make
