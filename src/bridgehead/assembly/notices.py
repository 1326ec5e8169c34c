"""Notices: a run finished, failed or needs someone, put into the record for whoever tells people (design §1).

One event each, of kind `notice`, with the payload a participant of the bus is sent as `bridgehead.notice`. Writing one
never waits for its delivery: who serves the bus follows these events.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from uuid import uuid4

from bridgehead.assembly.application import PART_OF_NOUN
from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.stores.base import Store
from bridgehead.host.clock import SystemClock, iso_ms

NOTICE: Final = "notice"
# A title may hold a whole request; a notice is read at a glance.
MOST_TITLE: Final = 200


class NoticeStatus(StrEnum):
    FINISHED = "finished"
    NEEDS_YOU = "needs_you"
    FAILED = "failed"


def announce_notice(store: Store, *, kind: str, id: str, title: str, status: str, project: str) -> RecordedEvent:
    """Record the notice `{kind, id, title, status}`; `kind` says what `id` names: council, flow, rig, bus."""
    event = Event(
        id=str(uuid4()),
        kind=NOTICE,
        part=PART_OF_NOUN.get(kind, Part.RECORD),
        at=iso_ms(SystemClock().now()),
        project=project,
        run_id=id,
        data={"kind": kind, "id": id, "title": _shortened(title), "status": str(status)},
    )
    return store.append([event])[0]


def _shortened(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= MOST_TITLE else line[: MOST_TITLE - 1] + "…"
