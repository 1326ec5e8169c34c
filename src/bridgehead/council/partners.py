"""Whom a council works with, as interfaces of its own: the assembly hands in what implements them (design §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bridgehead.council.calls import Call, CallFailed, Input, Result


class CallJournal(Protocol):
    """Keeps what happened, durably and in order, before anything depends on it (council §4)."""

    def inputs(self) -> Sequence[Input]:
        """What was fed to the run in earlier processes, in order."""
        ...

    def started(self, call: Call, at: str) -> None:
        """A call is about to be made."""
        ...

    def fed(self, happened: Input) -> None:
        """This is about to be fed to the run."""
        ...


class HostDesk(Protocol):
    """Where the agent that runs us finds its prompts and leaves its answers: flow requests (council §4)."""

    def post(self, call: Call) -> None:
        """Make the call a request; posting one that is there already changes nothing."""
        ...

    def answers(self, outstanding: Sequence[Call]) -> Sequence[Result]:
        """Results of those calls that have been answered, cancelled or have expired."""
        ...


class Observer(Protocol):
    """Who watches: the terminal, the record, MCP progress, the bus."""

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        """A line of a seat's log, or of the council's own when the bridge is `council`."""
        ...

    def refused(self, bridge: str, failed: CallFailed) -> None:
        """A runtime refused a call; kept and shown until it answers again (council §19)."""
        ...

    def accepted(self, bridge: str) -> None:
        """A runtime answered."""
        ...


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


class NoObserver:
    """Nobody watches."""

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        return

    def refused(self, bridge: str, failed: CallFailed) -> None:
        return

    def accepted(self, bridge: str) -> None:
        return
