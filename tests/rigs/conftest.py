"""A little world of git repositories: a bare remote and clones of it, with a home directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.rigs.repositories.git.repository import GitRepository
from rigs.support.git_world import GLOBAL_CONFIG, World
from support.git_copies import copy_clones

pytest.register_assert_rewrite("suites.repository_suite")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of one's own; nothing of the machine's configuration is seen."""
    directory = tmp_path / "home"
    directory.mkdir()
    config = directory / ".gitconfig"
    config.write_text(GLOBAL_CONFIG)
    for name in [
        name
        for name in os.environ
        if name.startswith(("GIT_", "XDG_", "SSH_", "GNUPG"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return directory


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a world lies ready to be copied."""
    return tmp_path_factory.mktemp("worlds")


@pytest.fixture
def world(tmp_path: Path, home: Path, worlds: Path) -> World:
    """A remote with one empty commit and two clones, `a` and `b`."""
    ready = worlds / "remote and two clones"
    if not ready.exists():
        _make_world(ready)
    copy_clones(ready, tmp_path)
    return World(tmp_path)


def _make_world(base: Path) -> None:
    base.mkdir()
    made = World(base)
    made.git("init", "-q", "--bare", "-b", "main", str(made.remote))
    clone = made.clone("a")
    made.git("commit", "-q", "--allow-empty", "-m", "root", at=clone)
    made.git("push", "-q", "-u", "origin", "main", at=clone)
    made.clone("b")


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
        subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, capture_output=True
        )
        return path.with_suffix(".pub")

    return make
