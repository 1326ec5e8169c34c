"""What a run is surrounded by: the clock, who listens, who answers in process, where the journal is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.flows.announcer import Announcer
from bridgehead.flows.checkpoint_files import SIZE_LIMITS
from bridgehead.flows.ids import new_request_id
from bridgehead.flows.journals.base import Journal
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.requests import Pause
from bridgehead.flows.root import FlowRoot
from bridgehead.host.clock import Clock, SystemClock

if TYPE_CHECKING:
    from bridgehead.flows.agents import AgentInvoker


def open_sqlite(root: FlowRoot) -> Journal:
    """The journal of a root, as every command uses it."""
    return SqliteJournal(root.journal)


def _say_nothing(_pause: Pause) -> None:
    """Nobody watches the run."""


def _project_only(_root: Path) -> tuple[Path, ...]:
    """No other place has been configured."""
    return ()


class Surroundings:
    """The defaults are the machine's own; assembly passes an announcer, tests a clock."""

    def __init__(
        self,
        clock: Clock | None = None,
        announcer: Announcer | None = None,
        invoker: AgentInvoker | None = None,
        open_journal: Callable[[FlowRoot], Journal] = open_sqlite,
        new_id: Callable[[], str] = new_request_id,
        on_wait: Callable[[Pause], None] = _say_nothing,
        output_directories: Callable[[Path], tuple[Path, ...]] = _project_only,
        response_owners: frozenset[int] | None = None,
        size_limits: Mapping[str, int] = SIZE_LIMITS,
    ) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.announcer = Announcer() if announcer is None else announcer
        self.invoker = invoker
        """Answers asks at once, so that the flow never pauses."""
        self.open_journal = open_journal
        self.new_id = new_id
        self.on_wait = on_wait
        """Told before a run waits for an answer in this process (`--wait`)."""
        self.output_directories = output_directories
        """(root) -> where a flow with a state file may put its output besides the root; the first is its default."""
        self.response_owners = response_owners
        """Whose answers are taken, where that is not the allowed owners of the root."""
        self.size_limits = size_limits
        """The bytes the three files may have, by their names (flows §10)."""
