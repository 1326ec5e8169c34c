"""The family of a started program: itself, its descendants, and whoever carries its mark.

Agent CLIs start each shell tool in a session of its own, where a signal to the process group does not reach it
(runtimes §2.4). So every run is marked by a variable in the environment, which children inherit, and the family is
found by parent links, session and mark together. What escapes is a process that left the session, lost its parent
and cleared its environment before anybody looked.
"""

from __future__ import annotations

import os
import signal
import time

from bridgehead.host.process_table import Entry, carries, living, look_up, with_descendants

MARK = "BRIDGEHEAD_RUN_ID"
GIVE_UP_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.005


class Family:
    """Everything one run has brought to life."""

    def __init__(self) -> None:
        self.run_id = os.urandom(16).hex()
        self._leader: int | None = None
        self._eldest_born = 0
        self._remembered: set[Entry] = set()
        self._beyond_reach: set[Entry] = set()

    def mark(self) -> str:
        """Return the value of the mark; a run inside a run carries both, so that the outer one finds it too."""
        outer = os.environ.get(MARK)
        return f"{outer}:{self.run_id}" if outer else self.run_id

    def led_by(self, pid: int) -> None:
        """Name the process that was started; it must lead a session of its own and not be reaped before `kill`."""
        self._leader = pid
        entry = look_up(pid)
        self._eldest_born = entry.born if entry else 0

    def remember(self) -> None:
        """Note who belongs to the family now; the first signal may cut the parent links."""
        self._remembered |= self._members()

    def signal(self, number: int, *, group: bool) -> None:
        """Signal the leader, or its whole process group."""
        if self._leader is None:
            return
        try:
            if group:
                os.killpg(self._leader, number)
            else:
                os.kill(self._leader, number)
        except (ProcessLookupError, PermissionError):
            return  # it has ended; of a group of zombies macOS says "not permitted"

    def kill(self) -> int:
        """Kill every member, looking again until nobody is left; return how many there were besides the leader."""
        killed: set[Entry] = set()
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        self.signal(signal.SIGKILL, group=True)
        looks_left = 1
        while looks_left and time.monotonic() < give_up_at:
            members = self._members()
            # Whoever is in the middle of an exec shows no environment, so after a kill one clean look is not enough.
            looks_left = 2 if members else looks_left - 1
            for member in members:
                self._kill(member)
            killed |= members
            if looks_left:
                time.sleep(_LOOK_AGAIN_SECONDS)
        return len({member.pid for member in killed - self._beyond_reach} - {self._leader})

    def _kill(self, member: Entry) -> None:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:  # it runs as somebody else, through sudo for example
            self._beyond_reach.add(member)

    def _members(self) -> set[Entry]:
        """Return the first members found: a family that forks faster than the whole machine is read must not wait."""
        everyone: list[Entry] = []
        rooted: set[int] = set()
        for listed in living():
            others = [entry for entry in listed if entry.pid != os.getpid()]
            everyone += others
            rooted |= {entry.pid for entry in others if self._is_member(entry)}
            if members := with_descendants(everyone, rooted) - self._beyond_reach:
                return members
        return set()

    def _is_member(self, entry: Entry) -> bool:
        if entry in self._remembered:
            return True
        if entry.born < self._eldest_born:  # nobody in the family is older than its leader
            return False
        return self._leader in (entry.pid, entry.session) or carries(entry, MARK, self.run_id)
