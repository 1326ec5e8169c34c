"""Define what others provide to flows: announcers, and agents in this process."""

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
        """Return the agent's answer; raise AgentInvocationError if there is none."""
        ...


class FlowEvent:
    """Something that happened to a run.

    A repeated step announces its event again, with the same `id`.
    """

    def __init__(
        self, id: str, kind: str, run: Run, at: str, data: Mapping[str, Any] = NOTHING
    ) -> None:
        self.id = id
        self.kind = kind
        """`flow.started`, `flow.paused`, `flow.resumed`, … (contract/events.py)."""
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
    """Is called after something was recorded durably; this base class does nothing.

    An announcer must not raise.
    """

    def happened(self, event: FlowEvent) -> None:
        """Something happened to a run."""

    def asked(self, request: OpenRequest) -> None:
        """Announce that a request was made or changed."""

    def knows(self, request_id: str, root: str) -> bool:
        """Return whether the request has been announced before."""
        return True

    def settled(self, request_id: str, root: str, status: str) -> None:
        """Announce that a request needs no answer any more.

        `status` is that of the attempt (flows §4).
        """
