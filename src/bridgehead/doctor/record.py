"""Check of the record: can it be opened, is it this version's, is anything waiting."""

from __future__ import annotations

from bridgehead.assembly import Assembly
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.doctor.diagnosis import Diagnosis, Group, State
from bridgehead.errors import StoreError


def check_record(assembly: Assembly) -> list[Diagnosis]:
    """Open the record without changing it."""
    try:
        with assembly.store(read_only=True) as store:
            events = store.last_seq()
            waiting = len(store.pending(OPEN_ITEMS, limit=1000))
            where = store.where
    except StoreError as error:
        return [Diagnosis(Group.RECORD, "record.unusable", State.BROKEN, error.message, fix=error.hint)]
    found = [Diagnosis(Group.RECORD, "record.fine", State.FINE, f"record {where}: {events} events")]
    if waiting:
        message = f"{waiting} waiting for an answer"
        found.append(Diagnosis(Group.RECORD, "record.pending", State.LOOK, message, fix="bridgehead pending"))
    return found
