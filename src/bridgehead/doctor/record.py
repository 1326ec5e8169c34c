"""Check of the record: it is opened and one event is written, because nothing less proves that it can be used."""

from __future__ import annotations

from uuid import uuid4

from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.contract.words import Part
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.doctor.diagnosis import Checkup, Diagnosis, Group, State
from bridgehead.errors import FileError, StoreError
from bridgehead.host.clock import SystemClock, iso_ms

MOST_COUNTED = 1000


def check_record(assembly: Assembly, found_so_far: Checkup) -> list[Diagnosis]:
    """Append `doctor.checked` with what the other checks counted."""
    checked = Event(
        id=str(uuid4()),
        kind="doctor.checked",
        part=Part.RECORD,
        at=iso_ms(SystemClock().now()),
        project=assembly.project,
        data={state.value: found_so_far.count(state) for state in State},
    )
    try:
        with assembly.store() as store:
            seq = store.append([checked])[0].seq
            waiting = len(store.pending(OPEN_ITEMS, limit=MOST_COUNTED))
            where = store.where
    except (StoreError, FileError) as error:
        return [Diagnosis(Group.RECORD, "record.unusable", State.BROKEN, error.message, fix=error.hint)]
    fine = Diagnosis(
        Group.RECORD, "record.fine", State.FINE, f"record {where} takes events, the last is number {seq}"
    )
    return [fine, *([_waiting(waiting)] if waiting else [])]


def _waiting(count: int) -> Diagnosis:
    many = f"{MOST_COUNTED} or more" if count == MOST_COUNTED else str(count)
    return Diagnosis(
        Group.RECORD, "record.pending", State.LOOK, f"{many} waiting for an answer", fix="bridgehead pending"
    )
