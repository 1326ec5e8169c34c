"""A tree whose modules leave a mark when anything imports them, and commands that run in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.installed import SCRIPTS, Machine

NAMES = [
    "_typeshed",
    "acp",
    "argparse",
    "asyncio",
    "bandit",
    "bridgehead",
    "click",
    "collections",
    "compileall",
    "ctypes",
    "dataclasses",
    "encodings",
    "functools",
    "httpx",
    "importlib",
    "json",
    "logging",
    "msgspec",
    "os",
    "pathlib",
    "pip",
    "re",
    "ruff",
    "runpy",
    "signal",
    "site",
    "sitecustomize",
    "socket",
    "subprocess",
    "typing",
    "usercustomize",
    "venv",
    "yaml",
]


# Of what is built into the interpreter: `encodings` is imported before there is `open`. A confined program cannot write
# the mark; it says so instead.
CODE = """
import posix
try:
    posix.close(posix.open({path!r}, posix.O_CREAT | posix.O_WRONLY))
except OSError:
    posix.write(2, b"PLANTED {name}")
    posix._exit(9)
"""


class Marks:
    """Modules in a tree, each of which would write a file of its name here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def plant(self, tree: Path) -> None:
        """Put every name into `tree`, half of them as packages."""
        for place, name in enumerate(NAMES):
            code = CODE.format(path=str(self.folder / name), name=name)
            if place % 2:
                (tree / f"{name}.py").write_text(code)
            else:
                (tree / name).mkdir()
                (tree / name / "__init__.py").write_text(code)

    @property
    def left(self) -> list[str]:
        """The names that were imported."""
        return sorted(path.name for path in self.folder.iterdir())


def run_in(
    machine: Machine, *words: str, cwd: Path | None = None, **extra: str
) -> subprocess.CompletedProcess[str]:
    """The installed command, as a process of its own."""
    return subprocess.run(
        [str(SCRIPTS / "bridgehead"), *words],
        cwd=cwd or machine.project,
        env=machine.environ(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@contextmanager
def serving(
    machine: Machine, *words: str, **extra: str
) -> Iterator[subprocess.Popen[str]]:
    """A server in the machine's project, ended with the block; its first line is the caller's to read."""
    process = machine.start(*words, **extra)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def python_path() -> str:
    """PATH with the installed commands first."""
    return os.pathsep.join([str(SCRIPTS), "/usr/bin", "/bin"])
