"""Child Python programs for the host tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RunScript = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_script(tmp_path: Path) -> RunScript:
    """Run Python source in a fresh interpreter and return what it printed and how it ended."""

    def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        return subprocess.run(
            [sys.executable, "-c", source, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python source with pipes on all sides; whatever is left is killed at the end."""
    children: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", source, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
