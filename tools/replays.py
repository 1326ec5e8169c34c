"""Leaves a paused and an answered flow, a waiting council, rigs and the record as one version of bridgehead makes them.

    python -m tools.replays --source OLD/src --name COMMIT

Only commands are used, so that it runs any commit: `git archive COMMIT src | tar -x -C OLD`. What they leave is packed
into tests/replays/COMMIT/state.tar.gz; `tests/replays/test_replays.py` goes on with it. Paths are part of what is left,
so it is always made, and gone on with, in the same place.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PLACE = Path("/tmp/bridgehead-replay")
FIXTURES = Path(__file__).parents[1] / "tests" / "replays"
COMMAND = (
    "import sys; sys.argv[0] = 'bridgehead'; from bridgehead.cli import main; main()"
)
FLOW = """\
from bridgehead.flows import flow, main

@flow("release", version="1")
def release(ctx, tag: str):
    words = ctx.step("count", lambda: len(tag))
    notes = ctx.ask("notes", agent="writer", prompt=f"Write release notes for {tag}.")
    return f"{tag} ({words} characters): {notes}"
"""
GIT = "[user]\n\tname = Op One\n\temail = op1@example.com\n[init]\n\tdefaultBranch = main\n"


class Version:
    """The commands of one source tree, run in `PLACE`."""

    def __init__(self, source: Path) -> None:
        self._source = source

    def run(self, folder: str, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=PLACE / folder,
            env={**environment(), "PYTHONPATH": str(self._source)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            raise SystemExit(
                f"bridgehead {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout


def environment() -> dict[str, str]:
    home = str(PLACE / "home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "BRIDGEHEAD_HOME": home,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def make(version: Version) -> None:
    """Everything that one version leaves for the next."""
    for name in ("home", "paused", "answered", "council"):
        (PLACE / name).mkdir(parents=True)
    (PLACE / "home" / ".gitconfig").write_text(GIT)
    for name in ("paused", "answered"):
        (PLACE / name / "release.py").write_text(FLOW)
        version.run(name, "flow", "run", "release.py", "--tag", "v1", code=42)
    version.run("answered", "flow", "respond", "--response", "Faster.")
    (PLACE / "council" / "a.py").write_text("import pickle\npickle.loads(b'')\n")
    _git("council", "init", "-q")
    version.run("council", "council", "review", "a.py", "--runtime", "static", "--runtime", "claude",
                "--host-seat", "claude", code=42)  # fmt: skip
    _git(".", "init", "-q", "--bare", "remote.git")
    _git(".", "clone", "-q", "remote.git", "one")
    _git("one", "commit", "-q", "--allow-empty", "-m", "root")
    _git("one", "push", "-q", "origin", "HEAD")
    _git(".", "clone", "-q", "remote.git", "two")
    (PLACE / "body.md").write_text("The question.\n")
    for name in ("one", "two"):
        version.run(name, "rig", "init", "--rig-id", name)
    version.run("one", "rig", "new", "t1")
    version.run(
        "one",
        "rig",
        "send",
        "REQUEST",
        "--thread",
        "t1",
        "--to",
        "two",
        "--body-file",
        "../body.md",
    )
    version.run("two", "rig", "sync", "--auto")
    version.run("two", "rig", "status")
    version.run(
        "one",
        "rig",
        "send",
        "STATE",
        "--thread",
        "t1",
        "--to",
        "two",
        "--body-file",
        "../body.md",
    )


def _git(folder: str, *arguments: str) -> None:
    subprocess.run(
        ["git", *arguments],
        cwd=PLACE / folder,
        env=environment(),
        check=True,
        capture_output=True,
    )


@contextmanager
def the_place() -> Iterator[Path]:
    """`PLACE`, empty, for one process at a time; gone afterwards."""
    with open(f"{PLACE}.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(mode=0o700)
        try:
            yield PLACE
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def pack(target: Path) -> None:
    """Without what git only makes to be looked at; the same input gives the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(PLACE.rglob("*")):
            if "hooks" in path.parts and path.suffix == ".sample":
                continue
            tar.add(path, path.relative_to(PLACE), recursive=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(
        description="Keep what a version of bridgehead leaves for the next one."
    )
    options.add_argument(
        "--source", type=Path, required=True, help="the folder src of that version"
    )
    options.add_argument("--name", required=True, help="its commit")
    chosen = options.parse_args(arguments)
    with the_place():
        make(Version(chosen.source.resolve()))
        pack(FIXTURES / chosen.name / "state.tar.gz")


if __name__ == "__main__":
    main(sys.argv[1:])
