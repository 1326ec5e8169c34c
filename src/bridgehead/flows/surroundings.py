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
from bridgehead.named_tuple import NamedTuple

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


class Surroundings(NamedTuple):
    """The defaults are the machine's own; assembly passes an announcer, tests a clock."""

    clock: Clock = SystemClock()
    announcer: Announcer = Announcer()
    invoker: AgentInvoker | None = None
    """Answers asks at once, so that the flow never pauses."""
    open_journal: Callable[[FlowRoot], Journal] = open_sqlite
    new_id: Callable[[], str] = new_request_id
    on_wait: Callable[[Pause], None] = _say_nothing
    """Told before a run waits for an answer in this process (`--wait`)."""
    output_directories: Callable[[Path], tuple[Path, ...]] = _project_only
    """(root) -> where a flow that keeps a state file may put its output besides the root; the first is its default."""
    response_owners: frozenset[int] | None = None
    """Whose answers are taken, where that is not the allowed owners of the root."""
    size_limits: Mapping[str, int] = SIZE_LIMITS
    """The bytes the three files may have, by their names (flows §10)."""
