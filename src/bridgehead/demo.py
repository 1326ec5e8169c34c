"""`make demo`: a council on a small example with mistakes in it, every command shown before it runs.

The example is copied, so nothing of yours is touched; the copy and its report stay where the last lines say.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bridgehead.exit_codes import ExitCode

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "orders"


class Scene(NamedTuple):
    """One command of the story, and the exit codes with which the story goes on."""

    title: str
    arguments: tuple[str, ...]
    allowed: frozenset[ExitCode] = frozenset({ExitCode.DONE})


# A machine without git or Node still sees the whole story, so doctor may find something broken.
STORY = (
    Scene("What this machine offers", ("doctor",), frozenset({ExitCode.DONE, ExitCode.USER})),
    Scene(
        "A council on a small order service: the static seat, and every agent that is installed here",
        ("council", "review", "--intensity", "quick", "--domain", "security", "--non-interactive"),
    ),
    Scene("The same as an exit code, for CI", ("council", "gate"), frozenset({ExitCode.DONE, ExitCode.GATE})),
    Scene("What happened so far", ("events", "--limit", "6")),
)


def main() -> int:
    """Tell the story; end with the exit code of the first command that fails."""
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-demo-"))
    project = _copy_example(folder / "orders")
    environ = {**os.environ, "BRIDGEHEAD_HOME": str(folder / "home")}
    program = str(Path(sys.executable).parent / "bridgehead")
    for scene in STORY:
        _say(f"\n# {scene.title}\n$ bridgehead {' '.join(scene.arguments)}\n")
        done = subprocess.run(
            [program, *scene.arguments], cwd=project, env=environ, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode not in scene.allowed:
            _say(f"\nthe demo stopped: exit code {done.returncode}\n")
            return done.returncode
    _say(_ending(project))
    return ExitCode.DONE


def _copy_example(target: Path) -> Path:
    """The example as a project of its own; with git where there is git, because a council likes a commit."""
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns(".outputs", ".bridgehead", "__pycache__"))
    if shutil.which("git"):
        identity = ("-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "the example")):
            subprocess.run(["git", *identity, *words], cwd=target, check=False, stdin=subprocess.DEVNULL)
    else:
        (target / "bridgehead.toml").touch()
    return target


def _ending(project: Path) -> str:
    pages = sorted((project / ".outputs" / "council").glob("*.html"))
    report = f"The report as a page:  {pages[-1]}\n" if pages else ""
    return f"\n{report}The project:           {project}\nNext: bridgehead --help, docs/tutorial.md\n"


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
