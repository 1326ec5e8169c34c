"""Rig commands against the npm reference: start-up, and listing ten thousand envelopes, warm and cold."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.harness import PEERS, SCRIPTS, Budget, Comparison, cpu_milliseconds, wall_seconds
from bridgehead.rigs.drafts import Author, draft_send

ENVELOPES = 10_000
THREADS = 200


def comparisons() -> list[Comparison]:
    node, script = shutil.which("node"), PEERS / "rig-bridge"
    if node is None or not script.exists():
        raise SystemExit("bench: node or the npm reference is missing; `make bench` installs it")
    theirs = [node, str(script.resolve())]
    ours = [str(SCRIPTS / "rig-bridge")]
    home = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
    small = _repository(home, "small", threads=1, envelopes=20)
    many = _repository(home, "many", threads=THREADS, envelopes=ENVELOPES)
    one = _repository(home, "one", threads=1, envelopes=ENVELOPES)
    environ = _environ(home)

    def cpu(argv: list[str], where: Path) -> float:
        return cpu_milliseconds(argv, cwd=where, environ=environ)

    def wall(argv: list[str], where: Path) -> float:
        return wall_seconds(lambda: _run(argv, where, environ)) * 1000

    def cold(argv: list[str], where: Path) -> float:
        shutil.rmtree(where / ".git" / "bridgehead", ignore_errors=True)
        return wall(argv, where)

    start = Budget(at_most=0.6)
    return [
        Comparison(
            f"rig {name}, 20 envelopes",
            "ms CPU",
            lambda command=command: cpu([*ours, *command], small),  # type: ignore[misc]
            lambda command=command: cpu([*theirs, *command], small),  # type: ignore[misc]
            "npm rig-bridge",
            start,
        )
        for name, command in (
            ("status", ["status"]),
            ("thread", ["thread", "thread-000"]),
            ("--help", ["--help"]),
        )
    ] + [
        Comparison(
            f"rig {name}, {ENVELOPES} envelopes, {state}",
            "ms",
            lambda command=command, where=where, measure=measure: measure([*ours, *command], where),  # type: ignore[misc]
            lambda command=command, where=where: wall([*theirs, *command], where),  # type: ignore[misc]
            "npm rig-bridge",
            Budget(at_most=limit),
            rounds=3,
        )
        for name, command, where in (("status", ["status"], many), ("thread", ["thread", "thread-000"], one))
        for state, measure, limit in (("warm", wall, 0.1), ("cold", cold, 1 / 3))
    ]


def _environ(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "BRIDGEHEAD_HOME": str(home / "bridgehead"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "RIG_BRIDGE_NO_PAGER": "1",
    }


def _run(argv: list[str], where: Path, environ: dict[str, str]) -> None:
    subprocess.run(argv, cwd=where, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _repository(home: Path, name: str, *, threads: int, envelopes: int) -> Path:
    """A bridge with one commit per envelope, made by fast-import."""
    path = home / name
    environ = _environ(home)
    _run(["git", "init", "-q", "-b", "main", str(path)], home, environ)
    stream = b"".join(_history(threads, envelopes))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, env=environ, input=stream, check=True)
    _run(["git", "reset", "-q", "--hard", "main"], path, environ)
    _run([str(SCRIPTS / "rig-bridge"), "init", "--rig-id", "bench"], path, environ)
    return path


def _history(threads: int, envelopes: int) -> Iterator[bytes]:
    for number in range(envelopes):
        thread = f"thread-{number % threads:03d}"
        draft = draft_send(
            Author("mac-m5max"),
            "STATE",
            thread,
            ["windows-5080"],
            "2026-05-15",
            tldr=f"step {number}",
            body=f"# {number}\n\ndone\n",
        )
        text = draft.text.encode()
        moment = 1_778_800_000 + number
        name = f"{thread}/STATE-{number // threads + 2}.md"
        yield (
            (
                f"commit refs/heads/main\ncommitter Op One <op1@example.com> {moment} +0000\n"
                f"data 5\nstate\nM 100644 inline {name}\ndata {len(text)}\n"
            ).encode()
            + text
            + b"\n"
        )
