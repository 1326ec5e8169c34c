"""A bare remote with clones, made once and copied for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.git_copies import copy_clones
from support.rig_bridges import Bridge, make_bridge


@pytest.fixture(scope="session")
def ready_bridge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bridge(tmp_path_factory.mktemp("bridge")).base


@pytest.fixture
def bridge(tmp_path: Path, ready_bridge: Path) -> Bridge:
    """An empty bridge repository with a bare remote."""
    copy_clones(ready_bridge, tmp_path)
    return Bridge(tmp_path)
