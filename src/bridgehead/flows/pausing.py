"""How a flow function is left before its end. None of these is an Exception, so no broad `except` swallows one."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.flows.calls import Attempt, Call
from bridgehead.flows.outcomes import Failed
from bridgehead.flows.settlement import Action


class OpenCall:
    """A call a branch is waiting for, as it stands after this pass."""

    def __init__(self, call: Call, action: Action | None) -> None:
        self.call = call
        self.action = action
        """What this pass decided about it; None for one that is new."""


class Blocked(BaseException):
    """The flow cannot go on without answers."""

    def __init__(self, calls: Sequence[OpenCall]) -> None:
        super().__init__(f"waiting for {len(calls)} answers")
        self.calls = tuple(calls)


class Stopped(BaseException):
    """An answer ended the flow: it was cancelled, or there is no such agent."""

    def __init__(self, failure: Failed, agent: str, attempts: Sequence[Attempt]) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.agent = agent
        self.attempts = tuple(attempts)
