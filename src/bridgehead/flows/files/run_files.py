"""What a run leaves in its root besides the pair of files. Most flows leave nothing: their state is in the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridgehead.flows.calls import Attempt, Call

NOT_RESTORED: Final = object()


class RunFiles:
    """The base: nothing is written, nothing can be restored. `StateFile` keeps the published state file."""

    def enter(self, number: int, name: str) -> None:
        """The run is in that phase now."""

    def has_completed(self, number: int) -> bool:
        """Whether the end of that phase has been noted."""
        return True

    def complete(self, number: int, name: str, key: str | None, result: Any, summary: str) -> None:
        """A phase has ended; `key` is where its result is kept."""

    def remember(self, key: str, value: Any) -> None:
        """Keep a value beside the results of phases."""

    def note_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Requests were made or have changed."""

    def note_result(self, path: str, result: str | None) -> None:
        """A call inside the present phase has ended; None when it failed."""

    def request_context(self) -> Mapping[str, Any]:
        """What every request says about the run."""
        return {}

    def save(self) -> None:
        """Write down what was noted; the journal has it already."""

    def restored_phase(self, number: int, key: str | None) -> Any:
        """The result of a phase known only from the file; NOT_RESTORED when it has to be run."""
        return NOT_RESTORED

    def restored_result(self, path: str) -> str | None:
        """The result of a call inside an unfinished phase, known only from the file."""
        return None

    def restored_call(self, phase: int, phase_name: str, agent: str) -> Call | None:
        """The outstanding call of that kind, known only from the file; given away once."""
        return None
