from __future__ import annotations

from pathlib import Path

import pytest

from rig_bridges import Bridge, make_bridge


@pytest.fixture
def bridge(tmp_path: Path) -> Bridge:
    """An empty bridge repository with a bare remote."""
    return make_bridge(tmp_path)
