"""Describe a request to the engine, its inputs, and its result: an end or a pause."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.exit_codes import ExitCode
from bridgehead.flows.calls import Remark
from bridgehead.flows.files.checkpoint_files import SIZE_LIMITS
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.interfaces import AgentInvoker, Announcer
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.ids import new_request_id
from bridgehead.flows.words import DEFAULT_MAX_RETRIES, NOTHING, RunStatus
from bridgehead.host.clock import Clock, SystemClock

OPTIONS_KEY: Final = "_options"
RUN_KEY: Final = "_key"
"""The member of a run's input that holds its key (`--id`)."""
PAUSE_WORD: Final = "BRIDGEHEAD-PAUSE"


class RunOptions:
    """Limits and opt-outs stored with a run (flows §9); None means "not given"."""

    def __init__(
        self,
        max_retries: int | None = None,
        heuristics_only: bool | None = None,
        missing_agent_falls_back: bool | None = None,
    ) -> None:
        self.max_retries = max_retries
        self.heuristics_only = heuristics_only
        self.missing_agent_falls_back = missing_agent_falls_back

    def given(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}

    def settled(self) -> dict[str, Any]:
        """Return the options a new run is started with, defaults included.

        They are fixed: a resume may not contradict them (flows §9).
        """
        return {**_UNLESS_GIVEN, **self.given()}


_UNLESS_GIVEN: Final = {
    "max_retries": DEFAULT_MAX_RETRIES,
    "heuristics_only": False,
    "missing_agent_falls_back": False,
}


class RunRequest(NamedTuple):
    """A request to start a flow in a root, or to resume the run paused there."""

    root: Path
    source: str = ""
    """How the flow was named, so that `resume` can find it again."""
    given: Mapping[str, Any] = NOTHING
    """The flow's own settings, as given now.

    They must not contradict those of a paused run.
    """
    defaults: Mapping[str, Any] = NOTHING
    """Values for settings that were not given, in a new run."""
    options: RunOptions = RunOptions()
    flow_id: str | None = None
    key: str | None = None
    """The caller's own name for the run (`--id`); a key starts only one run."""
    resume: bool = False
    fresh: bool = False
    force_version: bool = False
    wait_seconds: float = 0.0
    accept_foreign_owner: bool = False
    tolerant: bool = False
    output_directories: tuple[Path, ...] = ()
    """Directories besides the root in which a resumed run may put its output."""


class Pause:
    """What a handler needs to know about a pause (flows §5)."""

    def __init__(
        self,
        request_file: Path,
        response_file: Path,
        request_id: str,
        agent_name: str,
        timeout_seconds: int,
        outstanding: int = 1,
    ) -> None:
        self.request_file = request_file
        self.response_file = response_file
        self.request_id = request_id
        self.agent_name = agent_name
        self.timeout_seconds = timeout_seconds
        self.outstanding = outstanding

    def line(self) -> str:
        """Return the line that is printed for the handler."""
        facts = {
            "request_file": str(self.request_file),
            "response_file": str(self.response_file),
            "request_id": self.request_id,
            "agent_name": self.agent_name,
            "timeout_seconds": self.timeout_seconds,
        }
        return f"{PAUSE_WORD} {json.dumps(facts, separators=(',', ':'))}"


class RunResult:
    """How a run ended or paused."""

    def __init__(
        self,
        flow_id: str,
        name: str,
        status: RunStatus,
        actions: tuple[str, ...] = (),
        result: Any = None,
        pause: Pause | None = None,
        remarks: tuple[Remark, ...] = (),
        notices: tuple[str, ...] = (),
    ) -> None:
        self.flow_id = flow_id
        self.name = name
        self.status = status
        self.actions = actions
        self.result = result
        self.pause = pause
        self.remarks = remarks
        self.notices = notices

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.WAITING if self.status is RunStatus.WAITING else ExitCode.DONE


def open_sqlite(root: FlowRoot) -> SqliteJournal:
    """Open the journal of a root."""
    return SqliteJournal(root.journal)


class RunInputs:
    """The clock, journal, announcer and limits a run works with.

    The defaults are the machine's own; assembly passes an announcer, tests a clock.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        announcer: Announcer | None = None,
        invoker: AgentInvoker | None = None,
        open_journal: Callable[[FlowRoot], SqliteJournal] = open_sqlite,
        new_id: Callable[[], str] = new_request_id,
        on_wait: Callable[[Pause], None] = lambda _: None,
        output_directories: Callable[[Path], tuple[Path, ...]] = lambda _: (),
        response_owners: frozenset[int] | None = None,
        size_limits: Mapping[str, int] = SIZE_LIMITS,
        keep_days: float = 0,
    ) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.announcer = Announcer() if announcer is None else announcer
        self.invoker = invoker
        """Answers asks immediately, so that the flow never pauses."""
        self.open_journal = open_journal
        self.new_id = new_id
        self.on_wait = on_wait
        """Called before a run waits for an answer in this process (`--wait`)."""
        self.output_directories = output_directories
        """Returns where a flow with a state file may put its output, besides the root.

        The first directory is the default.
        """
        self.response_owners = response_owners
        """Whose answers are accepted; None for the allowed owners of the root."""
        self.size_limits = size_limits
        """The most bytes each of the three files may have, by name (flows §10)."""
        self.keep_days = keep_days
        """How many days the journal keeps ended runs; 0 keeps them forever."""
