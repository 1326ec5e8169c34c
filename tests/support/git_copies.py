"""Repositories made once and copied for each test: git and its programs start only where a test is about them."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_clones(ready: Path, base: Path) -> None:
    """Copy a remote, its clones and what lies beside them; clones know the others by their paths."""
    shutil.copytree(ready, base, symlinks=True, dirs_exist_ok=True)
    for config in base.glob("*/.git/config"):
        config.write_bytes(config.read_bytes().replace(bytes(ready), bytes(base)))
