"""What analysers said about a file, kept by what it depends on: analyser, rules, name and content of the file.

One small database in the user's cache folder; transactions make it atomic, and the longest unused rows go first. It
holds messages, never a line of a file. A cache that cannot be read or written is no reason to fail: everything is
analysed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import Message
from bridgehead.errors import FileError
from bridgehead.host.directories import make_private_dir

FILE: Final = "static-answers.db"
MOST_ROWS: Final = 300_000
_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 5.0
_FIELDS: Final = ("line", "rule", "text", "severity", "domain", "action", "quotable", "cwe")
_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS answer (key BLOB PRIMARY KEY, said TEXT NOT NULL, used INTEGER NOT NULL)"
)

logger = logging.getLogger(__name__)


def key_of(digest: str, path: str, text: str) -> bytes:
    """The name an answer is kept under."""
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    named = f"{digest}\0{path}\0".encode("utf-8", "surrogatepass")
    return hashlib.sha256(named + content).digest()[:16]


class AnswerCache:
    """The kept answers of one folder; None keeps nothing."""

    def __init__(self, folder: Path | None, most_rows: int = MOST_ROWS) -> None:
        self._folder = folder
        self._most_rows = most_rows

    def read(self, wanted: Mapping[bytes, str]) -> dict[bytes, list[Message]]:
        """What is known of `wanted`, which gives the path of every key."""
        found: dict[bytes, list[Message]] = {}
        with self._opened() as database:
            if database is None:
                return found
            try:
                for keys in _batches(list(wanted)):
                    marks = ",".join("?" * len(keys))
                    for key, said in database.execute(
                        f"SELECT key, said FROM answer WHERE key IN ({marks})", keys
                    ):
                        found[key] = _read(said, wanted[key])
            except (sqlite3.Error, ValueError, TypeError) as error:
                logger.warning("the kept answers of analysers are not used: %s", error)
                self._forget()
                return {}
        return found

    def write(self, said: Mapping[bytes, Sequence[Message]], used: Iterable[bytes]) -> None:
        """Keep new answers, and remember which of the old ones were of use."""
        with self._opened() as database:
            if database is None:
                return
            try:
                with database:
                    (last,) = database.execute("SELECT coalesce(max(used), 0) FROM answer").fetchone()
                    rows = [(key, _written(messages), last + 1) for key, messages in said.items()]
                    database.executemany("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", rows)
                    for keys in _batches(list(used)) if rows else ():
                        marks = ",".join("?" * len(keys))
                        database.execute(f"UPDATE answer SET used = {last + 1} WHERE key IN ({marks})", keys)
                    (count,) = database.execute("SELECT count(*) FROM answer").fetchone()
                    if count > self._most_rows:
                        oldest = "SELECT key FROM answer ORDER BY used, key LIMIT ?"
                        surplus = count - self._most_rows
                        database.execute(f"DELETE FROM answer WHERE key IN ({oldest})", (surplus,))
            except sqlite3.Error as error:
                logger.warning("the answers of analysers were not kept: %s", error)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection | None]:
        database = self._open()
        if database is None:
            yield None
            return
        with closing(database):
            yield database

    def _open(self) -> sqlite3.Connection | None:
        if self._folder is None:
            return None
        try:
            make_private_dir(self._folder)
            database = sqlite3.connect(self._folder / FILE, timeout=_WAIT_SECONDS)
        except (FileError, OSError, sqlite3.Error) as error:
            logger.warning("the kept answers of analysers are not used: %s", error)
            return None
        try:
            database.execute(_MAKE)
        except sqlite3.Error as error:
            logger.warning("the kept answers of analysers are not used: %s", error)
            database.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                self._forget()  # it is no database
            return None
        return database

    def _forget(self) -> None:
        if self._folder is not None:
            (self._folder / FILE).unlink(missing_ok=True)


def _batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), _AT_ONCE):
        yield keys[start : start + _AT_ONCE]


def _written(messages: Sequence[Message]) -> str:
    return json.dumps([[getattr(message, name) for name in _FIELDS] for message in messages])


def _read(said: str, path: str) -> list[Message]:
    if said == "[]":
        return []
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in json.loads(said)]
    return [Message(path=path, **(row | {"severity": Severity(row["severity"])})) for row in rows]
