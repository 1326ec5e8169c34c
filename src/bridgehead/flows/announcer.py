"""How flows tell others what happens in them. The record, the dashboard and notices listen through this interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.flows.journals.base import Run
from bridgehead.flows.words import NOTHING


class FlowEvent:
    """One thing that happened to a run. The same `id` twice is the same event: a repeated step announces it again."""

    def __init__(self, id: str, kind: str, run: Run, at: str, data: Mapping[str, Any] = NOTHING) -> None:
        self.id = id
        self.kind = kind
        """`flow.started`, `flow.paused`, `flow.resumed`, `flow.responded`, `flow.completed`, … (contract/events.py)."""
        self.run = run
        self.at = at
        self.data = data


class OpenRequest:
    """A request that someone must answer."""

    def __init__(
        self, flow_id: str, name: str, root: str, request: Mapping[str, Any], deadline: str | None
    ) -> None:
        self.flow_id = flow_id
        self.name = name
        self.root = root
        self.request = request
        self.deadline = deadline


class Announcer:
    """Told after the fact was made durable; this one keeps it to itself. An announcer must not raise."""

    def happened(self, event: FlowEvent) -> None:
        """Something happened to a run."""

    def asked(self, request: OpenRequest) -> None:
        """A request was made, or made anew."""

    def settled(self, request_id: str, root: str, status: str) -> None:
        """The request of that root wants no answer any more; `status` is the attempt's (flows §4)."""
