"""A bare remote with clones, and both tools to work in them: ours and the npm reference."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import forked

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = Path(
    os.environ.get("BRIDGEHEAD_PEERS")
    or REPOSITORY / ".venv" / "npm" / "node_modules" / ".bin"
)
REFERENCE = PEERS / "rig-bridge"
OURS = Path(sys.executable).parent / "rig-bridge"

needs_reference = pytest.mark.skipif(
    shutil.which("node") is None or not REFERENCE.exists(),
    reason="node or the npm reference is not installed",
)
needs_ssh_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"
)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> Done:
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self


@dataclass(frozen=True)
class Clone:
    """One clone of the bridge; `rig` runs our tool in it, `reference` the other one."""

    path: Path
    home: Path

    def environ(self, **extra: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "BRIDGEHEAD_HOME": str(self.home / "bridgehead"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            **extra,
        }

    def run(self, *argv: str, stdin: str = "", **extra: str) -> Done:
        done = subprocess.run(
            argv,
            cwd=self.path,
            env=self.environ(**extra),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def rig(self, *arguments: str, stdin: str = "", **extra: str) -> Done:
        done = forked.run(
            OURS.name,
            arguments,
            stdin=stdin,
            cwd=self.path,
            env=self.environ(**extra),
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(OURS), *arguments],
            cwd=self.path,
            env=self.environ(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def reference(self, *arguments: str) -> Done:
        return self.run(str(REFERENCE), *arguments)

    def git(self, *arguments: str, **extra: str) -> str:
        return self.run("git", *arguments, **extra).ok().out.strip()

    def envelopes(self) -> list[str]:
        """Every committed envelope path of HEAD."""
        return sorted(
            path
            for path in self.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
            if path.endswith(".md")
        )


@dataclass(frozen=True)
class Bridge:
    """The shared repository."""

    base: Path

    @property
    def remote(self) -> Path:
        return self.base / "remote.git"

    def clone(
        self, name: str, rig_id: str | None = None, *, by_reference: bool = False
    ) -> Clone:
        made = Clone(self.base / name, self.base / "home")
        Clone(self.base, made.home).git("clone", "-q", str(self.remote), name)
        if rig_id and by_reference:
            made.reference("init", "--rig-id", rig_id).ok()
            with (made.path / ".git" / "info" / "exclude").open("a") as exclude:
                exclude.write(".bridge/\n")
        elif rig_id:
            made.rig("init", "--rig-id", rig_id).ok()
        return made


def make_bridge(base: Path) -> Bridge:
    """An empty bridge with one root commit."""
    home = base / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Op One\n\temail = op1@example.com\n"
        "[init]\n\tdefaultBranch = main\n[core]\n\tautocrlf = false\n"
    )
    here = Clone(base, home)
    here.git("init", "-q", "--bare", "-b", "main", "remote.git")
    here.git("clone", "-q", "remote.git", "seed")
    seed = Clone(base / "seed", home)
    seed.git("commit", "-q", "--allow-empty", "-m", "root")
    seed.git("push", "-q", "-u", "origin", "main")
    return Bridge(base)


def with_signing_key(clone: Clone, base: Path, email: str = "mike@example.com") -> Path:
    """Give a clone an operator with a fresh ssh key; the public key's path."""
    key = base / f"key-{email.partition('@')[0]}"
    clone.run(
        "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", email, "-f", str(key)
    ).ok()
    for name, value in (
        ("user.name", "Mike Op"),
        ("user.email", email),
        ("gpg.format", "ssh"),
        ("user.signingkey", f"{key}.pub"),
    ):
        clone.git("config", name, value)
    return Path(f"{key}.pub")
