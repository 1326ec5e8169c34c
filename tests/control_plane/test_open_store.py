"""The address chooses the store, and only the chosen one is paid for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.control_plane.stores import open_store
from bridgehead.control_plane.stores.failures import DriverMissing
from bridgehead.control_plane.stores.sqlite import MemoryStore, SqliteStore
from bridgehead.errors import ConfigError
from control_plane.store_suite import SENT, event, ids


@pytest.mark.parametrize(
    "spelling",
    ["{path}", "sqlite://{path}", "sqlite:///{path}", "SQLite://{path}"],
    ids=lambda s: s.partition("{")[0],
)
def test_paths_and_sqlite_urls_name_the_same_record(
    tmp_path: Path, spelling: str
) -> None:
    path = tmp_path / "record.db"
    with open_store(path) as store:
        store.append([event("e1")])

    with open_store(spelling.format(path=path)) as again:
        assert isinstance(again, SqliteStore)
        assert ids(again.events(SENT)) == ["e1"]
        assert again.where == str(path)


def test_a_url_is_unescaped_and_a_path_is_not(tmp_path: Path) -> None:
    open_store(f"sqlite://{tmp_path}/a%20b.db").close()
    open_store(f"{tmp_path}/c%20d.db").close()

    assert {entry.name for entry in tmp_path.iterdir()} == {"a b.db", "c%20d.db"}


def test_a_path_may_be_relative_or_begin_with_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("here.db") as store:
        monkeypatch.chdir("/")
        store.append([event("e1")])
    open_store("~/home.db").close()

    assert {entry.name for entry in tmp_path.iterdir()} == {"here.db", "home.db"}


@pytest.mark.parametrize("address", ["memory:", ":memory:"])
def test_a_record_in_memory_is_asked_for_by_name(address: str) -> None:
    assert isinstance(open_store(address), MemoryStore)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ann:hunter2@host/db",
        "postgresql+psycopg://ann:hunter2@host/db",
        "sqlite:record.db",
        "sqlite://host/record.db",
        "sqlite:///record.db?mode=ro",
        "http://host/record.db",
        "",
        "/",
        "sqlite:///",
        "rec\0ord.db",
    ],
)
def test_an_address_of_no_known_kind_is_refused_without_showing_more_than_its_scheme(
    address: str,
) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(address)

    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


def test_postgres_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(DriverMissing) as missing:
        open_store("postgresql://ann:hunter2@host/db")

    assert missing.value.hint == "pip install 'bridgehead[postgres]'"
    assert "hunter2" not in str(missing.value)


def test_a_sqlite_record_imports_no_driver_and_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from bridgehead.control_plane.stores import open_store\n"
        "open_store(sys.argv[1]).close()\n"
        "heavy = {'psycopg', 'asyncio', 'logging', 'json', 'subprocess', 'ssl', 'tempfile'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "record.db"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"
