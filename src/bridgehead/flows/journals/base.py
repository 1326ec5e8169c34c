"""What a journal keeps: runs, and the records of their steps."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bridgehead.flows.words import RunStatus


class Run(NamedTuple):
    """One run of a flow.

    `source` is how the flow was named, so that a resume can load it again.
    """

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
        """Return whether the run ended before `moment` and stays ended.

        A failed run could be retried, and counts only with `failed`.
        """
        final = {RunStatus.COMPLETED, RunStatus.CANCELLED}
        if failed:
            final |= {RunStatus.FAILED, RunStatus.DAMAGED}
        # Times are compared as text. One on a whole second has no fraction, and its Z
        # would sort after the point of another.
        return self.status in final and self.updated.rstrip("Z") < moment.rstrip("Z")


class Record(NamedTuple):
    """The recorded result of one step, ask, phase or nested flow, as JSON text."""

    path: str
    kind: str
    input_sha: str | None
    """None if the record came from a state file, which does not tell the inputs."""
    status: str
    """`completed`, `fallback` or `failed`."""
    result: str | None
    """The result as JSON; the traceback if a step failed."""
    error: str | None
    started: str
    ended: str
