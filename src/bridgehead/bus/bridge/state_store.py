"""What a bridge remembers beyond its process: sources, hub ids, tracked skills (bus
§13, §17: `bridge.db`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bridgehead.bus import actions
from bridgehead.bus.actions import StateChange
from bridgehead.bus.participants.participants import RememberedState
from bridgehead.errors import StoreError

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sources (participant TEXT PRIMARY KEY, source TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS hub_ids (
    participant TEXT NOT NULL, hub_id TEXT NOT NULL, local_id TEXT NOT NULL, PRIMARY KEY (participant, hub_id)
) STRICT;
CREATE TABLE IF NOT EXISTS skills (
    participant TEXT NOT NULL, hub_id TEXT NOT NULL, skill_id TEXT NOT NULL,
    PRIMARY KEY (participant, hub_id, skill_id)
) STRICT;
PRAGMA user_version = 1;
"""


class StateStore:
    """Where it is kept: by itself nowhere, for one bridge that need not remember and is
    its whole deployment.

    `load` and `apply` are called in a worker thread, one call at a time.
    """

    def load(self) -> RememberedState:
        """Return what to begin with: everybody in it counts as disconnected at this
        moment.
        """
        return RememberedState()

    def recall(self, participant_id: str) -> RememberedState:
        """Return what is known of one participant that joins here and was served
        elsewhere; must not wait.
        """
        return RememberedState()  # one bridge: what there was has been loaded

    def present(self, participant_id: str) -> None:
        """Note that the participant is connected here now; must not wait."""

    def is_elsewhere(self, participant_id: str) -> bool:
        """Return whether the participant is at another bridge of the deployment."""
        return False

    def own(self, participant_id: str, source: str) -> Coroutine[Any, Any, bool] | None:
        """Make a source the participant's in the whole deployment: None if it is, else
        what to wait for.

        It ends in False where somebody else was first.
        """
        return None

    def apply(self, changes: Iterable[StateChange]) -> None: ...

    def close(self) -> None: ...


class SqliteState(StateStore):
    """A small SQLite file in the state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            self._database = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None
            )
            try:
                self._database.executescript(
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA
                )
            except BaseException:
                self._database.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise BridgeStateUnusable(path, str(error)) from error

    def load(self) -> RememberedState:
        hub_ids: dict[str, dict[str, str]] = {}
        for participant, hub_id, local in self._rows(
            "SELECT * FROM hub_ids ORDER BY rowid"
        ):
            hub_ids.setdefault(participant, {})[hub_id] = local
        skills: dict[str, tuple[tuple[str, str], ...]] = {}
        for participant, hub_id, skill in self._rows(
            "SELECT * FROM skills ORDER BY rowid"
        ):
            skills[participant] = (*skills.get(participant, ()), (hub_id, skill))
        return RememberedState(
            {row[0]: row[1] for row in self._rows("SELECT * FROM sources")},
            hub_ids,
            skills,
        )

    def apply(self, changes: Iterable[StateChange]) -> None:
        try:
            self._database.execute("BEGIN")
            for change in changes:
                self._database.execute(*_statement(change))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise BridgeStateUnusable(self._path, str(error)) from error

    def close(self) -> None:
        self._database.close()

    def _rows(self, query: str) -> list[tuple[str, ...]]:
        try:
            with closing(self._database.execute(query)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise BridgeStateUnusable(self._path, str(error)) from error


def _statement(change: StateChange) -> tuple[str, tuple[str, ...]]:
    match change:
        case actions.RememberSource(participant, source):
            return "INSERT OR REPLACE INTO sources VALUES (?, ?)", (participant, source)
        case actions.ForgetSource(participant):
            return "DELETE FROM sources WHERE participant = ?", (participant,)
        case actions.RememberHubId(participant, hub_id, local):
            return "INSERT OR REPLACE INTO hub_ids VALUES (?, ?, ?)", (
                participant,
                hub_id,
                local,
            )
        case actions.ForgetHubId(participant, hub_id):
            return "DELETE FROM hub_ids WHERE participant = ? AND hub_id = ?", (
                participant,
                hub_id,
            )
        case actions.RememberSkill(participant, hub_id, skill):
            return "INSERT OR IGNORE INTO skills VALUES (?, ?, ?)", (
                participant,
                hub_id,
                skill,
            )
        case actions.ForgetSkill(participant, hub_id, skill):
            return (
                (
                    "DELETE FROM skills WHERE participant = ? AND hub_id = ? AND "
                    "skill_id "
                    "= ?"
                ),
                (participant, hub_id, skill),
            )


class BridgeStateUnusable(StoreError):
    """The bridge's own state file cannot be used."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"{path} cannot be used: {cause}",
            hint=(
                "move it away; the bridge creates a new one, and participants get new "
                "source IDs"
            ),
        )
