"""Repositories made once and copied for each test: git and its programs start only where a test is about them."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_clones(ready: Path, base: Path) -> None:
    """Copy a remote, its clones and what lies beside them; clones know the others by their paths."""
    shutil.copytree(ready, base, symlinks=True, dirs_exist_ok=True)
    for config in base.glob("*/.git/config"):
        config.write_bytes(config.read_bytes().replace(bytes(ready), bytes(base)))


class Kept:
    """A world that took many commands to make; every test gets it as it was made, in the place it was made in.

    The record, the keys and the caches of a clone name their files by path, so it is not moved.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._saved = base.with_name(f"{base.name}-as-made")
        shutil.copytree(base, self._saved, symlinks=True)

    def restored(self) -> Path:
        shutil.rmtree(self._base)
        shutil.copytree(self._saved, self._base, symlinks=True)
        return self._base
