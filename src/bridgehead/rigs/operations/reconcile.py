"""Bring the control plane in line with git, or rebuild it (rigs §14.3, §14.4)."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from bridgehead.errors import StoreError, UserError
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.ledger.rig_ledger import NoControlPlane, RigLedger
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import Reconciled, Replayed


class LedgerRequest(NamedTuple):
    thread_id: str | None = None
    everything: bool = False


class LedgerUnusable(StoreError):
    """The control-plane file cannot be read or written."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the control plane cannot be used: {reason}", hint="check the file that SWARM_DB names")


def reconcile(rig: Rig, request: LedgerRequest) -> Reconciled:
    """Insert missing rows, push what never left, mark what is gone."""
    thread_id = parse_thread_id(request.thread_id) if request.thread_id else None
    with rig.repository.lock():
        try:
            return _ledger(rig).reconcile(thread_id)
        except sqlite3.Error as error:
            raise LedgerUnusable(str(error)) from error


def replay(rig: Rig, request: LedgerRequest) -> Replayed:
    """Rebuild the rows of a thread, or of all, from history."""
    if (request.thread_id is None) == (not request.everything):
        raise UserError("replay: give --thread <id> or --all")
    thread_id = parse_thread_id(request.thread_id) if request.thread_id else None
    with rig.repository.lock():
        try:
            return _ledger(rig).replay(thread_id)
        except sqlite3.Error as error:
            raise LedgerUnusable(str(error)) from error


def _ledger(rig: Rig) -> RigLedger:
    if not isinstance(rig.ledger, RigLedger):
        raise NoControlPlane
    return rig.ledger
