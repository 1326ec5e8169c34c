"""How flows tell others what happens in them. The record, the dashboard and notices listen through this interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from bridgehead.flows.words import NOTHING


class FlowEvent(NamedTuple):
    """One thing that happened to a run. The same `id` twice is the same event: a repeated step announces it again."""

    id: str
    kind: str
    """`flow.started`, `flow.paused`, `flow.resumed`, `flow.responded`, `flow.completed`, … (contract/events.py)."""
    flow_id: str
    name: str
    root: str
    at: str
    data: Mapping[str, Any] = NOTHING


class OpenRequest(NamedTuple):
    """A request that someone must answer."""

    flow_id: str
    name: str
    root: str
    request: Mapping[str, Any]
    deadline: str | None


class Announcer(Protocol):
    """Told after the fact was made durable. An announcer keeps its own troubles to itself: it must not raise."""

    def happened(self, event: FlowEvent) -> None: ...

    def asked(self, request: OpenRequest) -> None: ...

    def settled(self, request_id: str, status: str) -> None:
        """The request wants no answer any more; `status` is the attempt's (flows §4)."""
        ...


class Silent:
    """Nobody listens."""

    def happened(self, event: FlowEvent) -> None: ...

    def asked(self, request: OpenRequest) -> None: ...

    def settled(self, request_id: str, status: str) -> None: ...
