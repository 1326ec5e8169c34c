"""ADDRESS WRITER COUNT: append events one by one; print each id and seq once the append has returned."""

import sys

from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.stores import open_store

address, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_store(address) as store:
    for n in range(count):
        (recorded,) = store.append(
            [
                Event(
                    id=f"{writer}-{n}",
                    kind="rig.sent",
                    part=Part.RIGS,
                    at="2026-11-15T10:15:02.123Z",
                )
            ]
        )
        print(recorded.event.id, recorded.seq, flush=True)
