"""The thread a reader names, if this clone has it (rigs §8 thread)."""

from __future__ import annotations

from bridgehead.errors import UserError
from bridgehead.rigs.fields import parse_thread_id
from bridgehead.rigs.operations.rig import Rig


class ThreadMissingHere(UserError):
    """The thread has no directory in this clone."""

    def __init__(self, thread_id: str, root: str) -> None:
        super().__init__(
            f'thread "{thread_id}" not found in bridge root {root}',
            hint="rig-bridge status lists the threads",
        )


def wanted_thread(rig: Rig, typed: str | None) -> str:
    """The thread somebody asked for, if this clone has it."""
    if not typed:
        raise UserError("thread: <thread-id> is required")
    thread_id = parse_thread_id(typed)
    if not rig.repository.has_directory(thread_id):
        raise ThreadMissingHere(thread_id, rig.repository.root)
    return thread_id
