"""Every store passes the same suite."""

from __future__ import annotations

from control_plane.store_suite import StoreSuite


class TestEveryStore(StoreSuite):
    """Over memory, SQLite and a real Postgres (fixture `place`)."""
