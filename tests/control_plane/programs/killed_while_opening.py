"""PATH N: open the record and be killed right before the N-th statement it runs."""

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from bridgehead.control_plane.stores.sqlite import SqliteStore

path, fatal = Path(sys.argv[1]), int(sys.argv[2])
statements = 0


def count(_statement: str) -> None:
    global statements
    statements += 1
    if statements == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


class CountedConnection(sqlite3.Connection):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_trace_callback(count)


def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    return CountedConnection(*arguments, **options)


setattr(sqlite3, "connect", connect)  # noqa: B010
SqliteStore(path).close()
