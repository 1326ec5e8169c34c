"""Parts announce what they did; here it becomes an event in the record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.contract.words import Part
from bridgehead.host.clock import SystemClock, iso_ms

_PART_OF_NOUN = {"rig": Part.RIGS, "flow": Part.FLOWS, "council": Part.COUNCIL, "bus": Part.BUS}


def append_event(
    project: str,
    kind: str,
    facts: Mapping[str, object],
    *,
    run_id: str | None = None,
    assembly: Assembly | None = None,
) -> None:
    """Append one event for something that happened in `project` just now; `assembly` knows where the record is."""
    event = Event(
        id=str(uuid4()),
        kind=kind,
        part=_PART_OF_NOUN.get(kind.partition(".")[0], Part.RECORD),
        at=iso_ms(SystemClock().now()),
        project=project,
        run_id=run_id,
        data=dict(facts),
    )
    with (assembly or Assembly(Path(project))).store() as store:
        store.append([event])
