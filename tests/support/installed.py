"""Runs the installed commands in a home of their own, as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import forked

SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Machine:
    """A user's home and a project directory; no command run here sees the real ones."""

    home: Path
    project: Path

    def environ(self, **extra: str) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "TMPDIR")
            if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "BRIDGEHEAD_HOME": str(self.home / "bridgehead"),
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "COLUMNS": "160",
            **extra,
        }

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        program: str = "bridgehead",
        **extra: str,
    ) -> Done:
        done = forked.run(
            program,
            arguments,
            stdin=stdin,
            cwd=self.project,
            env=self.environ(**extra),
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def shell(self, line: str, **extra: str) -> Done:
        """A line typed into bash, with the installed commands on its path."""
        path = f"{SCRIPTS}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            stdin=subprocess.DEVNULL,
            cwd=self.project,
            env=self.environ(PATH=path, **extra),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        *arguments: str,
        program: str = "bridgehead",
        typed: bool = False,
        **extra: str,
    ) -> subprocess.Popen[str]:
        """A command that goes on running; its stdout can be read line by line, and written to if it is `typed` to."""
        return subprocess.Popen(
            [str(SCRIPTS / program), *arguments],
            stdin=subprocess.PIPE if typed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.project,
            env=self.environ(**extra),
            text=True,
        )

    @property
    def record(self) -> Path:
        return self.home / "bridgehead" / "data" / "record.db"


def machine(folder: Path) -> Machine:
    made = Machine(folder / "home", folder / "project")
    made.home.mkdir()
    (made.project / ".git").mkdir(parents=True)
    return made
