"""ADDRESS ID: say ready, wait for a line, open the record and append one event."""

import sys

from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.stores import open_store

address, event_id = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with open_store(address) as store:
    store.append(
        [
            Event(
                id=event_id,
                kind="flow.started",
                part=Part.FLOWS,
                at="2026-11-15T10:15:02.123Z",
            )
        ]
    )
print("done")
