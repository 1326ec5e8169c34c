"""The examples of docs/extending.md work: each is applied to a copy of the package, and its check is run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|yml))\n")
COMMANDS = {
    "bridgehead": "main",
    "rig-bridge": "rig_bridge",
}
ADDITIONS = [
    "A runtime",
    "A static rule",
    "A report format",
    "A door of the bus",
    "A transport",
    "A store",
    "A rig command",
    "An MCP tool",
]


@dataclass(frozen=True)
class Copy:
    """A copy of the package with every example of the page applied to it."""

    folder: Path
    checks: dict[str, Path]

    def environment(self, home: Path) -> dict[str, str]:
        paths = [
            self.folder / "src",
            self.folder,
            ROOT / "tests",
        ]
        return {
            "PATH": os.pathsep.join(
                [
                    str(self.folder / "bin"),
                    str(Path(sys.executable).parent),
                    os.environ["PATH"],
                ]
            ),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "HOME": str(home),
            "BRIDGEHEAD_HOME": str(home / "bridgehead"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
        }


def sections() -> dict[str, str]:
    return dict(SECTION.findall(PAGE))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    folder = tmp_path / "copy"
    # With what Python has compiled: it keeps the times of the files and stays valid.
    shutil.copytree(ROOT / "src" / "bridgehead", folder / "src" / "bridgehead")
    write_commands(folder / "bin")
    checks = {}
    for title, text in sections().items():
        for language, block in BLOCK.findall(text):
            check = apply(folder, language, block)
            if check is not None:
                checks[title] = check
    return Copy(folder, checks)


def write_commands(folder: Path) -> None:
    folder.mkdir()
    for name, function in COMMANDS.items():
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\n"
            "import sys\n"
            f"from bridgehead.cli import {function}\n"
            f"sys.exit({function}())\n"
        )
        script.chmod(0o755)


def apply(folder: Path, language: str, block: str) -> Path | None:
    """Carry out one block of the page; return the file of a check."""
    if language == "diff":
        change(folder, block)
        return None
    if language == "toml":
        install_entry_points(folder, block)
        return None
    named = FILE.match(block)
    assert named, f"a block without a file name: {block[:60]!r}"
    path = folder / named[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block[named.end() :], encoding="utf-8")
    is_check = path.parent.name == "tests"
    return path if is_check else None


def change(folder: Path, block: str) -> None:
    """Change files as a diff says. It has no line numbers: the lines of a hunk stand once in its file."""
    for part in re.split(r"^--- .*\n", block, flags=re.MULTILINE)[1:]:
        name, *hunks = re.split(r"^@@\n", part, flags=re.MULTILINE)
        path = folder / name.strip().removeprefix("+++ b/")
        text = path.read_text(encoding="utf-8")
        for hunk in hunks:
            lines = [(line[:1], line[1:]) for line in hunk.splitlines(keepends=True)]
            before = "".join(line for mark, line in lines if mark != "+").lstrip("\n")
            after = "".join(line for mark, line in lines if mark != "-").lstrip("\n")
            assert text.count(before) == 1, f"{path.name} does not have once:\n{before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def install_entry_points(folder: Path, block: str) -> None:
    """Announce entry points as an installed package does."""
    lines = []
    for group, entries in tomllib.loads(block)["project"]["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    information = folder / "example-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: example\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_the_page_has_an_example_of_each_addition() -> None:
    assert list(sections()) == ADDITIONS


def test_every_example_works_as_it_is_printed(copy: Copy, tmp_path: Path) -> None:
    assert list(copy.checks) == ADDITIONS
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            f"--rootdir={copy.folder}",
            f"--basetemp={tmp_path / 'work'}",
            *map(str, copy.checks.values()),
        ],
        cwd=copy.folder,
        env=copy.environment(tmp_path),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
