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
from contextlib import closing, contextmanager, suppress
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
_FIELDS: Final = (
    "line",
    "rule",
    "text",
    "severity",
    "domain",
    "action",
    "quotable",
    "cwe",
)
_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS answer (key BLOB PRIMARY KEY, said TEXT NOT NULL, "
    "used INTEGER NOT NULL)"
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
        with self._forgiving(), self._opened() as database:
            for marks, keys in _batches(wanted):
                for key, said in database.execute(
                    f"SELECT key, said FROM answer WHERE key IN ({marks})", keys
                ):
                    found[key] = _read(said, wanted[key])
        return found

    def write(
        self, said: Mapping[bytes, Sequence[Message]], used: Iterable[bytes]
    ) -> None:
        """Keep new answers, and remember which of the old ones were of use."""
        with self._forgiving(), self._opened() as database, database:
            (now,) = database.execute(
                "SELECT coalesce(max(used), 0) + 1 FROM answer"
            ).fetchone()
            rows = [(key, _written(messages), now) for key, messages in said.items()]
            database.executemany("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", rows)
            for marks, keys in _batches(used if rows else ()):
                database.execute(
                    f"UPDATE answer SET used = {now} WHERE key IN ({marks})", keys
                )
            (count,) = database.execute("SELECT count(*) FROM answer").fetchone()
            oldest = "SELECT key FROM answer ORDER BY used, key LIMIT ?"
            surplus = max(0, count - self._most_rows)
            database.execute(f"DELETE FROM answer WHERE key IN ({oldest})", (surplus,))

    def _opened(self) -> closing[sqlite3.Connection]:
        if self._folder is None:
            raise FileNotFoundError("there is no folder for them")
        make_private_dir(self._folder)
        database = sqlite3.connect(self._folder / FILE, timeout=_WAIT_SECONDS)
        try:
            # A reader finds it there, a writer fails with its own error.
            with suppress(sqlite3.OperationalError):
                database.execute(_MAKE)
        except BaseException:
            database.close()
            raise
        return closing(database)

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """What goes wrong ends the use of the cache and nothing else; a damaged one is thrown away."""
        try:
            yield
        except (FileError, OSError, ValueError, TypeError, sqlite3.Error) as error:
            if self._folder is None:
                return
            logger.warning("the cache of analyser results is not used: %s", error)
            if not isinstance(error, FileError | OSError | sqlite3.OperationalError):
                (self._folder / FILE).unlink(missing_ok=True)


def _batches(wanted: Iterable[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    keys = list(wanted)
    for start in range(0, len(keys), _AT_ONCE):
        batch = keys[start : start + _AT_ONCE]
        yield ",".join("?" * len(batch)), batch


def _written(messages: Sequence[Message]) -> str:
    return json.dumps(
        [[getattr(message, name) for name in _FIELDS] for message in messages]
    )


def _read(said: str, path: str) -> list[Message]:
    if said == "[]":
        return []
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in json.loads(said)]
    return [
        Message(path=path, **(row | {"severity": Severity(row["severity"])}))
        for row in rows
    ]
