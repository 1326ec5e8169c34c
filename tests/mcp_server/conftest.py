"""A project of its own with the example in it, and no agent on its PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from installed import Machine

EXAMPLE = Path(__file__).resolve().parents[2] / "src" / "bridgehead" / "demo" / "orders"


@pytest.fixture
def orders(tmp_path: Path) -> Machine:
    """The example as a committed project, seen with the system's own programs only."""
    project = tmp_path / "orders"
    shutil.copytree(EXAMPLE, project)
    (tmp_path / "home").mkdir()
    machine = Machine(tmp_path / "home", project)
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        subprocess.run(["git", *identity, *words], cwd=project, env=machine.environ(), check=True)
    return machine
