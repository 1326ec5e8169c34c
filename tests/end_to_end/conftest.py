"""A user with a home of their own who runs the installed command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import Machine, machine


@pytest.fixture
def user(tmp_path: Path) -> Machine:
    """A user with a home and a project of their own."""
    return machine(tmp_path)
