"""Look at the flows of a root: which there are, where each stands, what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import NotFound
from bridgehead.flows.calls import Attempt, Call, outstanding_calls
from bridgehead.flows.journals.base import Journal, Record, Run
from bridgehead.flows.root import FlowRoot
from bridgehead.flows.surroundings import Surroundings
from bridgehead.flows.timeline import Step, steps_of


class ListRequest(NamedTuple):
    root: Path
    limit: int = 50


class ListResult(NamedTuple):
    runs: tuple[Run, ...]
    """Newest first."""
    unfinished: StatusResult | None = None
    """The one run that is running or waiting, looked at more closely."""


class StatusRequest(NamedTuple):
    """The run with that id, or one that ends in it; the newest without one."""

    root: Path
    flow_id: str | None = None


class StatusResult(NamedTuple):
    run: Run
    records: tuple[Record, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def outstanding(self) -> tuple[Call, ...]:
        """What waits for an answer, oldest first; a run that has ended waits for nothing."""
        return () if self.run.status.ended else tuple(outstanding_calls(self.attempts).values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """In order, with times; a request that an ended run left open is none of its steps."""
        over = self.run.status.ended
        return steps_of(self.records, [made for made in self.attempts if not (over and made.outstanding)])


def list_runs(request: ListRequest, surroundings: Surroundings | None = None) -> ListResult:
    """Every run the journal of a root knows."""
    around = surroundings or Surroundings()
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        return ListResult(())
    with around.open_journal(root) as journal:
        unfinished = journal.unfinished()
        return ListResult(
            tuple(journal.runs()[: request.limit]), _looked_at(journal, unfinished) if unfinished else None
        )


def status(request: StatusRequest, surroundings: Surroundings | None = None) -> StatusResult:
    """One run: its records and what it waits for."""
    around = surroundings or Surroundings()
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        raise NotFound(f"no flow has run in {root.path}", hint="start one with: bridgehead flow run NAME")
    with around.open_journal(root) as journal:
        run = find_run(journal.runs(), request.flow_id, root.path)
        return _looked_at(journal, run)


def _looked_at(journal: Journal, run: Run) -> StatusResult:
    return StatusResult(run, tuple(journal.lookup(run.id).values()), tuple(journal.attempts(run.id)))


def find_run(runs: list[Run], flow_id: str | None, root: Path) -> Run:
    """The run a person means by an id or its unambiguous ending; the newest when none is named."""
    if flow_id is None and runs:
        return runs[0]
    found = [run for run in runs if flow_id and run.id.endswith(flow_id)]
    exact = [run for run in found if run.id == flow_id]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise NotFound(f"several flows in {root} end in {flow_id!r}: {', '.join(run.id for run in found)}")
    raise NotFound(f"there is no flow {flow_id or ''} in {root}".replace("  ", " "))
