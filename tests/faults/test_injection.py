"""A few system calls of every scenario fail; `make faults` fails all of them in every way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faults.scenarios import SCENARIOS

TESTS = Path(__file__).parents[1]
POINTS = 4


def inject(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "faults", *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("gcc") or shutil.which("cc")),
    reason="no C compiler: the calls of SQLite and git cannot be failed",
)
@pytest.mark.parametrize(
    "name", [scenario.name for scenario in SCENARIOS if scenario.quick]
)
def test_the_next_command_understands_what_a_failed_call_left(name: str) -> None:
    said = inject("--only", name, "--quick", "--points", str(POINTS))

    counted = re.search(r"(\d+) calls, (\d+) faults, 0 problems", said)
    assert counted is not None and int(counted[1]) > POINTS and int(counted[2]) >= 1, (
        said
    )


@pytest.mark.parametrize(
    "name", ["config trust", "bus participant add", "flow respond"]
)
def test_our_own_calls_are_failed_without_a_compiler_too(name: str) -> None:
    said = inject("--only", name, "--quick", "--points", str(POINTS), "--python")

    assert "0 problems" in said and "not those of SQLite and git" in said
