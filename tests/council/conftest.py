"""A project with git, an environment of its own, and a machine whose programs are scripted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridgehead.council.runtimes.exchange import HttpReply
from bridgehead.council.runtimes.machine import Machine
from bridgehead.host.command import Command, CommandResult, Ended


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
        f"GIT_{who}_{what}": "t@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
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
        {
            "src/app.py": "import os\n\nprint(os.name)\n",
            "src/db.py": "x = 1\n",
            ".gitignore": "build/\n",
        },
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


class FakeMachine(Machine):
    """A machine with the programs, files and servers a test gives it; nothing of the real one is looked at."""

    def __init__(
        self,
        programs: dict[str, Callable[[Command], tuple[int, str]]] | None = None,
        *,
        environment: dict[str, str] | None = None,
        files: dict[str, str] | None = None,
        pages: dict[str, HttpReply] | None = None,
        modules: tuple[str, ...] = (),
        confined_by: tuple[str, str] | None = ("landlock", ""),
    ) -> None:
        super().__init__(
            {"HOME": "/home/user", **(environment or {})},
            run=self._run_program,
            get=self._get_page,
        )
        self._programs = programs or {}
        self._files = files or {}
        self._pages = pages or {}
        self._modules = modules
        self._confined_by = confined_by
        self.commands: list[tuple[str, ...]] = []

    def confinement(
        self, *, nests: bool, brought: Sequence[str] = ()
    ) -> tuple[str, str] | None:
        return self._confined_by

    def which(self, program: str) -> str | None:
        return f"/bin/{program}" if program in self._programs else None

    def beside_python(self, program: str) -> str | None:
        return None

    def read_user_file(self, path: Path) -> str | None:
        return self._files.get(str(path))

    def can_import(self, module: str) -> bool:
        return module in self._modules

    def _run_program(
        self,
        command: Command,
        *,
        timeout_seconds: float | None,
        idle_seconds: float | None,
    ) -> CommandResult:
        self.commands.append(tuple(command.argv))
        code, printed = self._programs[Path(command.argv[0]).name](command)
        return CommandResult(
            tuple(command.argv),
            Ended.EXITED,
            code,
            datetime(2026, 11, 15, tzinfo=UTC),
            stdout=printed.encode(),
        )

    def _get_page(
        self, url: str, headers: Mapping[str, str], timeout_seconds: float
    ) -> HttpReply:
        return self._pages.get(url, HttpReply(0, failure="connection refused"))


FLAGS = {
    "claude": "--setting-sources --strict-mcp-config --tools --effort --no-session-persistence",
    "codex": "--json --sandbox --skip-git-repo-check --config --ephemeral",
    "gemini": "--approval-mode --admin-policy --skip-trust --output-format",
    "opencode": "--format --agent --model",
    "agy": "--print",
}


def cli(name: str, **answers: tuple[int, str]) -> Callable[[Command], tuple[int, str]]:
    """A stand-in for an agent CLI: version, help, and what it says to other commands (words joined by `_`)."""

    def run(command: Command) -> tuple[int, str]:
        words = "_".join(word for word in command.argv[1:] if not word.startswith("-"))
        if "--version" in command.argv:
            return 0, f"{name} 1.2.3"
        if "--help" in command.argv:
            return 0, FLAGS[name]
        return answers.get(words, (0, ""))

    return run


@pytest.fixture
def machine() -> type[FakeMachine]:
    return FakeMachine


@pytest.fixture
def stand_in() -> Callable[..., Callable[[Command], tuple[int, str]]]:
    return cli
