"""Whether a record is whole, and the way back when it is not: a copy made in time, an
export of what can be read.

SQLite sees broken pages and indices, the sum beside each row a changed letter; the log
is read frame by frame.
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
# Table: what one row is called, the columns that are summed, how it is decoded.
TABLES: Final[Mapping[str, tuple[str, slice, Callable[[Sequence[Any]], Any]]]] = {
    "events": ("event", slice(1, 8), rows.recorded_event),
    "runs": ("run", slice(0, 10), rows.run_of),
    "pending": (
        "pending",
        slice(1, 10),
        lambda row: rows.item_of((row[0], row[5], *row[7:])),
    ),
}


class Inspection(msgspec.Struct, frozen=True):
    """What a look at a record found."""

    where: str
    damage: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}
    note: str | None = None


class Exported(msgspec.Struct, frozen=True):
    """One row, or (without a document) something that cannot be read.

    `damage` says what is wrong.
    """

    table: str | None
    document: Mapping[str, Any] | None
    damage: str | None = None


def inspect(address: str | Path, *, quick: bool = False) -> Inspection:
    """Look at the whole record, `quick` only at the newest rows of a large one.

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
    try:
        with _connected(path) as connection:
            complaints = _complaints(connection, quick=only_newest)
            found = _counted(
                str(path), _all_rows(connection, NEWEST_ROWS if only_newest else None)
            )
    except sqlite3.Error as error:
        if _says_nothing_about_record(error):
            raise sqlite.failure(
                str(path), error, waited_seconds=BUSY_SECONDS
            ) from error
        return Inspection(str(path), (str(error),))
    note = None
    if only_newest:
        note = f"it is large: only its newest {NEWEST_ROWS} rows were read"
    return Inspection(
        found.where, (*complaints, *found.damage)[:MOST_COMPLAINTS], found.counts, note
    )


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
    """Call `inspect`, and note the result.

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

    Of a damaged record what is wrong with it comes first.
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
    if found.damage or found.note:
        raise UserError(
            f"the record {path} was not copied: "
            f"{found.note or 'it is damaged: ' + found.damage[0]}",
            hint="`bridgehead record export --output FILE` saves what can be read"
            if found.damage
            else None,
        )
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
    seq = 0
    run = None
    item = None
    while events := store.events(after=seq, limit=FOLLOW_PAGE):
        yield from (_exported("events", event) for event in events)
        seq = events[-1].seq
    while runs := store.runs(before=run, limit=FOLLOW_PAGE):
        yield from (_exported("runs", one) for one in runs)
        run = runs[-1].id
    while items := store.pending(
        PendingFilter(states=()), before=item, limit=FOLLOW_PAGE
    ):
        yield from (_exported("pending", one) for one in items)
        item = items[-1].id


def _exported(table: str, value: Any, damage: str | None = None) -> Exported:
    document: dict[str, Any] = msgspec.to_builtins(value)
    if table == "events":
        document = {"seq": document["seq"], **document["event"]}
    return Exported(table, document, damage)


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one moment of the record and brings nothing up to date."""
    name = (
        str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    )
    with closing(
        sqlite3.connect(
            f"file:{name}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("BEGIN")
        ((application_id,),) = connection.execute("PRAGMA application_id")
        known = {
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        }
        if known and not known & {*TABLES}:
            raise NotARecord(str(path), "it is an SQLite file of another program")
        if application_id != sqlite.APPLICATION_ID or "events" not in known:
            raise sqlite3.DatabaseError(
                "its first page is damaged" if path.stat().st_size else "it is empty"
            )
        yield connection


def _missing_rows(connection: sqlite3.Connection) -> list[str]:
    """Rows whose numbers were given out and that are not there, at the end where they
    would not be missed.
    """
    given = "SELECT name, seq FROM sqlite_sequence WHERE name IN ('events', 'pending')"
    newest = {table: f"SELECT coalesce(max(rowid), 0) FROM {table}" for table in TABLES}
    return [
        f"{table}: row {number} was written and is missing"
        for table, number in connection.execute(given).fetchall()
        if connection.execute(newest[table]).fetchone()[0] < number
    ]


def _all_rows(connection: sqlite3.Connection, newest: int | None) -> Iterator[Exported]:
    for table in TABLES:
        if not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", [table]
        ).fetchone():
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
    _name, summed, decode = TABLES[table]
    number, *columns = row
    try:
        value = decode(columns[: summed.stop])
        given = (*columns, None)[summed.stop]
        changed = given is not None and given != rows.row_sum(columns[summed])
    except (rows.UnreadableRow, TypeError, ValueError) as error:
        return Exported(table, None, f"{table}: row {number}: {error}")
    return _exported(
        table,
        value,
        f"{table}: row {number} was changed after it was written" if changed else None,
    )


# What is left of a damaged record: the leaves of its tables, wherever they are in the
# file


def _scattered_rows(path: Path) -> Iterator[Exported]:
    with translated(path, "read"), path.open("rb") as file:
        pages = Pages(
            file.read(),
            sqlite.log_of(path).read_bytes() if sqlite.log_of(path).exists() else b"",
        )
    seen: set[tuple[str, object]] = set()
    for number, columns in pages.rows():
        # A column that is the row's number is empty in the file.
        table = {8: "events", 9: "events"}.get(
            len(columns), "pending" if columns[0] is None else "runs"
        )
        row = _judged(
            table, (number, *([number, *columns[1:]] if table != "runs" else columns))
        )
        if row.document is not None and (table, row.document["id"]) not in seen:
            seen.add((table, row.document["id"]))
            yield row


class Pages:
    """The pages of an SQLite file with those of its log, read without trusting what
    leads to them.
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
            if log[start + 8 : start + 16] == salts:
                self._pages[int.from_bytes(log[start : start + 4])] = log[
                    start + sqlite.FRAME_HEAD : start + length
                ]

    def rows(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number and the columns of each row that has as many as one of ours."""
        for number, page in sorted(self._pages.items()):
            head = 100 if number == 1 else 0
            if page[head : head + 1] != LEAF:
                continue
            for cell in range(
                head + 8, head + 8 + 2 * int.from_bytes(page[head + 3 : head + 5]), 2
            ):
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
            # a chain meets no page twice.
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
        size = (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]
        value = payload[place : place + size]
        if len(value) < size:
            raise ValueError("a column is cut off")
        known = {0: None, 8: 0, 9: 1}
        columns.append(
            value.decode()
            if kind >= 12
            else known.get(kind, int.from_bytes(value, signed=True))
        )
        place += size
    return columns


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | content[place] & 0x7F
        if content[place] < 0x80:
            return value, place + 1
    return value << 8 | content[at + 8], at + 9
