"""A bare remote and clones of it, driven with plain git as an operator would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bridgehead.rigs.envelope.body_hash import body_hash
from bridgehead.rigs.repositories.git.repository import GitRepository

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
    thread: str,
    sender: str = "rig-a",
    *,
    body: str = "hello\n",
    kind: str = "ACK",
    date: str = "2026-05-15",
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

    def git(
        self, *arguments: str, at: Path | None = None, check: bool = True, **env: str
    ) -> str:
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

    def commit(
        self,
        clone: Path,
        files: dict[str, bytes],
        message: str = "x",
        *,
        push: bool = True,
    ) -> str:
        """Commit files by hand, as an operator with plain git would."""
        for path, content in files.items():
            target = clone / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            self.git("--literal-pathspecs", "add", "-f", "--", path, at=clone)
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
            "diff-tree",
            "--root",
            "--no-commit-id",
            "--name-only",
            "-r",
            "-z",
            commit,
            at=clone,
        )
        return listed.split("\0")[:-1]
