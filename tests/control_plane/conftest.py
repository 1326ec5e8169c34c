"""Records in every kind of store. The Postgres server is real, started here, and stopped with the session."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bridgehead.control_plane.stores.base import Store
from bridgehead.control_plane.stores.sqlite import MemoryStore, SqliteStore
from bridgehead.host.clock import ManualClock
from support.postgres import PostgresServer, postgres_server

pytest.register_assert_rewrite("suites.store_suite")

__all__ = ["postgres_server"]

PROGRAMS = Path(__file__).parent / "programs"


class RecordPlace(ABC):
    """A fresh record; what was opened is closed with it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._opened = ExitStack()

    @abstractmethod
    def _open(self, **options: Any) -> Store: ...

    def open(self, **options: Any) -> Store:
        return self._opened.enter_context(self._open(clock=self.clock, **options))

    def close(self) -> None:
        self._opened.close()


class MemoryPlace(RecordPlace):
    def __init__(self) -> None:
        super().__init__()
        self._store = MemoryStore(clock=self.clock)

    def _open(self, *, read_only: bool = False, **options: Any) -> Store:
        return MemoryStore(read_only=True) if read_only else self._store


class SqlitePlace(RecordPlace):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.address = str(path)

    def _open(self, **options: Any) -> SqliteStore:
        return SqliteStore(self.path, **options)


class PostgresPlace(RecordPlace):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.address = url

    def _open(self, **options: Any) -> Store:
        from bridgehead.control_plane.stores.postgres import (
            PostgresAddress,
            PostgresStore,
        )

        return PostgresStore(PostgresAddress.parse(self.address), **options)


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[SqlitePlace]:
    place = SqlitePlace(tmp_path / "data" / "record.db")
    yield place
    place.close()


@pytest.fixture
def postgres_place(postgres_server: PostgresServer) -> Iterator[PostgresPlace]:
    place = PostgresPlace(postgres_server.fresh_url())
    yield place
    place.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[RecordPlace]:
    if request.param == "memory":
        memory = MemoryPlace()
        yield memory
        memory.close()
    else:
        yield request.getfixturevalue(f"{request.param}_place")


@pytest.fixture(params=["sqlite", "postgres"])
def lasting_place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
def store(place: RecordPlace) -> Store:
    return place.open()


@pytest.fixture
def start_program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts one of programs/ in a process of its own, talking over pipes."""
    started = []

    def start(name: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAMS / name), *map(str, arguments)]
        started.append(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith(("XDG_", "PG"))]:
        monkeypatch.delenv(name)
