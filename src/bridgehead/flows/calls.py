"""A call is one question of a flow: its attempts and replies, the verdict on them, the failures a flow may handle."""

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
    """One request, and what became of it. `document` is what stands in the request file."""

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
        """When the flow will do without an answer; None: it waits for ever."""
        context = self.document.get("context")
        return (
            parse_time(str(context.get(EXPIRES_AT, "")))
            if isinstance(context, Mapping)
            else None
        )

    def is_expired(self, at: datetime) -> bool:
        """Return whether an answer that comes at this moment comes too late: after `expires_at`, not at it."""
        return self.expires_at is not None and at > self.expires_at

    def issued(self, now: datetime) -> Self:
        """The same request written to the file now: its time starts (flows §9 R9, §14)."""
        document = {**self.document, "created_at": utc_text(now)}
        return self._replace(document=document, status=AttemptStatus.PENDING)

    def ended(self, status: AttemptStatus, error_type: str | None = None) -> Self:
        return self._replace(status=status, error_type=error_type)


class Call(NamedTuple):
    """An outstanding question: its attempts in order, the last one still without an answer."""

    path: str
    attempts: tuple[Attempt, ...]

    @property
    def current(self) -> Attempt:
        return self.attempts[-1]

    def with_current(self, attempt: Attempt) -> Self:
        return self._replace(attempts=(*self.attempts[:-1], attempt))


class Remark(NamedTuple):
    """Something the user is told at the end: a fallback, or an answer taken with a warning."""

    path: str
    kind: str
    text: str


def outstanding_calls(attempts: Iterable[Attempt]) -> dict[str, Call]:
    """The calls that still want an answer, by path, oldest first."""
    by_path: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_path.setdefault(attempt.path, []).append(attempt)
    return {
        path: Call(path, tuple(made))
        for path, made in by_path.items()
        if made[-1].outstanding
    }


def prompt_sha256(prompt: str) -> str:
    """What ties the attempts of one call together in the state file (flows §4)."""
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
    """A response document that names `attempt`, an attempt of the call being settled."""

    def __init__(self, attempt: Attempt, document: Mapping[str, Any]) -> None:
        self.attempt = attempt
        self.document = document


class Accepted(NamedTuple):
    """The answer is usable. `warning` says why it is to be taken with care."""

    value: Any
    warning: str | None = None


class Failed(NamedTuple):
    """The answer is not usable: one of the error types, `low_confidence`, `cancelled`, `expired`, `heuristics_only`."""

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
        """The handler, or the ask itself (`expires=`), ran out of time."""
        return self.failure is not None and self.failure.reason in (
            ErrorType.TIMEOUT.value,
            EXPIRED,
        )

    @property
    def expired(self) -> bool:
        return self.failure is not None and self.failure.reason == EXPIRED


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
