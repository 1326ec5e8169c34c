"""Where the record is kept: the address chooses the store, and only the chosen one is
imported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridgehead.errors import ConfigError

if TYPE_CHECKING:
    from bridgehead.control_plane.stores.base import Store

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class UnknownStore(ConfigError):
    """The address names a kind of store that does not exist."""

    def __init__(self, scheme: str, why: str) -> None:
        # Only the scheme is shown: the rest may hold a password.
        super().__init__(
            f"the record's address {scheme}:… cannot be used: {why}",
            hint=(
                "[store] url takes a file path, sqlite:///PATH or "
                "postgresql://USER@HOST/DATABASE"
            ),
        )


def open_store(address: str | Path, *, read_only: bool = False) -> Store:
    """Open the record at a path, `sqlite:///path`, `postgresql://…` or `memory:`.

    A writer creates what is missing; a reader creates nothing and sees an empty record
    where there is none. A record of an earlier version is brought up to date by whoever
    opens it first.
    """
    scheme = _scheme(address)
    if scheme == "memory":
        from bridgehead.control_plane.stores.sqlite import MemoryStore

        return MemoryStore(read_only=read_only)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(str(address), read_only=read_only)
    path = record_file(address)
    assert path is not None
    from bridgehead.control_plane.stores.sqlite import SqliteStore

    return SqliteStore(path, read_only=read_only)


def record_file(address: str | Path) -> Path | None:
    """Return the file the record at this address is in.

    None when it is in no file of ours.
    """
    scheme = _scheme(address)
    if scheme in ("memory", "postgresql", "postgres"):
        return None
    path = _sqlite_path(str(address)) if scheme else Path(address).expanduser()
    if "\0" in str(path) or not path.name:
        raise ConfigError(f"the record's path {str(path)!r} is not a file name")
    return path


def _scheme(address: str | Path) -> str:
    """Return the scheme of a URL in lower case, or nothing for a path."""
    if str(address) == ":memory:":
        return "memory"
    match = _SCHEME.match(address) if isinstance(address, str) else None
    return match[1].lower() if match else ""


def _open_postgres(url: str, *, read_only: bool) -> Store:
    from bridgehead.control_plane.stores.failures import DriverMissing

    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise DriverMissing("postgresql://") from error
    from bridgehead.control_plane.stores.postgres import PostgresAddress, PostgresStore

    return PostgresStore(PostgresAddress.parse(url), read_only=read_only)


def _sqlite_path(url: str) -> Path:
    """Return the path in a URL such as `sqlite:///var/record.db`.

    The four slashes other tools write for the same file are fine too.
    """
    from urllib.parse import unquote

    scheme, _, rest = url.partition(":")
    if scheme.lower() != "sqlite":
        raise UnknownStore(scheme, "this kind of store is not supported")
    if not rest.startswith("///") or "?" in rest or "#" in rest:
        raise UnknownStore(scheme, "write sqlite:/// and an absolute path")
    return Path("/" + unquote(rest).lstrip("/"))
