"""Who is alive on this machine: `/proc` where there is one, `ps` elsewhere.

A pid alone does not name a process, for it is given out again; pid and birth together do. `ps` tells no birth that
can be compared, so there a pid has to stand for its process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from bridgehead.host.child import run_child

PROC = "/proc"
_MOST_LISTS = 200
_ENDED = ("Z", "X")  # a zombie holds its pid and nothing else


@dataclass(frozen=True, slots=True)
class Entry:
    """One living process; its parent changes when it is orphaned, its pid and birth do not."""

    pid: int
    born: int
    parent: int = field(compare=False)
    session: int = field(compare=False)


def living() -> Iterator[list[Entry]]:
    """List every process that has not ended, then those that came while the list was read, until nobody comes.

    A process that forks and ends at once is gone before its line in a list is read. It had its child before it went,
    so the child stands in the next list. A machine where others start without end is listed a bounded number of times.
    """
    if (pids := _pids()) is None:
        yield _listed_by_ps()
        return
    seen: set[int] = set()
    for _ in range(_MOST_LISTS):
        new = (pids or set()) - seen
        if not new:
            return
        yield [entry for pid in new if (entry := look_up(pid)) is not None]
        seen |= new
        pids = _pids()


def look_up(pid: int) -> Entry | None:
    """Return the process that has `pid` now; None if it has ended, or there is no `/proc` to ask."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may itself hold parentheses and blanks.
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0].decode() in _ENDED:
        return None
    return Entry(pid, born=int(fields[19]), parent=int(fields[1]), session=int(fields[3]))


def _pids() -> set[int] | None:
    try:
        with os.scandir(PROC) as listing:
            return {int(item.name) for item in listing if item.name.isdigit()}
    except OSError:
        return None


def carries(entry: Entry, variable: str, value: str) -> bool:
    """Tell whether a process of our own user was started with `value` in its environment `variable`."""
    try:
        with open(f"{PROC}/{entry.pid}/environ", "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return False
            environment = file.read()
    except OSError:
        return False
    name, wanted = f"{variable}=".encode(), value.encode()
    return any(item.startswith(name) and wanted in item for item in environment.split(b"\0"))


def with_descendants(everyone: Iterable[Entry], ancestors: Collection[int]) -> set[Entry]:
    """Return the processes whose pid is among `ancestors`, and all that descend from them."""
    children: dict[int, list[Entry]] = {}
    chosen: set[Entry] = set()
    for entry in everyone:
        children.setdefault(entry.parent, []).append(entry)
        if entry.pid in ancestors:
            chosen.add(entry)
    waiting = list(ancestors)
    while waiting:
        born_later = set(children.get(waiting.pop(), ())) - chosen
        chosen |= born_later
        waiting += [child.pid for child in born_later]
    return chosen


def _listed_by_ps() -> list[Entry]:
    try:
        listing = run_child(
            ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="],
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [line.split() for line in listing.stdout.decode("ascii", "replace").splitlines()]
    return [
        Entry(int(row[0]), born=0, parent=int(row[1]), session=int(row[2]))
        for row in rows
        if len(row) == 4 and not row[3].startswith(_ENDED)
    ]
