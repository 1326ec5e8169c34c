"""Locks that a killed fetch left on refs nobody writes by hand: what the remote had, and freezes.

git waits for no such lock and never removes one, so every later fetch would fail until somebody did.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from bridgehead.rigs.repositories.git_clone import Clone
from bridgehead.rigs.repositories.git_command import GitAnswer

_STALE_SECONDS = 10.0  # git holds such a lock for milliseconds
_BLOCKED = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")
_OURS_TO_CLEAR = ("refs/remotes/", "refs/bridge/")


def clear_stale_locks(clone: Clone, refused: GitAnswer) -> bool:
    """Remove the locks a refusal names if they are old; True if there were any, so that trying again makes sense."""
    named = {Path(name) for name in _BLOCKED.findall(refused.says)}
    stale = [lock for lock in named if _is_fetched_ref(clone, lock) and _is_stale(lock)]
    for lock in stale:
        lock.unlink(missing_ok=True)
    return bool(stale)


def _is_fetched_ref(clone: Clone, lock: Path) -> bool:
    try:
        ref = lock.relative_to(clone.location.common_dir).as_posix()
    except ValueError:
        return False
    return ref.startswith(_OURS_TO_CLEAR) and ".." not in lock.parts


def _is_stale(lock: Path) -> bool:
    try:
        return time.time() - lock.lstat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return True  # it was given back meanwhile
