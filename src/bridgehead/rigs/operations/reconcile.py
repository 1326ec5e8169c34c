"""Bring the control plane in line with git, or rebuild it (rigs §14.3, §14.4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bridgehead.errors import StoreError, UserError
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.ledger.rig_ledger import NoControlPlane, RigLedger
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import Reconciled, Replayed


class LedgerRequest(NamedTuple):
    thread_id: str | None = None
    everything: bool = False


def reconcile(rig: Rig, request: LedgerRequest) -> Reconciled:
    """Insert missing rows, push what never left, mark what is gone."""
    thread_id = parse_thread_id(request.thread_id) if request.thread_id else None
    with _ledger(rig) as ledger:
        return ledger.reconcile(thread_id)


def replay(rig: Rig, request: LedgerRequest) -> Replayed:
    """Rebuild the rows of a thread, or of all, from history."""
    if (request.thread_id is None) == (not request.everything):
        raise UserError("replay: give --thread <id> or --all")
    thread_id = parse_thread_id(request.thread_id) if request.thread_id else None
    with _ledger(rig) as ledger:
        return ledger.replay(thread_id)


@contextmanager
def _ledger(rig: Rig) -> Iterator[RigLedger]:
    with rig.repository.lock():
        if not isinstance(rig.ledger, RigLedger):
            raise NoControlPlane
        try:
            yield rig.ledger
        except sqlite3.Error as error:
            raise StoreError(
                f"the control plane cannot be used: {error}", hint="check the file that SWARM_DB names"
            ) from error
