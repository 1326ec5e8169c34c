"""Look up the recorded result of a call, or do the work and record it.

Every step of a flow goes through here. A recorded result is returned; otherwise the
step is run, its result recorded durably, and then returned. A record made by another
kind of call or with other inputs is never returned, as the flow would continue with
the wrong data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CoroutineType
from typing import Any, Final, NamedTuple

from bridgehead.flows.calls import Attempt, StepFailed
from bridgehead.flows.errors import FlowMistake, NonDeterministic
from bridgehead.flows.journals.base import Record
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.codec import NotRecordable, canonical, encode
from bridgehead.flows.values.ids import parents_of, sha256_hex
from bridgehead.flows.values.times import utc_text
from bridgehead.host.clock import Clock, time_limit

BRANCH: Final = "branch"
COMPLETED = "completed"
FALLBACK = "fallback"
FAILED = "failed"
_CONTAINERS: Final = frozenset({"flow", "phase"})
"""The kinds of calls that contain others.

They are recorded after the calls inside them, so one without a record may have begun.
"""
_NO_INPUT = sha256_hex(canonical([]))


def digest(inputs: Sequence[Any], path: str = "") -> str:
    """Return the SHA-256 of the canonical JSON of a call's inputs (flows §14).

    Raise NotRecordable, before anything runs, if an input cannot be written as JSON.
    """
    if not inputs:
        return _NO_INPUT
    try:
        return sha256_hex(canonical(inputs))
    except NotRecordable as error:
        raise error.named(f"{path} was not run: one of its arguments") from None


def encoded(value: Any, description: str) -> str:
    """Return `value` encoded for a record; `description` names it in an error."""
    try:
        return encode(value)
    except NotRecordable as error:
        raise error.named(description) from None


LONGEST_BACKOFF_SECONDS: Final = 300.0
MOST_TRACEBACK_CHARACTERS: Final = 100_000


def lane_of(path: str) -> str:
    """Return the innermost branch of a `gather` or `map` that contains a call.

    The calls of one lane have a fixed order.
    """
    start = path.rfind(f"/{BRANCH}#")
    if start < 0:
        return ""
    end = path.find("/", start + 1)
    return path if end < 0 else path[:end]


class Effort(NamedTuple):
    """How often a step is retried, after what wait, and how long each try may take."""

    retries: int = 0
    backoff_seconds: float = 1.0
    timeout_seconds: float | None = None

    def wait_before(self, retry: int) -> float:
        """Return the seconds to wait before that retry; the first is 1."""
        doublings = min(retry - 1, 30)
        seconds = self.backoff_seconds * 2**doublings
        return float(min(LONGEST_BACKOFF_SECONDS, seconds))

    def refuse_invalid(self, name: str) -> None:
        if self is ONE_TRY:
            return
        if self.retries < 0 or self.backoff_seconds < 0:
            raise FlowMistake(f"step {name}: retries and backoff cannot be negative")
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise FlowMistake(f"step {name}: a timeout is more than 0 seconds")


ONE_TRY: Final = Effort()


def _completed(value: Any) -> Any:
    """Return the value, or the result of the coroutine it is."""
    if not isinstance(value, CoroutineType):
        return value
    import asyncio

    return asyncio.run(value)


class Replay:
    """The records of one run during one pass."""

    in_order = False
    """Whether branches take turns, so that their records have one order."""

    def __init__(self, journal: SqliteJournal, flow_id: str, clock: Clock) -> None:
        self._journal = journal
        self._begin(flow_id, clock, journal.lookup(flow_id))

    def _begin(self, flow_id: str, clock: Clock, records: dict[str, Record]) -> None:
        self.flow_id = flow_id
        self.clock = clock
        self._records = records
        self._visited: set[str] = set()
        self._ahead: dict[str, list[str]] = {}
        """The known calls the flow has yet to reach, by lane, the next one last."""
        self._nested = False
        """Whether a branch contains another, so that calls may be ahead inside it."""
        self.new_records: list[Record] = []
        """The records made in this pass, in order."""
        self._running: str | None = None
        self.on_forgotten: Callable[[], None] = lambda: None
        """Called when a step is rerun, and with it everything after it."""

    def find(
        self,
        path: str,
        kind: str,
        input_sha: str | None,
        *,
        rerun_on_change: bool = False,
    ) -> Record | None:
        """Return the record at `path`; without a digest, whatever its input.

        Raise NonDeterministic if it belongs to another call. With `rerun_on_change`,
        forget such a record and everything after it, and return None.
        """
        self._visited.add(path)
        if self._ahead:
            self._advance_to(path, kind)
        record = self._records.get(path)
        if record is None:
            return None
        both_known = input_sha is not None and record.input_sha is not None
        is_other_kind = record.kind != kind
        has_other_input = both_known and record.input_sha != input_sha
        if not is_other_kind and not has_other_input:
            return record
        if rerun_on_change:
            self._forget_from(path)
            return None
        if is_other_kind:
            raise NonDeterministic(path, f"{kind} instead of {record.kind}")
        raise NonDeterministic(path, "the inputs differ")

    def expect_all(self, waiting: Iterable[str]) -> None:
        """Let nothing new run before the flow has reached every known call.

        Those are the recorded calls, and those waiting for an answer.
        """
        for path in (*self._records, *waiting):
            # Calls inside a recorded container are not made again.
            if any(parent in self._records for parent in parents_of(path)):
                continue
            self._ahead.setdefault(lane_of(path), []).append(path)
        for lane in self._ahead.values():
            lane.reverse()
        self._nested = any(lane.count(f"/{BRANCH}#") > 1 for lane in self._ahead)

    def is_recorded(self, path: str) -> bool:
        return path in self._records

    def next_ahead(self, path: str) -> str | None:
        """Return the known call the flow must reach before anything new at `path`.

        Calls in other branches do not count.
        """
        lane = lane_of(path)
        enclosing = lane
        while not self._ahead.get(enclosing) and enclosing:
            enclosing = lane_of(enclosing.rpartition("/")[0])
        if self._ahead.get(enclosing):
            return self._ahead[enclosing][-1]
        if lane and not self._nested:
            return None
        inside = f"{lane}/" if lane else ""
        for inner_lane, paths in self._ahead.items():
            if inner_lane.startswith(inside):
                return paths[-1]
        return None

    def _advance_to(self, path: str, kind: str) -> None:
        """Note that the flow has reached `path`.

        Raise NonDeterministic if it should have reached a known call first.
        """
        lane = self._ahead.get(lane_of(path))
        if lane and lane[-1] == path:
            lane.pop()
            if not lane:
                del self._ahead[lane_of(path)]
            return
        if kind in _CONTAINERS:
            return
        missed = self.next_ahead(path)
        if missed is not None:
            record = self._records.get(missed)
            recorded = record.kind if record else "ask"
            raise NonDeterministic(
                missed,
                f"the code now has the {kind} {path}, recorded is the {recorded}",
            )

    def perform(
        self,
        path: str,
        kind: str,
        input_sha: str | None,
        work: Callable[[], Any],
        effort: Effort = ONE_TRY,
    ) -> Record:
        """Do the work and record its result, or that the last try failed."""
        started = self.now()
        tries_left = effort.retries
        while True:
            try:
                value = self._try(path, work, effort)
            except FlowMistake:
                raise
            except Exception as error:
                if not tries_left:
                    raise self.failed(path, kind, input_sha, error, started) from error
                self.clock.sleep(effort.wait_before(effort.retries - tries_left + 1))
                tries_left -= 1
            else:
                result = encoded(value, f"{path} has run; its result")
                return self.add(path, kind, input_sha, result, started)

    def failed(
        self,
        path: str,
        kind: str,
        input_sha: str | None,
        error: Exception,
        started: str,
    ) -> StepFailed:
        """Record that the last try failed, and return the error to raise.

        The record keeps the traceback as its result.
        """
        import traceback

        text = "".join(traceback.format_exception(error))
        trace = json.dumps(text[-MOST_TRACEBACK_CHARACTERS:])
        failure = json.dumps([type(error).__name__, str(error)])
        self._append(
            Record(path, kind, input_sha, FAILED, trace, failure, started, self.now())
        )
        return StepFailed(path, type(error).__name__, str(error))

    def _try(self, path: str, work: Callable[[], Any], effort: Effort) -> Any:
        self._running = path
        try:
            if effort.timeout_seconds is None:
                return _completed(work())
            with time_limit(self.clock, effort.timeout_seconds):
                return _completed(work())
        finally:
            self._running = None

    @contextmanager
    def without_context(self, path: str) -> Iterator[None]:
        """Forbid calls of the flow's context while a fallback runs.

        A replay would not run the fallback and so would miss them.
        """
        self._running = path
        try:
            yield
        finally:
            self._running = None

    def refuse_use_inside_call(self) -> None:
        """Raise FlowMistake if a step or fallback uses the context while it runs."""
        if self._running is not None:
            raise FlowMistake(
                f"the function of {self._running} used the flow's context; only the "
                "flow itself may"
            )

    def add(
        self,
        path: str,
        kind: str,
        input_sha: str | None,
        result: str,
        started: str | None = None,
    ) -> Record:
        """Record a result."""
        now = self.now()
        return self._append(
            Record(path, kind, input_sha, COMPLETED, result, None, started or now, now)
        )

    def complete(self, record: Record, attempts: Sequence[Attempt]) -> None:
        """Record how a call ended, together with its requests."""
        self._journal.complete(self.flow_id, record, attempts)
        self._remember(record)

    def refuse_unvisited(self) -> None:
        """Raise unless the flow reached every record, or a container of it."""
        visited = self._records.keys() & self._visited
        for path in self._records.keys() - visited:
            if visited.isdisjoint(parents_of(path)):
                raise NonDeterministic(path, "a recorded call was not reached again")

    def now(self) -> str:
        return utc_text(self.clock.now())

    def _append(self, record: Record) -> Record:
        self._journal.append(self.flow_id, record)
        self._remember(record)
        return record

    def _remember(self, record: Record) -> None:
        self._records[record.path] = record
        self.new_records.append(record)

    def _forget_from(self, path: str) -> None:
        self._journal.forget_from(self.flow_id, path)
        paths = list(self._records)
        for later in paths[paths.index(path) :]:
            del self._records[later]
        self._ahead.clear()
        self.on_forgotten()
