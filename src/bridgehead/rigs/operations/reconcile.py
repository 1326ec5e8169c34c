"""Bring the control plane in line with git, or rebuild it (rigs §14.3, §14.4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from bridgehead.errors import ConfigError, StoreError, UserError
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.ledger.rig_ledger import RigLedger
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import Reconciled, Replayed


def reconcile(rig: Rig, thread_id: str | None) -> Reconciled:
    """Insert missing rows, push what never left, mark what is gone."""
    wanted = parse_thread_id(thread_id) if thread_id else None
    with _ledger(rig) as ledger:
        return ledger.reconcile(wanted)


def replay(rig: Rig, thread_id: str | None, *, everything: bool) -> Replayed:
    """Rebuild the rows of a thread, or of all, from history."""
    if (thread_id is None) == (not everything):
        raise UserError("replay: give --thread <id> or --all")
    wanted = parse_thread_id(thread_id) if thread_id else None
    with _ledger(rig) as ledger:
        return ledger.replay(wanted)


@contextmanager
def _ledger(rig: Rig) -> Iterator[RigLedger]:
    with rig.repository.lock():
        if not isinstance(rig.ledger, RigLedger):
            raise ConfigError(
                "no control plane is configured: set SWARM_DB or the key "
                "control_plane of .bridge/config.yaml",
                hint="SWARM_DB=swarm.db rig-bridge replay --all builds one from history",
            )
        try:
            yield rig.ledger
        except sqlite3.Error as error:
            raise StoreError(
                f"the control plane cannot be used: {error}",
                hint="check the file that SWARM_DB names",
            ) from error
