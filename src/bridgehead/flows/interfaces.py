"""What flows ask of others: announcers that are told what happens, agents that can be asked in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bridgehead.flows.journals.base import Run
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS, NOTHING, ErrorType


class AgentInvocationError(Exception):
    """Raised when agent invocation fails."""

    error_type: str = ErrorType.INVOCATION_FAILED.value


class AgentInvoker(Protocol):
    """Anything that can be asked directly; a flow given one never pauses."""

    def invoke(
        self,
        agent_name: str,
        prompt: str,
        timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
        **kwargs: Any,
    ) -> str:
        """The agent's answer; AgentInvocationError when there is none."""
        ...


class FlowEvent:
    """One thing that happened to a run. The same `id` twice is the same event: a repeated step announces it again."""

    def __init__(
        self, id: str, kind: str, run: Run, at: str, data: Mapping[str, Any] = NOTHING
    ) -> None:
        self.id = id
        self.kind = kind
        """`flow.started`, `flow.paused`, `flow.resumed`, `flow.responded`, `flow.completed`, … (contract/events.py)."""
        self.run = run
        self.at = at
        self.data = data


class OpenRequest:
    """A request that someone must answer."""

    def __init__(
        self,
        flow_id: str,
        name: str,
        root: str,
        request: Mapping[str, Any],
        deadline: str | None,
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

    def knows(self, request_id: str, root: str) -> bool:
        """Whether it was told of the request before, so that it need not be told again at each pause."""
        return True

    def settled(self, request_id: str, root: str, status: str) -> None:
        """The request of that root wants no answer any more; `status` is the attempt's (flows §4)."""
