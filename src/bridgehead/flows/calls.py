"""Describe a call, one question of a flow: its attempts, replies and verdict.

The failures that a flow may handle are here, too.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

from bridgehead.flows.values.ids import sha256_hex
from bridgehead.flows.values.times import deadline_after, parse_time, utc_text
from bridgehead.flows.words import (
    EXPIRED,
    EXPIRES_AT,
    AttemptStatus,
    ErrorType,
    RequestStatus,
)

_OUTSTANDING = frozenset({AttemptStatus.QUEUED, AttemptStatus.PENDING})


class Attempt(NamedTuple):
    """One request, and what became of it.

    `document` is what stands in the request file.
    """

    path: str
    document: Mapping[str, Any]
    status: AttemptStatus
    resumes: int = 0
    error_type: str | None = None
    response: Mapping[str, Any] | None = None

    @property
    def request_id(self) -> str:
        return str(self.document["request_id"])

    @property
    def number(self) -> int:
        return int(self.document.get("retry_count", 0))

    @property
    def outstanding(self) -> bool:
        return self.status in _OUTSTANDING

    @property
    def deadline(self) -> datetime:
        document = self.document
        return deadline_after(
            document.get("created_at", ""), document.get("timeout_seconds", 0)
        )

    @property
    def expires_at(self) -> datetime | None:
        """Return when the flow will do without an answer; None if it waits for ever."""
        context = self.document.get("context")
        if not isinstance(context, Mapping):
            return None
        return parse_time(str(context.get(EXPIRES_AT, "")))

    def is_expired(self, at: datetime) -> bool:
        """Return whether an answer at this moment is too late.

        It is after `expires_at`, not at it.
        """
        return self.expires_at is not None and at > self.expires_at

    def issued(self, now: datetime) -> Self:
        """Return the same request as written to the file now (flows §9 R9, §14).

        Its time starts now.
        """
        document = {**self.document, "created_at": utc_text(now)}
        return self._replace(document=document, status=AttemptStatus.PENDING)

    def ended(self, status: AttemptStatus, error_type: str | None = None) -> Self:
        return self._replace(status=status, error_type=error_type)


class Call(NamedTuple):
    """An outstanding question: its attempts in order, the last one unanswered."""

    path: str
    attempts: tuple[Attempt, ...]

    @property
    def current(self) -> Attempt:
        return self.attempts[-1]

    def with_current(self, attempt: Attempt) -> Self:
        return self._replace(attempts=(*self.attempts[:-1], attempt))


class Remark(NamedTuple):
    """Something to tell the user at the end: a fallback, or a warning."""

    path: str
    kind: str
    text: str


def attempts_of(calls: Iterable[Call]) -> list[Attempt]:
    """Return the attempts of all these calls, in order."""
    attempts: list[Attempt] = []
    for call in calls:
        attempts += call.attempts
    return attempts


def outstanding_calls(attempts: Iterable[Attempt]) -> dict[str, Call]:
    """Return the calls that still want an answer, by path, oldest first."""
    by_path: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_path.setdefault(attempt.path, []).append(attempt)
    return {
        path: Call(path, tuple(made))
        for path, made in by_path.items()
        if made[-1].outstanding
    }


def prompt_sha256(prompt: str) -> str:
    """Return what ties the attempts of a call together in the state file (flows §4)."""
    return sha256_hex(prompt.encode("utf-8", "surrogatepass"))


class Reply(NamedTuple):
    """What comes back for a request; becomes the response file."""

    status: RequestStatus = RequestStatus.SUCCESS
    text: str | None = None
    error_type: str | None = None
    message: str | None = None
    model: str | None = None
    tokens: int | None = None
    confidence: float | None = None
    duration_seconds: float | None = None


class MatchedAnswer:
    """A response document, and the attempt of the call being settled that it names."""

    def __init__(self, attempt: Attempt, document: Mapping[str, Any]) -> None:
        self.attempt = attempt
        self.document = document


class Accepted(NamedTuple):
    """The answer is usable. `warning` says why it is to be taken with care."""

    value: Any
    warning: str | None = None


class Failed(NamedTuple):
    """The answer is not usable.

    The reason is one of the error types, or `low_confidence`, `cancelled`, `expired`,
    `heuristics_only`.
    """

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


Verdict = Accepted | Failed


class Outcome(NamedTuple):
    """How an ask ended, for flows that look before they leap (`ctx.ask_outcome`)."""

    value: Any = None
    failure: Failed | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def timed_out(self) -> bool:
        """Return whether the handler or the ask itself (`expires=`) ran out of time."""
        if self.failure is None:
            return False
        return self.failure.reason in (ErrorType.TIMEOUT.value, EXPIRED)

    @property
    def expired(self) -> bool:
        return self.failure is not None and self.failure.reason == EXPIRED


class AskFailed(Exception):
    """An ask without a fallback got no usable answer.

    This is recorded, so a resumed flow meets it again.
    """

    def __init__(self, path: str, failure: Failed) -> None:
        super().__init__(f"no usable answer at {path}: {failure}")
        self.path = path
        self.failure = failure


class StepFailed(Exception):
    """A step raised.

    This is recorded, so a resumed flow meets it again without running the step.
    """

    def __init__(self, path: str, error_type: str, message: str) -> None:
        super().__init__(f"step {path} raised {error_type}: {message}")
        self.path = path
        self.error_type = error_type
        self.message = message
