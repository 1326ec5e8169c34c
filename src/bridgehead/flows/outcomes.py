"""What can come of an ask or a step, as values: a verdict on an answer, and the failures a flow may handle."""

from typing import Any, NamedTuple

from bridgehead.flows.words import ErrorType


class Accepted(NamedTuple):
    """The answer is usable. `warning` says why it is to be taken with care."""

    value: Any
    warning: str | None = None


class Failed(NamedTuple):
    """The answer is not usable: one of the error types, `low_confidence`, `cancelled` or `heuristics_only`."""

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


Verdict = Accepted | Failed


class Outcome(NamedTuple):
    """How an ask ended, for flows that want to look before they leap (`ctx.ask_outcome`)."""

    value: Any = None
    failure: Failed | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def timed_out(self) -> bool:
        return self.failure is not None and self.failure.reason == ErrorType.TIMEOUT.value


class AskFailed(Exception):
    """An ask without a fallback got no usable answer; recorded, so a resumed flow meets it again."""

    def __init__(self, path: str, failure: Failed) -> None:
        super().__init__(f"no usable answer at {path}: {failure}")
        self.path = path
        self.failure = failure


class StepFailed(Exception):
    """A step raised; recorded, so a resumed flow meets it again without running the step."""

    def __init__(self, path: str, error_type: str, message: str) -> None:
        super().__init__(f"step {path} raised {error_type}: {message}")
        self.path = path
        self.error_type = error_type
        self.message = message
