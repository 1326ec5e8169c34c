"""How much processor time a command costs before it does anything, against the npm reference."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.harness import PEERS, SCRIPTS, Budget, Comparison, cpu_milliseconds


def comparisons() -> list[Comparison]:
    node, reference = shutil.which("node"), PEERS / "rig-bridge"
    if node is None or not reference.exists():
        raise SystemExit(
            "bench: node or the npm reference is missing; `make bench` installs it"
        )
    home = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
    environ = {**os.environ, "BRIDGEHEAD_HOME": str(home), "HOME": str(home)}
    program = str(SCRIPTS / "bridgehead")
    # The script itself, without npm's shim: the comparison must not profit from a slow launcher.
    peer = [node, str(reference.resolve()), "--version"]

    def ours(*arguments: str) -> float:
        return cpu_milliseconds([program, *arguments], cwd=home, environ=environ)

    def theirs() -> float:
        return cpu_milliseconds(peer, cwd=home, environ=environ)

    def answer() -> float:
        """One that is asked for anew each time, outside of what is measured."""
        folder = tempfile.mkdtemp(dir=home)
        asking = [
            program,
            "flow",
            "run",
            "ask",
            "--agent",
            "bench",
            "--prompt",
            "Go on?",
            "--dir",
            folder,
        ]
        subprocess.run(asking, cwd=home, env=environ, capture_output=True, check=False)
        listed = subprocess.run(
            [program, "pending", "--json"],
            cwd=home,
            env=environ,
            capture_output=True,
            check=True,
        )
        return ours("answer", json.loads(listed.stdout)["items"][0]["id"], "yes")

    name = "npm rig-bridge --version"
    return [
        Comparison(
            "bridgehead --version",
            "ms CPU",
            lambda: ours("--version"),
            theirs,
            name,
            Budget(at_most=0.35),
        ),
        Comparison(
            "bridgehead doctor --json",
            "ms CPU",
            lambda: ours("doctor", "--json"),
            theirs,
            name,
            Budget(at_most=0.4),
        ),
        Comparison(
            "bridgehead pending --json",
            "ms CPU",
            lambda: ours("pending", "--json"),
            theirs,
            name,
            Budget(at_most=0.4),
        ),
        Comparison(
            "bridgehead answer", "ms CPU", answer, theirs, name, Budget(at_most=0.4)
        ),
    ]
