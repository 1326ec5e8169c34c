"""The state folder of one bridge (bus §17): records, credentials, secret, certificate.
0700, files 0600, atomic.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import tomlkit

from bridgehead.bus.access.credentials import Credential
from bridgehead.bus.access.join_file import LEAVES_OUT_ALL
from bridgehead.bus.bridge.state_store import SqliteState
from bridgehead.bus.participants.record import (
    ParticipantRecord,
    check_participant_id,
    parse_record,
)
from bridgehead.errors import BridgeheadError, ConfigError, LockTimeout
from bridgehead.host.directories import make_private_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.host.locks import FileLock, LockReentered

MAX_BYTES: Final = 16 * 1024 * 1024
SECRET_BYTES: Final = 32
_HEADER: Final = (
    "# Participants of this bridge. May be edited by hand; a running bridge notices.\n"
)


Stamp = tuple[tuple[int, int, int], ...]
"""Time, size and inode of each file an operator edits."""


class StateFolder:
    """The files of one bridge."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records_file = path / "participants.toml"
        self.credentials_file = path / "credentials.json"
        self.tls_folder = path / "tls"
        self.join_folder = path / "join"

    def prepare(self) -> None:
        """Make the folder, for its owner only."""
        make_private_dir(self.path)

    def join_file(self, participant_id: str) -> Path:
        """Return where the join file of a participant belongs: a private folder that
        git leaves out.
        """
        return self.join_folder / f"{check_participant_id(participant_id)}.join.json"

    def prepare_join_file(self, path: Path) -> None:
        """Make the folder for join files, if `path` is in it."""
        if path.parent == self.join_folder:
            self.prepare()
            make_private_dir(self.join_folder)
            write_atomic(self.join_folder / ".gitignore", LEAVES_OUT_ALL, private=True)

    def find_join_file(self, given: Path) -> Path:
        """Return the file that is meant by a path, or by the bare name of one in the
        folder for join files.
        """
        is_name = given.name == str(given)
        kept = self.join_folder / given.name
        return kept if is_name and not given.exists() and kept.exists() else given

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Let one command edit at a time, so that two do not undo each other's work."""
        self.prepare()
        with FileLock(self.path / ".lock"):
            yield

    # -- participants.toml ----------------------------------------------------

    def records(self) -> dict[str, ParticipantRecord]:
        """Every record; a file that does not parse is an error that names what is
        wrong.
        """
        tables = self.tables()
        records = {name: parse_record(name, table) for name, table in tables.items()}
        _refuse_shared_sessions(tables)
        return records

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables of participants.toml as they are written."""
        try:
            document = tomllib.loads(self._text())
        except (
            ValueError,
            RecursionError,
        ) as error:  # also numbers too long and nesting too deep
            raise BadRecordsFile(self.records_file, str(error)) from error
        for name, table in document.items():
            if not isinstance(table, dict):
                raise BadRecordsFile(self.records_file, f"{name!r} is not a table")
        return document

    def put_table(
        self, participant_id: str, table: dict[str, Any]
    ) -> ParticipantRecord:
        """Write one record; comments and other records stay as they are."""
        record = parse_record(participant_id, table)
        _refuse_shared_sessions({**self.tables(), participant_id: table})
        document = tomlkit.parse(self._text() or _HEADER)
        if participant_id in document and not table:
            # A table that was only `[name.grants]` would have no line of its own left.
            del document[participant_id]
            document[participant_id] = tomlkit.table()
        elif participant_id in document:
            _take_over(document[participant_id], table)
        else:
            document[participant_id] = tomlkit.item(table)
        write_atomic(self.records_file, tomlkit.dumps(document), private=True)
        return record

    def _text(self) -> str:
        try:
            return read_bounded(self.records_file, MAX_BYTES).decode()
        except FileMissing:
            return ""

    # -- credentials.json -----------------------------------------------------

    def credentials(self) -> dict[str, Credential]:
        try:
            return msgspec.json.decode(
                read_bounded(self.credentials_file, MAX_BYTES),
                type=dict[str, Credential],
            )
        except FileMissing:
            return {}
        except msgspec.DecodeError as error:
            raise BadRecordsFile(self.credentials_file, str(error)) from error

    def put_credential(self, participant_id: str, credential: Credential) -> None:
        """Keep what the server needs to recognise the participant."""
        if not credential.revoked:  # whatever was let in once can be put out
            check_participant_id(participant_id)
        kept = {**self.credentials(), participant_id: credential}
        encoded = msgspec.json.format(msgspec.json.encode(kept), indent=1)
        write_atomic(self.credentials_file, encoded + b"\n", private=True)

    # -- the rest -------------------------------------------------------------

    def secret(self) -> bytes:
        """Return the bridge's own secret, made at the first start (B-24)."""
        path = self.path / "bridge.secret"
        try:
            made = read_bounded(path, SECRET_BYTES)
        except FileMissing:
            made = secrets.token_bytes(SECRET_BYTES)
            write_atomic(path, made, private=True, exclusive=True)
        if len(made) != SECRET_BYTES:
            raise BadRecordsFile(path, f"it must hold {SECRET_BYTES} bytes")
        return made

    def claim(self) -> FileLock:
        """Be the one bridge that remembers here: two would clean up after each other's
        participants.
        """
        lock = FileLock(self.path / ".serving", timeout_seconds=0)
        try:
            lock.acquire()
        except (LockTimeout, LockReentered) as error:
            raise BridgeheadError(
                f"another bridge is using {self.path}",
                hint="stop it, or choose another directory with --state DIR",
            ) from error
        return lock

    def state(self) -> SqliteState:
        return SqliteState(self.path / "bridge.db")

    def stamp(self) -> Stamp:
        """Changes whenever one of the files an operator edits does."""
        return tuple(
            _stamp(path) for path in (self.records_file, self.credentials_file)
        )


def _refuse_shared_sessions(tables: dict[str, dict[str, Any]]) -> None:
    """Managed participants have a session each (B-33)."""
    owners: dict[str, str] = {}
    for name, table in tables.items():
        session = table.get("managed_session_id")
        if isinstance(session, str) and owners.setdefault(session, name) != name:
            raise ConfigError(
                f"{owners[session]} and {name} have the same session",
                hint="give each its own managed_session_id",
            )


def _take_over(written: Any, table: dict[str, Any]) -> None:
    """Make a TOML table say what `table` says, touching only what differs, so that
    comments stay.
    """
    for key in [key for key in written if key not in table]:
        del written[key]
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(written.get(key), dict):
            _take_over(written[key], value)
        elif written.get(key) != value:
            written[key] = value


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


class BadRecordsFile(ConfigError):
    """A file of the state folder cannot be read.

    The records in force stay as they are.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}",
            hint="correct the file; until then a running bridge keeps the old records",
        )
