"""The file a record lives in: whom it lets in, what it refuses, and that a refusal changes no byte."""

from __future__ import annotations

import hashlib
import logging
import os
import resource
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bridgehead.control_plane.records import (
    EventFilter,
    Filter,
    PendingFilter,
    RunFilter,
)
from bridgehead.control_plane.stores import base
from bridgehead.control_plane.stores.failures import (
    NotARecord,
    RecordDamaged,
    RecordFailed,
    RecordFull,
    RecordLocked,
    RecordReadOnly,
    RecordTooNew,
    RecordUnplaceable,
)
from bridgehead.control_plane.stores.migrations import LATEST
from bridgehead.control_plane.stores.sqlite import SqliteStore
from bridgehead.errors import StoreError
from control_plane.store_suite import SENT, event, ids, question
from support.forked_child import NOBODY, in_child


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def filled(path: Path, count: int = 50) -> Path:
    """A closed record with some events."""
    with SqliteStore(path) as store:
        store.append([event(f"e{n}", data={"text": "x" * 200}) for n in range(count)])
    return path


# Privacy


def test_file_and_directories_that_are_created_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "record.db"
    previous = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.append([event("e1")])
            beside = [
                path.with_name(f"record.db{suffix}") for suffix in ("", "-wal", "-shm")
            ]
            assert [mode(file) for file in beside] == [0o600] * 3
    finally:
        os.umask(previous)
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]


def test_a_directory_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)

    SqliteStore(shared / "record.db").close()

    assert mode(shared) == 0o755


@pytest.mark.parametrize(
    "name", ["re cord%20.db", "what?.db", "a#b.db", "grün-🎯.db", "-rf.db"]
)
def test_any_file_name_is_taken_literally(tmp_path: Path, name: str) -> None:
    filled(tmp_path / name)

    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    target, link = filled(tmp_path / "target.db"), tmp_path / "link.db"
    link.symlink_to(target)
    before = digest(target)

    for read_only in (False, True):
        with pytest.raises(NotARecord, match="symbolic link"):
            SqliteStore(link, read_only=read_only)

    assert digest(target) == before


def test_a_dangling_link_creates_nothing_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")

    with pytest.raises(NotARecord, match="symbolic link"):
        SqliteStore(tmp_path / "link.db")

    assert not (tmp_path / "elsewhere.db").exists()


# What is not a record


def text_file(path: Path) -> None:
    path.write_text("dear diary, " * 500)


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
        database.execute("INSERT INTO bookmarks VALUES ('https://example.org')")
    database.close()


def foreign_application(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA application_id = 7")
    database.close()


def foreign_log_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE events (id TEXT)")
    database.close()


def torn_off(path: Path) -> None:
    os.truncate(filled(path), 6000)


def half_a_page(path: Path) -> None:
    os.truncate(filled(path), 300)


def overwritten_in_the_middle(path: Path) -> None:
    filled(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 3)


def newer_version(path: Path) -> None:
    filled(path)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {LATEST + 1}")
    database.close()


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (text_file, NotARecord, "not an SQLite file"),
        (foreign_database, NotARecord, "another program"),
        (foreign_application, NotARecord, "another program"),
        (foreign_log_database, NotARecord, "another program"),
        (torn_off, RecordDamaged, "malformed"),
        (half_a_page, (NotARecord, RecordDamaged), "not|damaged"),
        (
            newer_version,
            RecordTooNew,
            f"version {LATEST + 1}, this program supports versions up to {LATEST}",
        ),
    ],
)
def test_what_is_not_our_record_is_refused_and_left_alone(
    tmp_path: Path,
    make: Callable[[Path], None],
    error: type[StoreError] | tuple[type[StoreError], ...],
    words: str,
    read_only: bool,
) -> None:
    path = tmp_path / "record.db"
    make(path)
    before = digest(path)

    with pytest.raises(error, match=words) as refused:
        SqliteStore(path, read_only=read_only)

    assert "was not changed" in str(refused.value) and refused.value.hint
    assert digest(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.db"]


def test_damage_found_later_is_named_and_nothing_is_written_over_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record.db"
    overwritten_in_the_middle(path)
    before = digest(path)

    with SqliteStore(path) as store, pytest.raises(RecordDamaged):
        store.append([event("new")])

    assert digest(path) == before


def test_a_record_that_a_newer_program_upgraded_meanwhile_is_not_written_any_more(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record.db"
    with SqliteStore(path) as store:
        newer = sqlite3.connect(path, isolation_level=None)
        newer.execute(f"PRAGMA user_version = {LATEST + 1}")
        newer.close()

        with pytest.raises(RecordTooNew):
            store.append([event("e1")])

        assert store.events(SENT) == []


def test_a_row_nobody_could_have_written_is_reported_as_damage(tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db", 3)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("UPDATE events SET part = 'moon' WHERE id = 'e1'")
    database.close()

    with SqliteStore(path) as store:
        with pytest.raises(RecordDamaged, match="event 3: 'moon'"):
            store.events()
        assert ids(store.events(SENT, after=3)) == ["e2"]


def test_a_record_gets_its_name_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one that was cut off to nothing would pass for a new one."""
    path = tmp_path / "record.db"
    seen = []
    migrate = SqliteStore._migrate_once

    def watched(store: SqliteStore, transaction: Any) -> bool:
        seen.append(path.exists())
        return migrate(store, transaction)

    monkeypatch.setattr(SqliteStore, "_migrate_once", watched)
    with SqliteStore(path) as store:
        assert [one.event.kind for one in store.events()] == ["record.created"]
    assert seen == [False]
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.db"]


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
def test_an_empty_file_is_a_damaged_record(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "record.db"
    path.touch()

    with pytest.raises(RecordDamaged, match="it is empty"):
        SqliteStore(path, read_only=read_only)

    assert path.stat().st_size == 0


def test_two_that_create_the_record_at_once_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.db"
    migrate = SqliteStore._migrate_once

    def overtaken(store: SqliteStore, transaction: Any) -> bool:
        monkeypatch.setattr(SqliteStore, "_migrate_once", migrate)
        filled(path, 1)
        return migrate(store, transaction)

    monkeypatch.setattr(SqliteStore, "_migrate_once", overtaken)
    with SqliteStore(path) as store:
        assert ids(store.append([event("new")])) == ["new"]
        assert ids(store.events(SENT)) == ["e0", "new"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.db"]


@pytest.mark.parametrize("kind", ["directory", "fifo"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "record.db"
    path.mkdir() if kind == "directory" else os.mkfifo(path)

    with pytest.raises(NotARecord, match=r"directory|regular file"):
        SqliteStore(path)


# Places that cannot be used


def test_a_file_in_the_way_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with pytest.raises(RecordUnplaceable, match=r"data/record\.db cannot be opened"):
        SqliteStore(tmp_path / "data" / "record.db")

    assert (tmp_path / "data").read_text() == "a file"


def test_a_name_the_system_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordUnplaceable, match="too long"):
        SqliteStore(tmp_path / ("x" * 300))


def test_a_directory_we_may_not_write_to_is_refused() -> None:
    with nobodys_folder() as folder:
        folder.chmod(0o500)

        def refused() -> None:
            with pytest.raises(RecordUnplaceable, match="Permission denied"):
                SqliteStore(folder / "record.db")
            with pytest.raises(RecordUnplaceable, match=r"(?i)permission denied"):
                SqliteStore(folder / "deeper" / "record.db")

        in_child(refused, as_nobody=True)
        assert list(folder.iterdir()) == []


def test_a_write_protected_file_can_be_read_but_not_written() -> None:
    with nobodys_folder() as folder:
        path = filled(folder / "record.db")
        path.chmod(0o444)
        before = digest(path)

        def reading_only() -> None:
            with SqliteStore(path, read_only=True) as reader:
                assert len(reader.events(SENT)) == 50
            with (
                SqliteStore(path) as store,
                pytest.raises(RecordReadOnly, match="write-protected"),
            ):
                store.append([event("new")])

        in_child(reading_only, as_nobody=True)
        assert digest(path) == before


@contextmanager
def nobodys_folder() -> Iterator[Path]:
    """A folder an unprivileged user owns and can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)
        Path(name).chmod(0o700)


# Locks and space


def test_a_record_locked_by_another_process_is_given_up_on_and_works_afterwards(
    tmp_path: Path,
) -> None:
    path = filled(tmp_path / "record.db")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with SqliteStore(path, busy_timeout_seconds=0.05) as store:
        with pytest.raises(RecordLocked, match=r"gave up after 0\.05 s"):
            store.append([event("new")])
        assert len(store.events(SENT)) == 50  # readers are not kept out

        other.execute("ROLLBACK")
        other.close()
        assert ids(store.append([event("new")])) == ["new"]


def test_a_full_disk_leaves_the_record_as_it_was(tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    with SqliteStore(path) as store:
        before = store.events(SENT)
        connection = store._slot.connection
        assert connection is not None
        ((pages,),) = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")

        with pytest.raises(RecordFull, match="nothing was written"):
            store.append(
                [event(f"new{n}", data={"text": "x" * 4000}) for n in range(20)]
            )
        assert store.events(SENT) == before

        connection.execute("PRAGMA max_page_count = 1000000")
        assert ids(store.append([event("after")])) == ["after"]


def test_a_file_size_limit_leaves_the_record_as_it_was(tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")

    def refused_by_the_system() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
        with SqliteStore(path) as store, pytest.raises((RecordFull, RecordFailed)):
            store.append(
                [event(f"new{n}", data={"text": "x" * 4000}) for n in range(100)]
            )

    in_child(refused_by_the_system)
    with SqliteStore(path) as store:
        assert ids(store.events(SENT)) == [f"e{n}" for n in range(50)]
        assert ids(store.append([event("after")])) == ["after"]


def test_a_file_system_without_shared_memory_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "bridgehead.record"):
        store = SqliteStore(
            tmp_path / "record.db", vfs="unix-dotfile"
        )  # locks by files, maps no memory
    with store:
        store.append([event("e1")])
        assert ids(store.events(SENT)) == ["e1"]
        following = store.follow(
            0, stop=threading.Event(), where=SENT, poll_seconds=0.01
        )
        assert next(following).event.id == "e1"
        following.close()  # type: ignore[attr-defined]

    assert "does without a write-ahead log" in caplog.text


def test_a_commit_is_synced_and_foreign_keys_are_checked(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "record.db") as store:
        connection = store._slot.connection
        assert connection is not None
        settings = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
        assert settings == ["wal", 2]
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


@pytest.mark.parametrize(
    ("listing", "index"),
    [
        (("events", EventFilter(kinds=("a",)), "seq DESC"), "events_of_kind"),
        (("events", EventFilter(run_id="r"), "seq"), "events_of_run"),
        (("events", EventFilter(project="/p"), "seq"), "events_of_project"),
        (("pending", PendingFilter(), "number DESC"), "pending_by_state"),
        (("runs", RunFilter(), "started_at DESC, id DESC"), "runs_by_start"),
    ],
)
def test_the_usual_listings_neither_scan_nor_sort(
    tmp_path: Path, listing: tuple[str, Filter, str], index: str
) -> None:
    table, where, order = listing
    statement, values = base.listing("*", table, where.allowed(), [], order, 50)
    with SqliteStore(tmp_path / "record.db") as store:
        plan = store._read(
            lambda transaction: transaction.rows(
                f"EXPLAIN QUERY PLAN {statement}", values
            )
        )

    described = " ".join(str(step[3]) for step in plan)
    assert index in described and "TEMP B-TREE" not in described


# Reading a record that is not there yet


def test_reading_where_there_is_no_record_creates_nothing_and_sees_an_empty_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data" / "record.db"
    with SqliteStore(path, read_only=True) as reader:
        assert (
            reader.events(),
            reader.runs(),
            reader.pending(),
            reader.last_seq(),
        ) == ([], [], [], 0)
        assert list(tmp_path.iterdir()) == []

        filled(path, 1)
        assert ids(reader.events(SENT)) == ["e0"]


def test_a_reader_can_follow_a_record_before_it_exists(tmp_path: Path) -> None:
    path, stop = tmp_path / "record.db", threading.Event()
    with SqliteStore(path, read_only=True) as reader:
        writer = threading.Thread(target=filled, args=(path, 1))
        following = reader.follow(0, stop=stop, where=SENT, poll_seconds=0.01)
        writer.start()
        assert next(following).event.id == "e0"
        writer.join()
        stop.set()
        assert list(following) == []


def test_reading_leaves_no_files_behind(tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    before = digest(path)

    with SqliteStore(path, read_only=True) as reader:
        assert len(reader.events(SENT)) == 50

    assert [entry.name for entry in tmp_path.iterdir()] == ["record.db"]
    assert digest(path) == before


# Forks


def test_a_forked_child_uses_the_record_without_harming_its_parent(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "record.db") as store:
        store.append([event("before")])

        def append_in_child() -> None:
            store.append([event("child")])
            store.close()

        in_child(append_in_child)
        store.append([event("after")])
        assert ids(store.events(SENT)) == ["before", "child", "after"]
        assert store.events(EventFilter(kinds=("record.created",)))[0].seq == 1


def test_a_fork_waits_for_the_transaction_of_another_thread(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "record.db") as store:
        stop = threading.Event()

        def keep_writing() -> None:
            for n in range(100_000):
                if stop.is_set():
                    return
                store.append([event(f"thread-{n}")])

        writer = threading.Thread(target=keep_writing)
        writer.start()
        try:
            for n in range(5):
                in_child(partial(store.open_pending, question(f"child-{n}")))
        finally:
            stop.set()
            writer.join()

        written = ids(store.events(SENT, limit=10_000))
        assert written == [f"thread-{n}" for n in range(len(written))]
        assert len(store.pending()) == 5
