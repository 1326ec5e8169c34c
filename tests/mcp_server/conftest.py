"""A machine of its own with a small project in it, and no agent on its PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import Machine
from support.mcp_hosts import orders_project


@pytest.fixture
def orders(tmp_path: Path) -> Machine:
    return orders_project(tmp_path)
