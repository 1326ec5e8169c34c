"""A record of any earlier version is brought up to date, whole, once, whoever comes and whenever it is killed."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import RunState
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.failures import RecordReadOnly
from bridgehead.control_plane.stores.migrations import LATEST, MIGRATIONS
from bridgehead.control_plane.stores.sqlite import APPLICATION_ID, SqliteStore
from control_plane.store_suite import SENT, event, ids, question, run

COLUMNS = {
    "events": ["seq", "id", "kind", "part", "at", "project", "run_id", "data", "sum"],
    "runs": [
        "id", "part", "kind", "title", "state", "started_at", "updated_at", "project", "ended_at", "data", "sum",
    ],
    "pending": [
        "number", "part", "project", "key", "kind", "state", "run_id", "question", "opened_at", "answer", "sum",
    ],
}  # fmt: skip


def made_by_version(place: Any, version: int) -> None:
    """Leave a record as a program of this earlier version would, with rows in every table it knew."""
    store = place.open(up_to=version)
    store.append([event("old-1", data={"n": 1}), event("old-2")])
    store.save_run(run("old-run", state=RunState.WAITING))
    if version >= 2:
        store.open_pending(question("old-key"))
    store.close()


def test_steps_are_numbered_in_order() -> None:
    assert [step.__name__[:4] for step in MIGRATIONS] == [
        f"m{n:03d}" for n in range(1, LATEST + 1)
    ]


def test_a_new_record_has_exactly_these_tables(lasting_place: Any) -> None:
    store = lasting_place.open()

    for table, columns in COLUMNS.items():
        cursor = store._slot.connection.execute(f"SELECT * FROM {table}")
        assert [column[0] for column in cursor.description] == columns


def test_tables_of_sqlite_are_strict(sqlite_place: Any) -> None:
    database = sqlite_place.open()._slot.connection

    tables = dict(
        database.execute(
            "SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"
        ).fetchall()
    )
    assert [tables[name] for name in COLUMNS] == [1, 1, 1]
    assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert database.execute("PRAGMA user_version").fetchone() == (LATEST,)


@pytest.mark.parametrize("version", range(1, LATEST + 1))
def test_a_record_of_every_version_is_brought_up_to_date_with_its_rows(
    lasting_place: Any, version: int
) -> None:
    made_by_version(lasting_place, version)

    store = lasting_place.open()

    assert ids(store.events(SENT)) == ["old-1", "old-2"]
    assert store.run("old-run") == run("old-run", state=RunState.WAITING)
    assert [item.question.key for item in store.pending()] == (
        ["old-key"] if version >= 2 else []
    )
    item = store.open_pending(question("new-key"))
    assert store.answer_pending(item.id, Answer(text="x")).answer is not None
    steps = [
        one.event.data for one in store.events(EventFilter(kinds=("record.migrated",)))
    ]
    assert steps == [{"from": n, "to": n + 1} for n in range(version, LATEST)]
    (created,) = store.events(EventFilter(kinds=("record.created",)))
    assert created.event.data == {"version": version}


def test_opening_an_up_to_date_record_writes_nothing(lasting_place: Any) -> None:
    lasting_place.open().append([event("e1")])

    assert lasting_place.open().last_seq() == 2


@pytest.mark.parametrize("version", range(1, LATEST))
def test_a_reader_brings_an_older_record_up_to_date_too(
    lasting_place: Any, version: int
) -> None:
    made_by_version(lasting_place, version)

    reader = lasting_place.open(read_only=True)

    assert len(reader.pending()) == (version >= 2)
    assert ids(reader.events(SENT)) == ["old-1", "old-2"]
    with pytest.raises(RecordReadOnly):
        reader.append([event("e1")])


def test_a_migration_that_fails_leaves_the_record_in_its_version(
    lasting_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_version(lasting_place, 1)

    def m002_broken(transaction: Any, dialect: Any) -> None:
        MIGRATIONS[1](transaction, dialect)
        raise ZeroDivisionError

    monkeypatch.setattr(
        "bridgehead.control_plane.stores.migrations.MIGRATIONS",
        (MIGRATIONS[0], m002_broken),
    )
    with pytest.raises(ZeroDivisionError):
        lasting_place.open()

    monkeypatch.undo()
    store = lasting_place.open()
    assert ids(store.events(SENT)) == ["old-1", "old-2"]
    assert len(store.events(EventFilter(kinds=("record.migrated",)))) == LATEST - 1


@pytest.mark.parametrize("version", [0, 1], ids=["a new record", "an old record"])
def test_several_processes_may_open_a_record_for_the_first_time_at_once(
    lasting_place: Any, start_program: Any, version: int
) -> None:
    if version:
        made_by_version(lasting_place, version)
    starters = [
        start_program("first_opening.py", lasting_place.address, n) for n in range(4)
    ]
    for starter in starters:
        assert starter.stdout is not None and starter.stdout.readline() == "ready\n"
    for starter in starters:
        assert (
            starter.communicate("go\n", timeout=60)[0] == "done\n"
            and starter.returncode == 0
        )

    store = lasting_place.open()
    assert len(store.events(EventFilter(kinds=("record.created",)))) == 1
    assert len(store.events(EventFilter(kinds=("record.migrated",)))) == (
        LATEST - version if version else 0
    )
    assert sorted(ids(store.events(EventFilter(kinds=("flow.started",))))) == [
        "0",
        "1",
        "2",
        "3",
    ]


def test_several_threads_may_open_a_new_record_at_once(sqlite_place: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(lambda _: SqliteStore(sqlite_place.path), range(8)))
    for n, store in enumerate(stores):
        store.append([event(f"e{n}")])

    assert ids(stores[0].events(SENT)) == [f"e{n}" for n in range(8)]
    for store in stores:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1], ids=["creation", "migration"])
def test_a_kill_before_any_statement_leaves_a_record_that_the_next_one_completes(
    tmp_path: Path, start_program: Any, version: int
) -> None:
    """kill -9 before the first statement, before the second, … until the child gets through alive."""
    survived = False
    for statement in range(1, 200):
        path = tmp_path / str(statement) / "record.db"
        if version:
            path.parent.mkdir()
            with SqliteStore(path, up_to=version) as old:
                old.append([event("old-1")])
        child = start_program("killed_while_opening.py", path, statement)
        child.communicate(timeout=60)
        survived = child.returncode == 0
        assert survived or child.returncode == -signal.SIGKILL

        with SqliteStore(path) as store:
            assert ids(store.append([event("new")])) == ["new"]
            assert len(store.events(EventFilter(kinds=("record.created",)))) == 1
            assert store.pending() == []
            assert ids(store.events(SENT)) == (["old-1", "new"] if version else ["new"])
            assert store._read(
                lambda transaction: transaction.rows("PRAGMA integrity_check")
            ) == [("ok",)]
        if survived:
            break
    assert survived and statement > 10
