"""The record in a Postgres database, for several machines: the same tables in a schema
of their own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from bridgehead.control_plane.stores import failures
from bridgehead.control_plane.stores.base import ConnectionSlot, Store, Watch
from bridgehead.control_plane.stores.migrations import (
    LATEST,
    POSTGRES,
    NoRows,
    Row,
    Transaction,
)
from bridgehead.errors import ConfigError, StoreError
from bridgehead.host.clock import Clock, iso_ms

Connection = psycopg.Connection[Row]
DEFAULT_SCHEMA: Final = "bridgehead"
CONNECT_TIMEOUT_SECONDS: Final = 10
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PORTS: Final = re.compile(r"[0-9,]*")
_SETTINGS: Final = """
    SELECT set_config('search_path', %(schema)s, false),
           set_config('lock_timeout', %(lock_timeout)s, false),
           set_config('statement_timeout', %(statement_timeout)s, false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('default_transaction_read_only', %(read_only)s, false),
           CASE WHEN current_setting('synchronous_commit') = 'off'
                THEN set_config('synchronous_commit', 'on', false) END
"""
_VERSIONS_TABLE: Final = "bridgehead_schema"
_NEWEST_VERSION: Final = f"SELECT max(version) FROM {_VERSIONS_TABLE}"
_NO_CONNECTION: Final = {
    "refused": "nothing listens there",
    "resolve host|translate host name": "there is no such host",
    "timeout": "it did not answer in time",
    "No such file": "there is no such socket",
    "SSL|certificate": "no encrypted connection could be agreed on",
}
_SCHEMA_EXISTS: Final = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
T = TypeVar("T")


class UnusableAddress(ConfigError):
    """A Postgres URL that cannot be understood."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the record's postgresql:// address cannot be used: {why}",
            hint="write it as "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME; "
            "special characters in a password are percent-encoded",
        )


class PostgresAddress(msgspec.Struct, frozen=True):
    """What is needed to connect: a libpq URL, plus `?schema=` for the schema the tables
    are in.

    The password is kept apart from everything that is shown: `where` and `repr` never
    hold it, nor does any error.
    """

    parameters: dict[str, str]
    schema: str
    where: str

    def __repr__(self) -> str:
        return f"PostgresAddress({self.where!r})"

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        """Read a `postgresql://` URL."""
        try:
            parts = urlsplit(url)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            schema = query.pop("schema", DEFAULT_SCHEMA)
            found = conninfo_to_dict(
                parts._replace(scheme="postgresql", query=urlencode(query)).geturl()
            )
        except (psycopg.Error, ValueError):
            # Not chained: what the driver says may quote a piece of the password.
            raise UnusableAddress("it cannot be read") from None
        parameters = {
            name: str(value) for name, value in found.items() if value is not None
        }
        host_and_name = parameters.get("host", "") + parameters.get("dbname", "")
        if "@" in host_and_name or "\0" in url:
            raise UnusableAddress("it has more than one '@'")
        if not _PORTS.fullmatch(parameters.get("port", "")):
            raise UnusableAddress("its port is not a number")
        if not _SCHEMA.fullmatch(schema):
            raise UnusableAddress(
                "a schema is named with lower-case letters, digits and '_'"
            )
        parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_SECONDS))
        parameters.setdefault("application_name", "bridgehead")
        return cls(parameters, schema, _shown(parameters))


def _shown(parameters: dict[str, str]) -> str:
    user = f"{parameters['user']}@" if "user" in parameters else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    host = parameters.get("host", "localhost")
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}"


class PostgresStore(Store):
    """A store over one schema of a Postgres database.

    A reader of a schema without tables sees an empty record.
    """

    dialect = POSTGRES
    driver_error = psycopg.Error
    _slot: ConnectionSlot[Connection]

    def __init__(
        self,
        address: PostgresAddress,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
        lock_timeout_seconds: float = 10.0,
        statement_timeout_seconds: float = 30.0,
        up_to: int = LATEST,
    ) -> None:
        super().__init__(
            address.where, read_only=read_only, clock=clock, new_id=new_id, up_to=up_to
        )
        self._address = address
        self._lock_timeout_seconds = lock_timeout_seconds
        self._statement_timeout_seconds = statement_timeout_seconds
        with self._slot.lock, self._translated():
            self._connection()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._slot.lock, self._translated():
            try:
                return work(self._reading())
            except psycopg.OperationalError:
                if not self._connection_broke():
                    raise
                self._drop_connection()
                return work(self._reading())

    def _write(self, work: Callable[[Transaction], T]) -> T:
        if self.read_only:
            raise failures.RecordReadOnly(self.where, "it was opened for reading")
        with (
            self._slot.lock,
            self._translated(),
            self._transaction(self._begun()) as transaction,
        ):
            ((version,),) = transaction.rows(_NEWEST_VERSION)
            self._refuse_newer(version)
            return work(transaction)

    def _version(self, transaction: Transaction) -> int:
        tables = self._tables(transaction)
        if _VERSIONS_TABLE in tables:
            return int(transaction.rows(_NEWEST_VERSION)[0][0])
        if tables:
            raise failures.NotARecord(
                f"schema {self._address.schema} of {self.where}",
                "it contains tables of another program",
            )
        return 0

    def _note_version(self, transaction: Transaction, version: int) -> None:
        if _VERSIONS_TABLE not in self._tables(transaction):
            transaction.rows(
                f"CREATE TABLE {_VERSIONS_TABLE} (version integer PRIMARY KEY, at "
                "text NOT NULL)"
            )
        at = iso_ms(self._clock.now())
        transaction.rows(
            f"INSERT INTO {_VERSIONS_TABLE} (version, at) VALUES (?, ?)", [version, at]
        )

    def _tables(self, transaction: Transaction) -> set[str]:
        return {name for (name,) in transaction.rows(_TABLES, [self._address.schema])}

    def _watch(self) -> Watch:
        return _NotificationWatch(self._connect, self._address.schema)

    # Connecting

    def _connection(self) -> Connection | None:
        """Return the connection to a record that is up to date.

        None when there is none and we only read.
        """
        if self._slot.closed:
            raise failures.RecordClosed(self.where)
        if self._slot.connection is None:
            self._slot.connection = self._open_record()
        return self._slot.connection

    def _reading(self) -> Transaction:
        connection = self._connection()
        return NoRows() if connection is None else PostgresTransaction(connection)

    def _open_record(self) -> Connection | None:
        connection = self._connect()
        try:
            version = self._version(PostgresTransaction(connection))
            self._refuse_newer(version)
            if version == 0 and self.read_only:
                connection.close()
                return None
            if version < self._up_to:
                self._bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> Connection:
        try:
            connection = psycopg.connect(**self._address.parameters, autocommit=True)  # type: ignore[arg-type]
        except psycopg.OperationalError as error:
            # Not chained: what the driver says may quote a piece of a mistyped address,
            # password included.
            raise connection_failure(self.where, str(error)) from None
        settings = {
            "schema": self._address.schema,
            "lock_timeout": f"{self._lock_timeout_seconds * 1000:.0f}",
            "statement_timeout": f"{self._statement_timeout_seconds * 1000:.0f}",
            "read_only": "on" if self.read_only else "off",
        }
        try:
            connection.execute(_SETTINGS, settings)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up_to_date(self, connection: Connection) -> None:
        if self.read_only:
            # An older record is brought up to date by whoever meets it first, also to
            # read.
            PostgresStore(self._address, clock=self._clock, new_id=self._new_id).close()
            return
        unfinished = True
        while unfinished:
            self._begin(connection)
            with self._transaction(connection) as transaction:
                if not transaction.rows(_SCHEMA_EXISTS, [self._address.schema]):
                    transaction.rows(f"CREATE SCHEMA {self._address.schema}")
                unfinished = self._migrate_once(transaction)
                self._refuse_newer(self._version(transaction))

    # Transactions

    def _begun(self) -> Connection:
        """Return a connection inside a write transaction.

        One that broke while it was idle is replaced, nothing is lost.
        """
        connection = self._connection()
        assert connection is not None  # only a reader goes without
        try:
            self._begin(connection)
        except psycopg.OperationalError:
            if not self._connection_broke():
                raise
            self._drop_connection()
            connection = self._connection()
            assert connection is not None
            self._begin(connection)
        return connection

    def _begin(self, connection: Connection) -> None:
        lock = f"hashtextextended('bridgehead {self._address.schema}', 0)"
        try:
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({lock})")
        except BaseException:
            _roll_back(connection)
            raise

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[PostgresTransaction]:
        try:
            yield PostgresTransaction(connection)
            connection.execute(f"NOTIFY {self._address.schema}; COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def _connection_broke(self) -> bool:
        return self._slot.connection is not None and self._slot.connection.closed

    def _failure(self, error: Exception) -> StoreError:
        assert isinstance(error, psycopg.Error)
        return statement_failure(
            self.where, error, waited_seconds=self._lock_timeout_seconds
        )


class PostgresTransaction:
    """Statements on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(_placeholders(statement), values or None)
        return cursor.fetchall() if cursor.description else []

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        if len(values) < 2:
            return [self.rows(statement, row) for row in values]
        with self._connection.cursor() as cursor:
            cursor.executemany(_placeholders(statement), values, returning=True)
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
            return found


class _NotificationWatch(Watch):
    """Listens for the notice every commit sends.

    Polls too, for poolers that lose notices.
    """

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._connection: Connection | None = None

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        if self._connection is None:
            self._connection = self._connect()
            self._connection.execute(f"LISTEN {self._channel}")
            return  # something may have been committed before we listened
        try:
            for _ in self._connection.notifies(timeout=poll_seconds, stop_after=1):
                return
        except psycopg.OperationalError:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connection_failure(where: str, message: str) -> StoreError:
    """Return why there is no connection.

    libpq has no codes for this, so its words are read, and not repeated at length.
    """
    if "FATAL:" in message:
        reason = message.rpartition("FATAL:")[2].strip().splitlines()[0]
        return failures.ServerRefused(where, reason)
    if "no password supplied" in message:
        return failures.ServerRefused(
            where, "it asks for a password and none was given"
        )
    for words, reason in _NO_CONNECTION.items():
        if re.search(words, message):
            return failures.ServerUnreachable(where, reason)
    return failures.ServerUnreachable(where, "no connection could be made")


def statement_failure(
    where: str, error: psycopg.Error, *, waited_seconds: float
) -> StoreError:
    """Return why a statement failed."""
    code = error.sqlstate or ""
    if code in ("55P03", "40P01"):  # lock not available, deadlock
        return failures.RecordLocked(where, waited_seconds)
    if code == "25006":
        return failures.RecordReadOnly(where, "the server accepts no writes")
    if code == "53100":
        return failures.RecordFull(where)
    if code == "57014":
        return failures.ServerUnreachable(
            where, "a statement timed out; nothing was written"
        )
    if code == "42501" or code.startswith("28"):
        return failures.ServerRefused(where, _first_line(error))
    has_no_code = not code and isinstance(error, psycopg.OperationalError)
    if code.startswith(("08", "57P")) or has_no_code:
        return failures.ServerUnreachable(
            where,
            "the connection broke; what was being written may or may not be recorded",
        )
    return failures.RecordFailed(where, _first_line(error))


def _first_line(error: psycopg.Error) -> str:
    return (
        error.diag.message_primary
        or next(iter(str(error).splitlines()), "")
        or type(error).__name__
    )


def _placeholders(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def _roll_back(connection: Connection) -> None:
    if connection.closed:
        return
    if connection.info.transaction_status != TransactionStatus.IDLE:
        connection.rollback()
