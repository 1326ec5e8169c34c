"""What a council is given to work with, as interfaces and data of its own: assembly hands in what implements them
(design §3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridgehead.contract.looks import Look
from bridgehead.council.calls import Call, CallFailed, Input, Result
from bridgehead.council.findings.tree import Tree
from bridgehead.council.request.domains import Registry
from bridgehead.council.scope.material import ScopeMaterial


class CallJournal(Protocol):
    """Keeps what happened, durably and in order, before anything depends on it (council §4)."""

    def inputs(self) -> Sequence[Input]:
        """What was fed to the run in earlier processes, in order."""
        ...

    def started(self, call: Call, at: str) -> None:
        """A call is about to be made, with this prompt; no secret is in it."""
        ...

    def fed(self, happened: Input) -> None:
        """This is about to be fed to the run."""
        ...


class HostRequests(Protocol):
    """Where the agent that runs us finds its prompts and leaves its answers: flow requests (council §4)."""

    def post(self, call: Call) -> None:
        """Make the call a request; posting one that is there already changes nothing."""
        ...

    def answers(self, outstanding: Sequence[Call]) -> Sequence[Result]:
        """Results of those calls that have been answered, cancelled or have expired."""
        ...


class Observer(Protocol):
    """Who watches: the terminal, the record, MCP progress, the bus; single calls are for those who want to know."""

    def happened(self, seat: str, line: Mapping[str, Any]) -> None:
        """A line of a seat's log, or of the council's own when the seat is `council`."""
        ...

    def refused(self, seat: str, failed: CallFailed) -> None:
        """A runtime refused a call; kept and shown until it answers again (council §19)."""
        return

    def accepted(self, seat: str) -> None:
        """A runtime answered."""
        return


class MemoryJournal:
    """A journal for runs that nobody will resume, and for tests."""

    def __init__(self, inputs: Sequence[Input] = ()) -> None:
        self._earlier = tuple(inputs)
        self.recorded: list[Input] = list(inputs)
        self.calls: list[Call] = []

    def inputs(self) -> Sequence[Input]:
        return self._earlier

    def started(self, call: Call, at: str) -> None:
        self.calls.append(call)

    def fed(self, happened: Input) -> None:
        self.recorded.append(happened)


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Everything here is fixed for the life of a run and recorded or derived again on resume."""

    registry: Registry
    secret: bytes
    """Random bytes of this run; whoever knows them can forge a fence."""
    tree: Tree | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    material: ScopeMaterial = field(default_factory=ScopeMaterial)
    scope_files: tuple[str, ...] = ()
    """Files the user named one by one; a council that says nothing about one of them has a gap."""
    withdrawal_guard: bool = True
    hidden: tuple[Look, ...] = ()
    """Looks that no seat could take, because the file is shown to nobody."""
    touched: Mapping[str, Sequence[tuple[int, int]]] | None = None
    """Lines of each file that the reviewed change touches; None: everything counts."""
