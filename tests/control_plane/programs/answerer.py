"""ADDRESS ITEM WHO: say ready, wait for a line, try to answer; print whether the answer was taken."""

import sys

from bridgehead.contract.pending import Answer
from bridgehead.control_plane.stores import open_store
from bridgehead.errors import AlreadyAnswered

address, item, who = sys.argv[1:]
with open_store(address) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        store.answer_pending(item, Answer(text="mine", by=who))
    except AlreadyAnswered:
        print("late", flush=True)
    else:
        print("taken", flush=True)
