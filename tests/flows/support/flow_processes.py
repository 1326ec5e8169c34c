"""Runs `bridgehead flow` and flow programs as processes, in a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BRIDGEHEAD = Path(sys.executable).parent / "bridgehead"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    home: Path
    root: Path

    def environ(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "TMPDIR")
            if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "BRIDGEHEAD_HOME": str(self.home / "bridgehead"),
            "COLUMNS": "160",
        }

    def command(self, *words: str) -> list[str]:
        return [str(BRIDGEHEAD), "flow", *words]

    def flow(self, *words: str, stdin: str = "", cwd: Path | None = None) -> Done:
        """`bridgehead flow …`"""
        return self.run(*self.command(*words), stdin=stdin, cwd=cwd)

    def run(
        self,
        *command: str,
        stdin: str = "",
        cwd: Path | None = None,
        timeout_seconds: float = 120,
    ) -> Done:
        done = subprocess.run(
            command,
            input=stdin.encode(),
            cwd=cwd or self.root,
            env=self.environ(),
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def request(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            (self.root / ".agent-request.json").read_bytes()
        )
        return document


def shell_in(folder: Path) -> Shell:
    made = Shell(folder / "home", folder / "project")
    made.home.mkdir()
    made.root.mkdir()
    return made
