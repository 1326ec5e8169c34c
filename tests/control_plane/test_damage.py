"""Sixty damaged records: every one is noticed, none is written to, and what can be read of it is exported."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import RunState
from bridgehead.control_plane.stores import inspection
from bridgehead.control_plane.stores.failures import (
    NotARecord,
    RecordDamaged,
    RecordFailed,
)
from bridgehead.control_plane.stores.inspection import back_up, check, export, inspect
from bridgehead.control_plane.stores.sqlite import SqliteStore, mark_of
from bridgehead.doctor.checkup import check_record
from bridgehead.doctor.diagnosis import Checkup, State
from bridgehead.errors import StoreError, UserError
from bridgehead.host.clock import ManualClock
from control_plane.store_suite import event, ids, question, run

PAGE = 4096
EVENTS = 400
INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13


class Base(NamedTuple):
    """A whole record: `file` closed properly, `file_with_log` and `log` as a killed process leaves them."""

    file: bytes
    file_with_log: bytes
    log: bytes

    def pages(self, kind: int) -> list[int]:
        """The numbers of the pages of this kind (0: overflow), the first one left out."""
        kinds = {
            number: self.file[(number - 1) * PAGE]
            for number in range(2, len(self.file) // PAGE + 1)
        }
        known = (INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE)
        return [
            number
            for number, found in kinds.items()
            if found == kind or (not kind and found not in known)
        ]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    path = tmp_path_factory.mktemp("base") / "record.db"
    numbers = itertools.count(1)
    with SqliteStore(
        path, clock=ManualClock(), new_id=lambda: f"id-{next(numbers)}"
    ) as store:
        for n in range(EVENTS):
            size = 9_000 if n % 40 == 7 else 150
            store.append(
                [event(f"e{n}", data={"n": n, "text": "abcdefghij" * (size // 10)})]
            )
        for n in range(40):
            store.save_run(run(f"run-{n}", state=RunState.WAITING))
            item = store.open_pending(question(f"key-{n}"))
            if n % 2:
                store.answer_pending(item.id, Answer(text="yes", by="ann"))
    file = path.read_bytes()
    with SqliteStore(
        path, clock=ManualClock(), new_id=lambda: f"id-{next(numbers)}"
    ) as store:
        for n in range(6):
            store.append([event(f"late-{n}")])
        found = Base(
            file, path.read_bytes(), path.with_name("record.db-wal").read_bytes()
        )
    assert all(
        found.pages(kind) for kind in (0, INTERIOR_TABLE, LEAF_TABLE, LEAF_INDEX)
    )
    return found


Damage = Callable[[Base], tuple[bytes, bytes]]


def changed(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def flipped(content: bytes, place: int, bits: int) -> bytes:
    return changed(content, place, bytes([content[place] ^ bits]))


def header(place: int, bits: int = 0xFF) -> Damage:
    return lambda base: (flipped(base.file, place, bits), b"")


def page(kind: int, which: int, place: int, bits: int = 0xFF) -> Damage:
    """One byte of the `which`-th page of a kind; a negative place counts from its end."""

    def damage(base: Base) -> tuple[bytes, bytes]:
        pages = base.pages(kind)
        start = (pages[which % len(pages)] - 1) * PAGE
        return flipped(base.file, start + place % PAGE, bits), b""

    return damage


def text(which: int, letters: bytes, bits: int = 1) -> Damage:
    """One bit of the `which`-th occurrence of a word in a row: the page stays as good as any."""

    def damage(base: Base) -> tuple[bytes, bytes]:
        place = -1
        for _ in range(which):
            place = base.file.index(letters, place + 1)
        return flipped(base.file, place + len(letters) - 1, bits), b""

    return damage


def zeroed(kind: int, which: int) -> Damage:
    return lambda base: (
        changed(base.file, (base.pages(kind)[which] - 1) * PAGE, bytes(PAGE)),
        b"",
    )


def swapped(kind: int, one: int, other: int) -> Damage:
    def damage(base: Base) -> tuple[bytes, bytes]:
        first, second = ((base.pages(kind)[which] - 1) * PAGE for which in (one, other))
        file = changed(base.file, first, base.file[second : second + PAGE])
        return changed(file, second, base.file[first : first + PAGE]), b""

    return damage


def cut(length: int) -> Damage:
    """To this length, or by so many bytes from the end."""
    return lambda base: (base.file[:length], b"")


def log(frame: int, place: int, bits: int = 0xFF) -> Damage:
    """A byte of a frame of the log (-1: of its head)."""
    start = 0 if frame < 0 else 32 + frame * (24 + PAGE)
    return lambda base: (base.file_with_log, flipped(base.log, start + place, bits))


DAMAGES: dict[str, Damage] = {
    # The header of the file, and the list of tables behind it
    **{f"header byte {place}": header(place) for place in (0, 9, 15, 16, 19, 21, 30, 34, 47, 59, 68, 100, 103, 104)},
    "header: one page more": header(31, 1),
    "the name of a table": text(1, b"CREATE TABLE even"),
    "the name of a column": text(1, b"run_id TEX"),
    # Interior pages
    **{f"interior page byte {place}": page(INTERIOR_TABLE, 0, place) for place in (0, 3, 4, 6, 10, 11, 12, 13)},
    "interior page end": page(INTERIOR_TABLE, 0, -3),
    "interior page zeroed": zeroed(INTERIOR_TABLE, 0),
    # Leaves of tables: the page's head, its cells, one letter of a row
    **{f"leaf {which} byte {place}": page(LEAF_TABLE, which, place) for which, place in
       ((0, 0), (1, 3), (2, 4), (3, 8), (4, 9), (5, 5), (6, 6))},
    "leaf: a letter of an event": text(3, b'{"n":2'),
    "leaf: a letter of its id": text(2, b"e31"),
    "leaf: the hour of its time": text(9, b"2026-11-15T1"),
    "leaf: a letter of a run": text(1, b"waitin"),
    "leaf: an answer": text(4, b'"text":"y'),
    "leaf zeroed": zeroed(LEAF_TABLE, 7),
    "two leaves swapped": swapped(LEAF_TABLE, 5, 6),
    # Leaves of indices
    "index leaf head": page(LEAF_INDEX, 0, 0),
    "index leaf count": page(LEAF_INDEX, 1, 4),
    "index leaf entry": page(LEAF_INDEX, 2, -9),
    "two index leaves swapped": swapped(LEAF_INDEX, 0, 3),
    # Overflow
    **{f"overflow {which} byte {place}": page(0, which, place, 1) for which, place in
       ((0, 4), (1, 2000), (3, 4000), (5, 100))},
    "overflow chain": page(0, 0, 3),
    "overflow zeroed": zeroed(0, 2),
    "two overflow pages swapped": swapped(0, 0, 4),
    # Cut off
    **{f"cut to {length}": cut(length) for length in (0, 1, 99, 100, 512, PAGE, 3 * PAGE, 9 * PAGE + 7)},
    "cut by one byte": cut(-1),
    "cut by one page": cut(-PAGE),
    # The log of a process that was killed
    "log head magic": log(-1, 1),
    "log head salt": log(-1, 17),
    "log head sum": log(-1, 25),
    "log frame page": log(1, 2),
    "log frame salt": log(2, 9),
    "log frame sum": log(0, 17),
    "log frame data": log(3, 24 + 1000),
    "log frame bit": log(4, 24 + 3000, 1),
}  # fmt: skip


def write(folder: Path, file: bytes, log: bytes) -> Path:
    path = folder / "record.db"
    path.write_bytes(file)
    if log:
        path.with_name("record.db-wal").write_bytes(log)
    return path


def digests(path: Path) -> list[str]:
    beside = [path, path.with_name("record.db-wal")]
    return [
        hashlib.sha256(file.read_bytes()).hexdigest()
        for file in beside
        if file.exists()
    ]


def test_there_are_sixty_of_them() -> None:
    assert len(DAMAGES) >= 60


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_nothing_is_written_after_it(
    tmp_path: Path, base: Base, name: str
) -> None:
    path = write(tmp_path, *DAMAGES[name](base))
    before = digests(path)
    assembly = Assembly(
        tmp_path,
        {"BRIDGEHEAD_STORE_URL": str(path), "BRIDGEHEAD_HOME": str(tmp_path / "home")},
    )
    assert assembly.record_url == str(path)

    (diagnosis,) = check_record(assembly, Checkup.of([]))
    assert diagnosis.state is State.BROKEN, diagnosis.message
    assert "record" in diagnosis.message and diagnosis.fix
    assert digests(path) == before

    with (
        pytest.raises((RecordDamaged, NotARecord)) as refused,
        SqliteStore(path) as store,
    ):
        store.append([event("new")])
    assert refused.value.hint and str(path) in str(refused.value)
    assert digests(path) == before

    with pytest.raises(UserError, match="not copied"):
        back_up(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert digests(path) == before


@pytest.mark.parametrize(
    "name", [name for name in DAMAGES if not name.startswith("cut")]
)
def test_what_is_readable_of_a_damaged_record_is_exported(
    tmp_path: Path, base: Base, name: str
) -> None:
    path = write(tmp_path, *DAMAGES[name](base))
    before = digests(path)

    found = list(export(path))

    whole = {
        row.document["id"]
        for row in found
        if row.table == "events" and row.document and not row.damage
    }
    assert len(whole & {f"e{n}" for n in range(EVENTS)}) >= EVENTS - 40
    for row in found:
        if (
            row.table == "events"
            and row.document
            and not row.damage
            and row.document["id"].startswith("e")
        ):
            assert row.document["data"]["n"] == int(row.document["id"][1:])
    assert digests(path) == before


@pytest.mark.parametrize("length", [0, 1, 99, 100, 512, PAGE, 3 * PAGE])
def test_a_record_that_is_cut_off_is_exported_as_far_as_it_goes(
    tmp_path: Path, base: Base, length: int
) -> None:
    path = write(tmp_path, base.file[:length], b"")
    try:
        rows = list(export(path))
    except StoreError as error:
        assert error.hint
    else:
        assert all(
            row.document is None or row.table in inspection.TABLES for row in rows
        )


def test_a_whole_record_is_whole_and_copied_and_exported(
    tmp_path: Path, base: Base
) -> None:
    path = write(tmp_path, base.file, b"")

    found = check(path)

    assert found.damage == () and found.note is None
    assert (
        found.counts["events"] >= EVENTS
        and found.counts["runs"] == 40 == found.counts["pending"]
    )
    assert len([row for row in export(path) if row.damage is None]) == sum(
        found.counts.values()
    )
    copied = back_up(path, tmp_path / "copy.db")
    assert (copied.where, copied.counts) == (str(tmp_path / "copy.db"), found.counts)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="already exists"):
        back_up(path, tmp_path / "copy.db")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "copy.db",
        "record.db",
    ]


def test_a_whole_log_is_no_damage_and_neither_is_the_torn_end_of_one(
    tmp_path: Path, base: Base
) -> None:
    for number, log in enumerate(
        (
            base.log,
            base.log[:-100],
            base.log[:-PAGE],
            flipped(base.log, -50, 1),
            base.log[:40],
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder, base.file_with_log, log)
        assert inspect(path).damage == ()
        with SqliteStore(path) as store:
            assert ids(store.append([event("new")])) == ["new"]


def test_a_damaged_log_that_a_command_meets_first_is_kept_and_refused(
    tmp_path: Path, base: Base
) -> None:
    path = write(tmp_path, *DAMAGES["log frame data"](base))
    damaged = path.with_name("record.db-wal").read_bytes()

    for read_only in (False, True):
        with pytest.raises(RecordDamaged, match="frame 4 of its log is damaged"):
            SqliteStore(path, read_only=read_only)
        assert path.with_name("record.db-wal.damaged").read_bytes() == damaged
        if not read_only:
            with pytest.raises(RecordDamaged, match="frame 4"):
                SqliteStore(path)
            write(tmp_path, *DAMAGES["log frame data"](base))


def test_damage_that_a_statement_meets_keeps_everybody_from_writing(
    tmp_path: Path, base: Base
) -> None:
    path = write(tmp_path, *DAMAGES["leaf zeroed"](base))
    with SqliteStore(path, read_only=True) as reader, pytest.raises(RecordDamaged):
        reader.events(limit=EVENTS)

    with pytest.raises(RecordDamaged, match="malformed"):
        SqliteStore(path)
    assert path.read_bytes() == DAMAGES["leaf zeroed"](base)[0]


def test_a_restored_record_takes_events_after_a_check(
    tmp_path: Path, base: Base
) -> None:
    path = write(tmp_path, base.file, b"")
    back_up(path, tmp_path / "copy.db")
    path.write_bytes(zeroed(LEAF_TABLE, 7)(base)[0])
    assert check(path).damage and mark_of(path).exists()

    shutil.copyfile(tmp_path / "copy.db", path)
    with pytest.raises(RecordDamaged):
        SqliteStore(path)
    found = check(path)

    assert found.damage == () and "allowed again" in (found.note or "")
    with SqliteStore(path) as store:
        assert ids(store.append([event("new")])) == ["new"]


def test_rows_of_an_earlier_version_are_checked_without_sums(tmp_path: Path) -> None:
    path = tmp_path / "record.db"
    with SqliteStore(path, up_to=2) as store:
        store.append([event("e1")])
        store.save_run(run("r1"))
        store.open_pending(question("k1"))
    before = digests(path)

    assert inspect(path).counts == {"events": 3, "runs": 1, "pending": 1}
    assert inspect(path).damage == ()
    assert [row.damage for row in export(path)] == [None] * 5
    assert digests(path) == before


def test_a_large_record_is_looked_at_in_part_by_doctor(
    tmp_path: Path, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, base.file, b"")
    monkeypatch.setattr(inspection, "LARGE_BYTES", 1000)
    monkeypatch.setattr(inspection, "NEWEST_ROWS", 30)

    found = inspect(path, quick=True)

    assert found.counts == {"events": 30, "runs": 30, "pending": 30}
    assert found.damage == () and "newest 30" in (found.note or "")


@pytest.mark.parametrize(
    "work",
    [
        check,
        lambda path: list(export(path)),
        lambda path: back_up(path, path.with_name("c")),
    ],
)
def test_a_disk_that_fails_is_no_damage(
    tmp_path: Path,
    base: Base,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path], object],
) -> None:
    path = write(tmp_path, base.file, b"")

    def failing(_path: Path) -> Any:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(inspection, "_connected", failing)
    with pytest.raises(RecordFailed, match="disk I/O error"):
        work(path)
    assert not mark_of(path).exists()


def test_a_missing_record_is_no_damage_and_nothing_is_made(tmp_path: Path) -> None:
    assert inspect(tmp_path / "record.db").note == "there is no record yet"
    assert list(export(tmp_path / "record.db")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_record_in_postgres_is_read_through_and_copied_by_its_own_tools(
    postgres_place: Any,
) -> None:
    store = postgres_place.open()
    store.append([event("e1")])
    store.save_run(run("r1"))
    store.open_pending(question("k1"))

    assert inspect(postgres_place.address).counts == {
        "events": 3,
        "runs": 1,
        "pending": 1,
    }
    exported = [
        row.document["id"] for row in export(postgres_place.address) if row.document
    ]
    assert exported[1:] == ["e1", exported[2], "r1", "q-1"]
    with pytest.raises(UserError, match="only a record in a file"):
        back_up(postgres_place.address, Path("copy.db"))
