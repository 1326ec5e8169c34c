"""Where a store keeps its one connection: one thread uses it at a time, and a forked child never does.

Neither SQLite nor libpq survives a fork with an open connection: the child would release or reuse what its parent
relies on. So no transaction is under way while the process forks, and the child starts with an empty slot.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Connection = TypeVar("Connection")


class ConnectionSlot(Generic[Connection]):
    """A connection and its lock. Whoever uses `connection` holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: Connection | None = None
        self.closed = False
        _slots.add(self)


_slots: WeakSet[ConnectionSlot[Any]] = WeakSet()
_held: list[ConnectionSlot[Any]] = []
_inherited: list[object] = []


def _hold_all() -> None:
    for slot in list(_slots):
        slot.lock.acquire()
        _held.append(slot)


def _release_all() -> None:
    while _held:
        _held.pop().lock.release()


def _abandon_all() -> None:
    while _held:
        slot = _held.pop()
        # Kept alive on purpose: closing it here would close it for the parent.
        _inherited.append(slot.connection)
        slot.connection = None
        slot.lock = threading.RLock()


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_abandon_all)
