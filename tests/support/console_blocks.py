"""Finds and runs the console blocks of a document.

A block fenced as `console` holds commands (`$ …`, continued with `> …` lines) and what they print. All blocks of a
document run in one shell, in a directory of their own. In expected output `…` stands for anything, on a line of its
own for any lines.
A command that must end with another exit code than 0 carries the comment `# exits N`. `console no-run` is only shown.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```console[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
EXITS = re.compile(r"#\s*exits\s+(\d+)\s*$")


@dataclass(frozen=True)
class Step:
    """One command of a document with what it should print."""

    command: str
    expected: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        found = EXITS.search(self.command)
        return int(found.group(1)) if found else 0


@dataclass(frozen=True)
class Result:
    code: int
    output: str


def steps(document: str) -> list[Step]:
    """Every command of a document, in order."""
    return [step for block in FENCE.findall(document) for step in _steps_of(block)]


def _steps_of(block: str) -> list[Step]:
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif (line.startswith("> ") or line == ">") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        elif found:
            found[-1][1].append(line)
        else:
            raise AssertionError(f"output before any command: {line!r}")
    return [
        Step("\n".join(command), tuple(_trimmed(output))) for command, output in found
    ]


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def run(commands: list[Step], folder: Path, environ: dict[str, str]) -> list[Result]:
    """Run all commands in one shell; each one's output and exit code."""
    script = "".join(
        f"printf '\\001start\\n'\n{step.command}\nprintf '\\001%s\\n' $?\n"
        for step in commands
    )
    done = subprocess.run(
        ["bash", "-c", script],  # not through stdin, which commands may read
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    pieces = re.findall(r"\x01start\n(.*?)\x01(\d+)\n", done.stdout, flags=re.DOTALL)
    assert len(pieces) == len(commands), (
        f"the shell ended early:\n{done.stdout[-2000:]}"
    )
    return [Result(int(code), output) for output, code in pieces]


def environment(home: Path, scripts: Path) -> dict[str, str]:
    return {
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "HOME": str(home),
        "BRIDGEHEAD_HOME": str(home / "bridgehead"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LANG": "C.UTF-8",
        "COLUMNS": "160",
    }


def matches(expected: tuple[str, ...], output: str) -> bool:
    """Whether `output` is what the document shows, `…` standing for anything."""
    if not expected:
        return True
    pattern = "\n".join(
        ".*" if line.strip() == "…" else _line_pattern(line) for line in expected
    )
    return (
        re.fullmatch(pattern + r"\s*", output.rstrip("\n"), flags=re.DOTALL) is not None
    )


def _line_pattern(line: str) -> str:
    return (
        r"[^\n]*".join(re.escape(piece) for piece in line.rstrip().split("…"))
        + r"[ \t]*"
    )
