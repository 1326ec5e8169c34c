"""Find out whether a record is whole, copy it, and export what can be read.

SQLite finds broken pages and indices, the sum beside each row finds a changed letter,
and the log is read frame by frame.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.control_plane.records import PendingFilter
from bridgehead.control_plane.stores import open_store, record_file, rows, sqlite
from bridgehead.control_plane.stores.base import FOLLOW_PAGE, Store
from bridgehead.control_plane.stores.failures import NotARecord
from bridgehead.control_plane.stores.migrations import Row
from bridgehead.errors import UserError
from bridgehead.host.file_errors import translated
from bridgehead.host.files import put_in_place

LARGE_BYTES: Final = 64 * 1024 * 1024
NEWEST_ROWS: Final = 20_000
MOST_COMPLAINTS: Final = 20
BUSY_SECONDS: Final = 10.0
DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
LEAF: Final = b"\x0d"
# By serial type (SQLite file format 2.1): the size of numbers, and those without bytes.
_SIZES: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_CONSTANTS: Final = {0: None, 8: 0, 9: 1}
# For each table the columns that are summed, and how a row is decoded.
TABLES: Final[Mapping[str, tuple[slice, Callable[[Sequence[Any]], Any]]]] = {
    "events": (slice(1, 8), rows.recorded_event),
    "runs": (slice(0, 10), rows.run_of),
    "pending": (slice(1, 10), lambda row: rows.item_of((row[0], row[5], *row[7:]))),
}


class Inspection(msgspec.Struct, frozen=True):
    """What a look at a record found."""

    where: str
    damage: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}
    note: str | None = None


class Exported(msgspec.Struct, frozen=True):
    """One row, or (without a document) something that cannot be read.

    `damage` is what is wrong with it.
    """

    table: str | None
    document: Mapping[str, Any] | None
    damage: str | None = None


def inspect(address: str | Path, *, quick: bool = False) -> Inspection:
    """Look at the whole record, or with `quick` at the newest rows of a large one.

    Nothing is written or created.
    """
    path = record_file(address)
    if path is None:
        with open_store(address, read_only=True) as store:
            return _counted(store.where, _rows_of(store))
    if not sqlite.is_record_file(path):
        return Inspection(str(path), note="there is no record yet")
    damage = sqlite.log_damage(path)
    if damage is not None:
        return Inspection(str(path), (damage,))
    only_newest = quick and path.stat().st_size > LARGE_BYTES
    most_rows = NEWEST_ROWS if only_newest else None
    try:
        with _connected(path) as connection:
            complaints = _complaints(connection, quick=only_newest)
            found = _counted(str(path), _all_rows(connection, most_rows))
    except sqlite3.Error as error:
        if _says_nothing_about_record(error):
            raise sqlite.failure(
                str(path), error, waited_seconds=BUSY_SECONDS
            ) from error
        return Inspection(str(path), (str(error),))
    damages = (*complaints, *found.damage)[:MOST_COMPLAINTS]
    note = None
    if only_newest:
        note = f"it is large: only its newest {NEWEST_ROWS} rows were read"
    return Inspection(found.where, damages, found.counts, note)


def _complaints(connection: sqlite3.Connection, *, quick: bool) -> list[str]:
    """Return what SQLite finds wrong, and which rows are missing."""
    check = "quick_check" if quick else "integrity_check"
    found = connection.execute(f"PRAGMA {check}({MOST_COMPLAINTS})")
    complaints = [text for (text,) in found if text != "ok"]
    return [*complaints, *_missing_rows(connection)]


def _says_nothing_about_record(error: sqlite3.Error) -> bool:
    """Return whether a lock, or a disk that fails, is the reason."""
    has_code = hasattr(error, "sqlite_errorcode")
    return has_code and sqlite.primary_code(error) not in DAMAGED


def check(address: str | Path, *, quick: bool = False) -> Inspection:
    """Inspect a record, and note the result.

    A damaged record takes no more events until all of it was found whole.
    """
    found = inspect(address, quick=quick)
    path = record_file(address)
    if path is None:
        return found
    if found.damage:
        sqlite.note_damage(path, found.damage[0])
        return found
    earlier = None if quick else sqlite.noted_damage(path)
    if earlier is not None:
        with translated(sqlite.mark_of(path), "removed"):
            sqlite.mark_of(path).unlink()
        return msgspec.structs.replace(
            found, note=f"writing to it is allowed again; it was damaged: {earlier}"
        )
    return found


def export(address: str | Path) -> Iterator[Exported]:
    """Yield every row that can be read.

    What is wrong with a damaged record comes first.
    """
    path = record_file(address)
    if path is None:
        with open_store(address, read_only=True) as store:
            yield from _rows_of(store)
    elif damage := inspect(path).damage:
        yield from (Exported(None, None, complaint) for complaint in damage)
        yield from _scattered_rows(path)
    elif sqlite.is_record_file(path):
        try:
            with _connected(path) as connection:
                yield from _all_rows(connection, None)
        except sqlite3.Error as error:
            raise sqlite.failure(
                str(path), error, waited_seconds=BUSY_SECONDS
            ) from error


def back_up(address: str | Path, target: Path) -> Inspection:
    """Write a checked copy of a whole record, also while it is in use."""
    import tempfile

    path = record_file(address)
    if path is None:
        raise UserError(
            "only a record in a file can be copied",
            hint="use pg_dump for a Postgres database",
        )
    found = inspect(path)
    if found.damage:
        reason = found.note or f"it is damaged: {found.damage[0]}"
        raise UserError(
            f"the record {path} was not copied: {reason}",
            hint="`bridgehead record export --output FILE` saves what can be read",
        )
    if found.note:
        raise UserError(f"the record {path} was not copied: {found.note}")
    with translated(target, "written"):
        handle, name = tempfile.mkstemp(".tmp", f".{target.name[:50]}.", target.parent)
    os.close(handle)
    copy = Path(name)
    try:
        with _connected(path) as source, closing(sqlite3.connect(copy)) as destination:
            source.backup(destination)
            # One file, without a log beside it.
            destination.execute("PRAGMA journal_mode = DELETE")
        copied = inspect(copy)
        if copied.damage:
            raise UserError(
                f"{target} was not written: the copy is damaged ({copied.damage[0]})"
            )
        with translated(target, "written"):
            if not put_in_place(copy, target):
                raise UserError(
                    f"{target} already exists and was not overwritten",
                    hint="choose another file",
                )
    except sqlite3.Error as error:
        raise sqlite.failure(
            f"{path} (copied to {target})", error, waited_seconds=BUSY_SECONDS
        ) from error
    finally:
        with suppress(OSError):
            copy.unlink()
    return msgspec.structs.replace(copied, where=str(target))


def _counted(where: str, found: Iterator[Exported]) -> Inspection:
    damage: list[str] = []
    counts = dict.fromkeys(TABLES, 0)
    for row in found:
        if row.document is not None:
            counts[row.table or ""] += 1
        if row.damage is not None and len(damage) < MOST_COMPLAINTS:
            damage.append(row.damage)
    return Inspection(where, tuple(damage), counts)


def _rows_of(store: Store) -> Iterator[Exported]:
    """Yield the rows of a store that looks after its pages itself."""
    last_seq = 0
    while events := store.events(after=last_seq, limit=FOLLOW_PAGE):
        yield from (_exported("events", event) for event in events)
        last_seq = events[-1].seq
    last_run = None
    while runs := store.runs(before=last_run, limit=FOLLOW_PAGE):
        yield from (_exported("runs", run) for run in runs)
        last_run = runs[-1].id
    every_item = PendingFilter(states=())
    last_item = None
    while items := store.pending(every_item, before=last_item, limit=FOLLOW_PAGE):
        yield from (_exported("pending", item) for item in items)
        last_item = items[-1].id


def _exported(table: str, value: Any, damage: str | None = None) -> Exported:
    document: dict[str, Any] = msgspec.to_builtins(value)
    if table == "events":
        document = {"seq": document["seq"], **document["event"]}
    return Exported(table, document, damage)


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that sees one moment of the record and changes nothing."""
    with closing(
        sqlite3.connect(
            sqlite.file_uri(path.absolute()),
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("BEGIN")
        ((application_id,),) = connection.execute("PRAGMA application_id")
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
        known = {name for (name,) in tables}
        if known and known.isdisjoint(TABLES):
            raise NotARecord(str(path), "it is an SQLite file of another program")
        if application_id != sqlite.APPLICATION_ID or "events" not in known:
            raise sqlite3.DatabaseError(
                "its first page is damaged" if path.stat().st_size else "it is empty"
            )
        yield connection


def _missing_rows(connection: sqlite3.Connection) -> list[str]:
    """Return complaints about rows at the end that were written and are gone."""
    given = "SELECT name, seq FROM sqlite_sequence WHERE name IN ('events', 'pending')"
    newest = {table: f"SELECT coalesce(max(rowid), 0) FROM {table}" for table in TABLES}
    return [
        f"{table}: row {number} was written and is missing"
        for table, number in connection.execute(given).fetchall()
        if connection.execute(newest[table]).fetchone()[0] < number
    ]


def _all_rows(connection: sqlite3.Connection, newest: int | None) -> Iterator[Exported]:
    for table in TABLES:
        exists = connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", [table]
        ).fetchone()
        if not exists:
            continue  # a record of an earlier version
        after = 0
        if newest is not None:
            ((after,),) = connection.execute(
                f"SELECT coalesce(max(rowid), 0) - ? FROM {table}", [newest]
            )
        statement = f"SELECT rowid, * FROM {table} WHERE rowid > ? ORDER BY rowid"
        yield from (
            _judged(table, row) for row in connection.execute(statement, [after])
        )


def _judged(table: str, row: Row) -> Exported:
    summed, decode = TABLES[table]
    number, *columns = row
    try:
        value = decode(columns[: summed.stop])
        stored_sum = columns[summed.stop] if len(columns) > summed.stop else None
        has_sum = stored_sum is not None
        is_changed = has_sum and stored_sum != rows.row_sum(columns[summed])
    except (rows.UnreadableRow, TypeError, ValueError) as error:
        return Exported(table, None, f"{table}: row {number}: {error}")
    damage = None
    if is_changed:
        damage = f"{table}: row {number} was changed after it was written"
    return _exported(table, value, damage)


# What is left of a damaged record: the leaves of its tables, anywhere in the file.


def _scattered_rows(path: Path) -> Iterator[Exported]:
    log = sqlite.log_of(path)
    with translated(path, "read"):
        pages = Pages(path.read_bytes(), log.read_bytes() if log.exists() else b"")
    seen: set[tuple[str, object]] = set()
    for number, columns in pages.rows():
        table = _table_of(columns)
        if table != "runs":
            # A column that is the row's number is empty in the file.
            columns[0] = number
        row = _judged(table, (number, *columns))
        if row.document is None:
            continue
        key = (table, row.document["id"])
        if key not in seen:
            seen.add(key)
            yield row


def _table_of(columns: Sequence[Any]) -> str:
    """Return the table a row is from, by its number of columns and its first one."""
    if len(columns) in (8, 9):
        return "events"
    return "pending" if columns[0] is None else "runs"


class Pages:
    """The pages of an SQLite file, with those of its log.

    They are read without trusting the pages that lead to them.
    """

    def __init__(self, content: bytes, log: bytes) -> None:
        size = int.from_bytes(content[16:18])
        self._size = size if size in (1024, 2048, 4096, 8192, 16384, 32768) else 4096
        self._pages = {
            number: content[start : start + self._size]
            for number, start in enumerate(range(0, len(content), self._size), start=1)
        }
        salts = log[16:24]
        length = sqlite.FRAME_HEAD + self._size
        for start in range(sqlite.LOG_HEAD, len(log) - length + 1, length):
            frame = log[start : start + length]
            if frame[8:16] == salts:
                number = int.from_bytes(frame[:4])
                self._pages[number] = frame[sqlite.FRAME_HEAD :]

    def rows(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number and the columns of each row that may be one of ours."""
        for number, page in sorted(self._pages.items()):
            head = 100 if number == 1 else 0
            if page[head : head + 1] != LEAF:
                continue
            cells = int.from_bytes(page[head + 3 : head + 5])
            first = head + 8
            for cell in range(first, first + 2 * cells, 2):
                with suppress(ValueError, IndexError):
                    row = self._row(page, int.from_bytes(page[cell : cell + 2]))
                    if 8 <= len(row[1]) <= 11:
                        yield row

    def _row(self, page: bytes, at: int) -> tuple[int, list[Any]]:
        length, at = _varint(page, at)
        number, at = _varint(page, at)
        local = length
        # The rest is in overflow pages (SQLite file format 1.6).
        if length > self._size - 35:
            least = (self._size - 12) * 32 // 255 - 23
            local = least + (length - least) % (self._size - 4)
            local = local if local <= self._size - 35 else least
        payload = bytearray(page[at : at + local])
        following = page[at + local : at + local + 4]
        while len(payload) < length:
            # A chain meets no page twice.
            overflow = self._pages.pop(int.from_bytes(following), b"")
            if len(overflow) < self._size:
                raise ValueError("an overflow page is not there")
            payload += overflow[4 : 4 + length - len(payload)]
            following = overflow[:4]
        return number, _columns(bytes(payload))


def _columns(payload: bytes) -> list[Any]:
    head, at = _varint(payload, 0)
    columns: list[Any] = []
    place = head
    while at < head:
        kind, at = _varint(payload, at)
        is_text = kind >= 12
        size = (kind - 12) // 2 if is_text else _SIZES[kind]
        value = payload[place : place + size]
        if len(value) < size:
            raise ValueError("a column is cut off")
        if is_text:
            columns.append(value.decode())
        elif kind in _CONSTANTS:
            columns.append(_CONSTANTS[kind])
        else:
            columns.append(int.from_bytes(value, signed=True))
        place += size
    return columns


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | content[place] & 0x7F
        if content[place] < 0x80:
            return value, place + 1
    return value << 8 | content[at + 8], at + 9
