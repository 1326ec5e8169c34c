"""What a journal keeps: runs, and the records of their steps."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
        over = (
            RunStatus.COMPLETED,
            RunStatus.CANCELLED,
            *((RunStatus.FAILED, RunStatus.DAMAGED) if failed else ()),
        )
        # a whole second has no fraction.
        return self.status in over and self.updated.rstrip("Z") < moment.rstrip("Z")


class Record(NamedTuple):
    """The recorded result of one step, ask, phase or nested flow, as JSON text."""

    path: str
    kind: str
    input_sha: str | None
    """None when it came from a state file and its inputs are not known."""
    status: str
    """`completed`, `fallback` or `failed`."""
    result: str | None
    """Of a step that failed: its traceback."""
    error: str | None
    started: str
    ended: str
