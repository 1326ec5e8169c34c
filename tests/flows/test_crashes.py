"""kill -9 at every write of every command, and the next command goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from flows.support.crash_program import SCENARIOS
from flows.support.flow_processes import shell_in

FEWEST_WRITES = 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_at_any_write_loses_nothing_and_needs_no_repair(
    name: str, tmp_path: Path
) -> None:
    shell = shell_in(tmp_path)
    program = Path(__file__).parent / "support/crash_program.py"
    done = shell.run(
        sys.executable, str(program), name, str(tmp_path / "lab"), timeout_seconds=280
    )
    assert done.code == 0, done.err
    verdicts = json.loads(done.out)
    wrong = {
        number: verdict
        for number, verdict in enumerate(verdicts, start=1)
        if verdict != "fine"
    }
    assert wrong == {}
    # The crashes really happened: before and after each of a good number of writes.
    assert len(verdicts) >= FEWEST_WRITES
