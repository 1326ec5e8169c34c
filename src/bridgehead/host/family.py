"""Find a process and its descendants in the process table, and end them together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from bridgehead.host.child import run_child
from bridgehead.host.guardian import MARK, mark_of

PROC = "/proc"
_MAX_LISTS = 200
_ENDED = ("Z", "X")  # a zombie holds its pid and nothing else
GIVE_UP_SECONDS = 5.0
_RESCAN_SECONDS = 0.005


class Family:
    """All processes that one run has started."""

    def __init__(self) -> None:
        self.run_id = os.urandom(16).hex()
        self._leader: int | None = None
        self._leader_born = 0
        self._remembered: set[ProcessEntry] = set()
        self._not_permitted: set[ProcessEntry] = set()

    def mark(self) -> str:
        """Return the value of the mark that every member carries."""
        return mark_of(self.run_id)

    def set_leader(self, pid: int) -> None:
        """Note the process that was started.

        It must lead its own session and must not be reaped before `kill`.
        """
        self._leader = pid
        entry = find_process(pid)
        self._leader_born = entry.born if entry else 0

    def remember(self) -> None:
        """Note who belongs to the family now, before a signal orphans some of them."""
        self._remembered |= self._members()

    def signal(self, number: int) -> None:
        """Signal the leader's whole process group."""
        if self._leader is None:
            return
        try:
            os.killpg(self._leader, number)
        except (ProcessLookupError, PermissionError):
            return  # it has ended; macOS reports zombies as "not permitted"

    def kill(self) -> int:
        """Kill every member, scanning until nobody is left.

        Return how many there were besides the leader.
        """
        killed: set[ProcessEntry] = set()
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        self.signal(signal.SIGKILL)
        scans_left = 1
        while scans_left and time.monotonic() < give_up_at:
            members = self._members()
            # A process in the middle of an exec shows no environment, so after a kill
            # one clean scan is not enough.
            scans_left = 2 if members else scans_left - 1
            for member in members:
                self._kill(member)
            killed |= members
            if scans_left:
                time.sleep(_RESCAN_SECONDS)
        pids = {member.pid for member in killed - self._not_permitted}
        return len(pids - {self._leader})

    def _kill(self, member: ProcessEntry) -> None:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:  # it runs as somebody else, through sudo for example
            self._not_permitted.add(member)

    def _members(self) -> set[ProcessEntry]:
        """Return the first members found.

        A family may fork faster than we can read the whole process table, so we do not
        look for all of them before killing some.
        """
        everyone: list[ProcessEntry] = []
        ancestors: set[int] = set()
        for listed in living_processes():
            others = [entry for entry in listed if entry.pid != os.getpid()]
            everyone += others
            ancestors |= {entry.pid for entry in others if self._is_member(entry)}
            members = with_descendants(everyone, ancestors) - self._not_permitted
            if members:
                return members
        return set()

    def _is_member(self, entry: ProcessEntry) -> bool:
        if entry in self._remembered:
            return True
        # Nobody in the family is older than its leader.
        if entry.born < self._leader_born:
            return False
        if self._leader in (entry.pid, entry.session):
            return True
        return has_variable(entry, MARK, self.run_id)


def end_marked(run_ids: Iterable[str]) -> None:
    """Kill every process of these runs, whose owner is gone."""
    for run_id in run_ids:
        family = Family()
        family.run_id = run_id
        family.kill()


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One living process.

    Its parent changes when it is orphaned, its pid and birth do not.
    """

    pid: int
    born: int
    parent: int = field(compare=False)
    session: int = field(compare=False)


def living_processes() -> Iterator[list[ProcessEntry]]:
    """Yield all living processes, then those started since, until there are no more.

    A process that forks and ends at once is gone before we read its entry. But it had
    its child before it ended, so the child is in the next list. The number of lists is
    limited, because other processes may start without end.
    """
    pids = _pids()
    if pids is None:
        yield _listed_by_ps()
        return
    seen: set[int] = set()
    for _ in range(_MAX_LISTS):
        new = (pids or set()) - seen
        if not new:
            return
        entries = [find_process(pid) for pid in new]
        yield [entry for entry in entries if entry is not None]
        seen |= new
        pids = _pids()


def find_process(pid: int) -> ProcessEntry | None:
    """Return the process that has `pid` now.

    Return None if it has ended or there is no `/proc`.
    """
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name is in parentheses and may itself contain parentheses and blanks.
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0].decode() in _ENDED:
        return None
    return ProcessEntry(
        pid, born=int(fields[19]), parent=int(fields[1]), session=int(fields[3])
    )


def has_variable(entry: ProcessEntry, variable: str, value: str) -> bool:
    """Return whether a process of our own user was started with `value` in its
    environment `variable`.
    """
    try:
        with open(f"{PROC}/{entry.pid}/environ", "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return False
            environment = file.read()
    except OSError:
        return False
    name = f"{variable}=".encode()
    wanted = value.encode()
    return any(
        item.startswith(name) and wanted in item for item in environment.split(b"\0")
    )


def with_descendants(
    everyone: Iterable[ProcessEntry], ancestors: Collection[int]
) -> set[ProcessEntry]:
    """Return the processes whose pid is among `ancestors`, and their descendants."""
    children: dict[int, list[ProcessEntry]] = {}
    chosen: set[ProcessEntry] = set()
    for entry in everyone:
        children.setdefault(entry.parent, []).append(entry)
        if entry.pid in ancestors:
            chosen.add(entry)
    waiting = list(ancestors)
    while waiting:
        parent = waiting.pop()
        new_children = set(children.get(parent, ())) - chosen
        chosen |= new_children
        waiting += [child.pid for child in new_children]
    return chosen


def _pids() -> set[int] | None:
    try:
        with os.scandir(PROC) as listing:
            return {int(item.name) for item in listing if item.name.isdigit()}
    except OSError:
        return None


def _listed_by_ps() -> list[ProcessEntry]:
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
    text = listing.stdout.decode("ascii", "replace")
    rows = [line.split() for line in text.splitlines()]
    return [
        ProcessEntry(int(row[0]), born=0, parent=int(row[1]), session=int(row[2]))
        for row in rows
        if len(row) == 4 and not row[3].startswith(_ENDED)
    ]
