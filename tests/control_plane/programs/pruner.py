"""ADDRESS BEFORE: prune in small transactions; print a line after each commit, then wait to be killed."""

import sys

from bridgehead.control_plane.stores import open_store, retention

address, before = sys.argv[1:]
retention.PRUNED_AT_ONCE = 20  # type: ignore[misc]
with open_store(address) as store:
    write = store._write

    def told(work: object) -> object:
        done = write(work)  # type: ignore[arg-type]
        print("deleted", flush=True)
        return done

    store._write = told  # type: ignore[method-assign,assignment]
    store.prune(before)
sys.stdin.read()
