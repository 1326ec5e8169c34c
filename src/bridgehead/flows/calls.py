"""A call is one question of a flow; its attempts are the requests that were made for it, one after another.

Plain frozen data: `settlement.py` decides what becomes of it, a journal keeps it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

from bridgehead.flows.digests import sha256_hex
from bridgehead.flows.moments import deadline_after, utc_text
from bridgehead.flows.words import AttemptStatus

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
        return deadline_after(document.get("created_at", ""), document.get("timeout_seconds", 0))

    def handed_out(self, now: datetime) -> Self:
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

    def attempt(self, request_id: str) -> Attempt | None:
        """The attempt with that id; ids are compared without case (flows §3)."""
        wanted = request_id.lower()
        return next((found for found in self.attempts if found.request_id.lower() == wanted), None)

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
    return {path: Call(path, tuple(made)) for path, made in by_path.items() if made[-1].outstanding}


def prompt_sha256(prompt: str) -> str:
    """What ties the attempts of one call together in the state file (flows §4)."""
    return sha256_hex(prompt.encode("utf-8", "surrogatepass"))
