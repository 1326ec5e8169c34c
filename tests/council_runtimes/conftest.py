from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def quiet_environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which git and agents find nothing of the user who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.fixture
def git(tmp_path: Path, quiet_environment: dict[str, str]) -> Callable[..., str]:
    """Run git in the test's project."""
    identity = {
        f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def run(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-c", "commit.gpgsign=false", *arguments],
            cwd=tmp_path / "project",
            env=quiet_environment | identity,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    return run


@pytest.fixture
def project(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A git repository with one commit: two modules and an ignored folder."""
    root = tmp_path / "project"
    put(
        root,
        {"src/app.py": "import os\n\nprint(os.name)\n", "src/db.py": "x = 1\n", ".gitignore": "build/\n"},
    )
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "-m", "first")
    return root


def put(root: Path, files: dict[str, str | bytes]) -> None:
    """Write files below `root`."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def write() -> Callable[[Path, dict[str, str | bytes]], None]:
    return put
