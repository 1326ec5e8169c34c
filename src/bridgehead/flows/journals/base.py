"""What a journal keeps and promises. Another store takes its place by passing tests/flows/journals.

Every method that writes is one durable transaction: when it returns, a crash cannot undo it; when the process dies
inside it, nothing of it has happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from bridgehead.flows.calls import Attempt
from bridgehead.flows.words import RunStatus


class Run(NamedTuple):
    """One run of a flow. `source` is how it was named, so that it can be loaded again to be resumed."""

    id: str
    name: str
    version: str
    source: str
    root: str
    status: RunStatus
    input: Mapping[str, Any]
    created: str
    updated: str
    result: str | None = None
    error: str | None = None

    def is_over_since(self, moment: str, *, failed: bool = False) -> bool:
        """Whether it ended before `moment` for good; a failed one could be retried, and counts only when asked for."""
        over = (RunStatus.COMPLETED, RunStatus.CANCELLED, *((RunStatus.FAILED,) if failed else ()))
        return self.status in over and self.updated < moment


class Record(NamedTuple):
    """The recorded result of one step, ask, phase or nested flow, as JSON text."""

    path: str
    kind: str
    input_sha: str | None
    """None when it came from a state file and its inputs are not known."""
    status: str
    """`completed`, `fallback` or `failed`."""
    result: str | None
    error: str | None
    started: str
    ended: str


class Journal(ABC):
    """The durable memory of the flows of one root."""

    @abstractmethod
    def begin(self, run: Run) -> None:
        """Enter a new run."""

    @abstractmethod
    def claim(self, flow_id: str, *, version: str, at: str) -> None:
        """Take a run up again: it is running, as that version of its flow."""

    @abstractmethod
    def lookup(self, flow_id: str) -> dict[str, Record]:
        """Every record of a run by path, in the order they were made."""

    @abstractmethod
    def attempts(self, flow_id: str) -> list[Attempt]:
        """Every request of a run, in the order they were made."""

    @abstractmethod
    def append(self, flow_id: str, record: Record) -> None:
        """Record one result."""

    @abstractmethod
    def complete(self, flow_id: str, record: Record, attempts: Sequence[Attempt]) -> None:
        """Record the result of a call together with what became of its requests."""

    @abstractmethod
    def hold(self, flow_id: str, attempts: Sequence[Attempt], *, at: str) -> None:
        """Enter new or changed requests; the run is waiting for their answers."""

    @abstractmethod
    def forget_from(self, flow_id: str, path: str) -> None:
        """Drop the record at `path`, everything recorded after it, and the requests of dropped calls."""

    @abstractmethod
    def reopen(
        self,
        flow_id: str,
        *,
        at: str,
        path: str | None = None,
        attempts: Sequence[Attempt] = (),
        error: str | None = None,
        drop_open: bool = False,
    ) -> None:
        """The run can go on: it waits, without the record at `path` and what was recorded after it.

        The requests made at `path` are kept, those of other dropped calls are not; open ones go with `drop_open`.
        """

    @abstractmethod
    def end(
        self,
        flow_id: str,
        status: RunStatus,
        *,
        at: str,
        result: str | None = None,
        error: str | None = None,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        """The run has come to its end."""

    @abstractmethod
    def keep_answer(self, request_id: str, response: Mapping[str, Any]) -> bool:
        """Keep the answer to an open request until its run reads it; False when it has one, or is not open."""

    @abstractmethod
    def forget(self, flow_ids: Sequence[str]) -> None:
        """Drop runs with everything recorded of them."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """Every run, newest first."""

    @abstractmethod
    def owner(self, request_id: str) -> tuple[Run, Attempt] | None:
        """The run that made a request, and the request; ids are compared without case."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the journal holds open."""

    def run(self, flow_id: str) -> Run | None:
        return next((run for run in self.runs() if run.id == flow_id), None)

    def unfinished(self) -> Run | None:
        """The run that is running or waiting; a root has at most one (flows §14)."""
        return next((run for run in self.runs() if not run.status.ended), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
