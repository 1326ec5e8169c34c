"""The record's tables as an ordered list of small steps.

Its version is the number of steps it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

Row = tuple[Any, ...]


class Transaction(Protocol):
    """Runs statements. Placeholders are `?` in every dialect."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return what it yields."""
        ...

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """Run one statement for each row of values, in order, and return what each
        yields.
        """
        ...


class NoRows:
    """A record that does not exist yet, to a reader: an empty one."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return []

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        return [[] for _ in values]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Where the SQL of our databases differs."""

    text: str
    growing_number: str
    """A primary key that counts upwards and never gives a number out twice."""
    number_of_item: str
    """The number of the item that an event `e` of kind pending.… is about: its data
    begin `{"id":"q-12"`.
    """
    table_options: str = ""


# Compared byte by byte, as SQLite and Python do; a language's collation would order ids
# and times otherwise.
POSTGRES: Final = Dialect(
    text='text COLLATE "C"',
    growing_number="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    number_of_item="CAST(substring(e.data from '[0-9]+') AS bigint)",
)
SQLITE: Final = Dialect(
    text="TEXT",
    growing_number="INTEGER PRIMARY KEY AUTOINCREMENT",
    number_of_item="CAST(substr(e.data, 10) AS INTEGER)",
    table_options=" STRICT",
)


def m001_events_and_runs(transaction: Transaction, dialect: Dialect) -> None:
    text = dialect.text
    options = dialect.table_options
    transaction.rows(
        f"CREATE TABLE events (seq {dialect.growing_number}, id {text} NOT NULL "
        f"UNIQUE, kind {text} NOT NULL,"
        f" part {text} NOT NULL, at {text} NOT NULL, project {text} NOT NULL, run_id "
        f"{text},"
        f" data {text} NOT NULL){options}"
    )
    # Listings are limited to a kind, a run or a project and paged by seq.
    transaction.rows("CREATE INDEX events_of_kind ON events (kind, seq)")
    transaction.rows(
        "CREATE INDEX events_of_run ON events (run_id, seq) WHERE run_id IS NOT NULL"
    )
    transaction.rows("CREATE INDEX events_of_project ON events (project, seq)")
    transaction.rows(
        f"CREATE TABLE runs (id {text} PRIMARY KEY, part {text} NOT NULL, kind {text} "
        "NOT NULL,"
        f" title {text} NOT NULL, state {text} NOT NULL, started_at {text} NOT NULL, "
        f"updated_at {text} NOT NULL,"
        f" project {text} NOT NULL, ended_at {text}, data {text} NOT NULL){options}"
    )
    transaction.rows("CREATE INDEX runs_by_start ON runs (started_at, id)")


def m002_pending(transaction: Transaction, dialect: Dialect) -> None:
    text = dialect.text
    options = dialect.table_options
    transaction.rows(
        f"CREATE TABLE pending (number {dialect.growing_number}, part {text} NOT "
        f"NULL, project {text} NOT NULL,"
        f" key {text} NOT NULL, kind {text} NOT NULL, state {text} NOT NULL, run_id "
        f"{text},"
        f" question {text} NOT NULL, opened_at {text} NOT NULL, answer {text},"
        f" UNIQUE (part, project, key),"
        f" CHECK ((state = 'answered') = (answer IS NOT NULL))){options}"
    )
    # What is open is asked for all the time and stays a handful among ever more that is
    # closed.
    transaction.rows("CREATE INDEX pending_by_state ON pending (state, number)")


def m003_sums(transaction: Transaction, _dialect: Dialect) -> None:
    # A row written before has none: whether it was changed since cannot be known.
    for table in ("events", "runs", "pending"):
        transaction.rows(f"ALTER TABLE {table} ADD COLUMN sum INTEGER")


MIGRATIONS: Final[tuple[Callable[[Transaction, Dialect], None], ...]] = (
    m001_events_and_runs,
    m002_pending,
    m003_sums,
)
SUMMED: Final = 3
"""The version since which each row is written with its sum."""
LATEST: Final = len(MIGRATIONS)


def migrate(
    transaction: Transaction, dialect: Dialect, *, start: int, end: int
) -> None:
    """Run the steps that lead from version `start` to version `end`."""
    for step in MIGRATIONS[start:end]:
        step(transaction, dialect)
