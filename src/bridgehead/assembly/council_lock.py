"""One process at a time works on a council; whoever comes second is told who does.

A lock file per council in the user's data directory. The kernel lets go of the lock when the process ends, however it
ends; the file itself is taken away by a council that came to its end, so one that is left says: this one was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.errors import LockTimeout, UserError
from bridgehead.host.files import make_private_dir
from bridgehead.host.locks import FileLock, LockReentered, read_holder

# Long enough for somebody who only looks whether the lock is held.
WAIT_SECONDS: Final = 1.0


class CouncilBusy(UserError):
    """Another process works on this council."""

    def __init__(self, review_id: str, holder: str | None) -> None:
        by = f" ({holder})" if holder else ""
        super().__init__(
            f"council {review_id} is being held by another process{by}",
            hint="wait until it ends, or stop it; nothing was changed",
        )


@contextmanager
def hold_council(assembly: Assembly, review_id: str) -> Iterator[None]:
    """Be the only process that works on this council."""
    path = _path(assembly, review_id)
    make_private_dir(path.parent)
    lock = FileLock(path, WAIT_SECONDS)
    try:
        lock.acquire()
    except LockTimeout as error:
        raise CouncilBusy(review_id, read_holder(path)) from error
    try:
        yield
        # Removed while it is held: who waits for it sees that it is gone and makes a new one.
        with suppress(FileNotFoundError):
            path.unlink()
    finally:
        lock.release()


def was_left_behind(assembly: Assembly, review_id: str) -> bool:
    """Whether the process that held this council on this machine is gone without having ended it."""
    path = _path(assembly, review_id)
    if not path.exists():
        return False
    lock = FileLock(path, 0.0)
    try:
        lock.acquire()
    except (LockTimeout, LockReentered):
        return False
    lock.release()
    return True


def _path(assembly: Assembly, review_id: str) -> Path:
    return assembly.places.data / "locks" / f"council-{review_id}.lock"
