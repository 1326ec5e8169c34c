"""The executable scenarios of rigs/cli.json, run with our `rig-bridge` and, to check the runner, with the npm one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from support.rig_scenarios import Scenario, check
from support.vector_files import REPOSITORY, absent, load

DOCUMENT = load("rigs", "cli.json")
PEERS = Path(
    os.environ.get("BRIDGEHEAD_PEERS")
    or REPOSITORY / ".venv" / "npm" / "node_modules" / ".bin"
)
OURS = [str(Path(sys.executable).parent / "rig-bridge")]
REFERENCE = PEERS / "rig-bridge"


def scenarios(prefix: str) -> list[Any]:
    if DOCUMENT is None:
        return [absent("rigs", "cli.json")]
    return [
        pytest.param(case, id=f"{prefix}-{case['id']}") for case in DOCUMENT["cases"]
    ]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixtures of the scenarios, made once and copied."""
    return tmp_path_factory.mktemp("fixtures")


@pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"
)
@pytest.mark.parametrize("case", scenarios("rigs-cli"))
def test_our_command_does_what_the_scenario_expects(
    case: dict[str, Any], tmp_path: Path, templates: Path
) -> None:
    assert DOCUMENT is not None
    check(Scenario(DOCUMENT, case, tmp_path, OURS, templates / "ours"), case["expect"])


# Where this many of the reference's own recordings replay, the runner itself is sound.
SAMPLE = 12


@pytest.mark.peer
@pytest.mark.skipif(
    not REFERENCE.exists() or shutil.which("node") is None,
    reason="the npm reference is not installed",
)
@pytest.mark.parametrize(
    "case", scenarios("rigs-reference")[:: max(1, len(scenarios("x")) // SAMPLE)]
)
def test_the_reference_does_what_was_recorded_of_it(
    case: dict[str, Any], tmp_path: Path, templates: Path
) -> None:
    assert DOCUMENT is not None
    recorded = {
        key: case["reference"][key]
        for key in ("exit", "stdout", "files")
        if key in case["reference"]
    }
    theirs = templates / "reference"
    check(
        Scenario(DOCUMENT, case, tmp_path, [str(REFERENCE)], theirs),
        recorded,
        ours=False,
    )
