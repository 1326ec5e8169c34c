"""What a runtime is: one family of models, and the connections by which it can be reached, in order of preference.

A connection says what to run or to post and how to read what comes back; `running` carries it out under the
deadline, `preflight.py` chooses it. So an adapter is tested with strings. A new runtime is one file with a class under
`@runtime("name")`, its module in the list in `runtimes/__init__.py`, and a recorded answer among the tests; outsiders
use the entry-point group `bridgehead.runtimes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status
from bridgehead.council.calls import Call
from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    NextStep,
    Received,
    Request,
    RuntimeRequest,
)
from bridgehead.council.runtimes.machine import Machine
from bridgehead.host.ports import PortRules

ENTRY_POINT_GROUP: Final = "bridgehead.runtimes"
NO_CONNECTION: Final = "no_connection"
NOT_AUTHENTICATED: Final = "not_authenticated"

Overseer = Callable[[bytes], bool]
"""Sees stdout as it arrives; True asks for the run to be stopped."""


@dataclass(frozen=True, slots=True)
class SeatSetup:
    """What is known about a seat before anything was looked at."""

    runtime: str
    settings: RuntimeSettings = field(default_factory=RuntimeSettings)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    pass_env: tuple[str, ...] = ()
    """Further variables the user lets through to the runtime (`[council] pass_env`)."""
    readable: tuple[str, ...] = ()
    """Further paths a confined program may read (`[council] readable`)."""
    ports: PortRules = field(default_factory=PortRules)
    """What is said about the ports a confined program may connect to."""
    host_seat: bool = False
    """The agent that started us answers for this runtime (council §4)."""
    project: Path | None = None
    retired: bool = False
    """The runtime's first program was refused for good the last time it was asked."""

    def text_option(self, name: str) -> str | None:
        value = self.settings.options.get(name)
        return value if isinstance(value, str) and value.strip() else None

    def text_options(self, name: str) -> tuple[str, ...]:
        value = self.settings.options.get(name)
        return (
            tuple(entry for entry in value if isinstance(entry, str))
            if isinstance(value, list)
            else ()
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """A connection that is not there; `reason` is a skip reason of council §3."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Barred:
    """A connection that is there and may not be used: a person must act (HALTED), or it is no use (SKIPPED)."""

    status: Status
    reason: str
    message: str = ""


class Connection(ABC):
    """One way to reach a runtime. An instance exists only after `locate` has found the far side."""

    kind: ClassVar[str]
    """`connection_used` in reports: native-dispatch, cli, api, http-api, mcp, embedded, rig."""
    takes_tools: ClassVar[bool] = False
    """Whether MCP servers can be given to a call."""
    runtime_name: ClassVar[str]
    """What really runs: `claude`, `agy`, `chat completions`."""
    reads_files: bool = True
    """False: prompts carry the material, because the far side cannot open the files (council §6)."""
    changes_files: ClassVar[bool] = True
    """False: it is asked to look, never to implement."""
    exchange_mode: ClassVar[str] = "stateless-replay"

    keeps_history: bool = False
    """Later rounds go into the role's own session (council §9.8)."""
    version: str | None = None
    warnings: tuple[str, ...] = ()
    held_by: str = ""
    """What keeps its tools to the private copy; empty where it has none."""

    @classmethod
    @abstractmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        """The connection, if the far side is there; cheap, without side effects."""

    def barrier(self, machine: Machine) -> Barred | None:
        """Why the connection may not be used, or None; looks at what is stored, asks no model (council §4.1)."""
        return None

    def models(self, machine: Machine) -> list[str] | None:
        """The models that can be asked for, where a list is to be had for nothing."""
        return None

    def default_model(self, machine: Machine) -> str | None:
        """The model to name when the settings name none; None leaves the choice to the far side."""
        return None

    def has_agents(self, machine: Machine) -> bool:
        """Whether the far side starts agents of its own."""
        return False

    @abstractmethod
    def ask(self, ask: RuntimeRequest) -> Request:
        """What to run or to post for this prompt."""

    @abstractmethod
    def read(self, ask: RuntimeRequest, received: Received) -> NextStep:
        """What came of it, or the next request when an exchange has several steps."""

    def overseer(self) -> Overseer | None:
        """Somebody who watches the output while it arrives, for programs that may run in circles."""
        return None


class _HandedOver(Connection):
    """Prompts are handed over, nothing is sent (running/call_runner.py and conductor.py know how)."""

    def ask(self, ask: RuntimeRequest) -> Request:
        raise TypeError(
            f"{self.runtime_name} is handed its prompts, it is sent nothing"
        )

    def read(self, ask: RuntimeRequest, received: Received) -> NextStep:
        raise TypeError(
            f"{self.runtime_name} is handed its prompts, it receives nothing"
        )


class InProcess(_HandedOver):
    """A runtime that answers in this process: scripts, recordings, simulations."""

    def latency_seconds(self, call: Call) -> float:
        """How long the answer takes; nothing waits longer than the call's own limit."""
        return 0.0

    @abstractmethod
    def answer(self, call: Call) -> CallOutcome:
        """What comes of this call."""


class HostSeat(_HandedOver):
    """The agent that started us answers later: its prompts are flow requests, and `council resume` goes on."""

    kind = "native-dispatch"
    exchange_mode = "coordinator-mediated"
    runtime_name = "host agent"

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        if not setup.host_seat:
            return Missing(NO_CONNECTION, "no host seat was asked for")
        return cls()


@dataclass(frozen=True, slots=True)
class Taken:
    """A seat as pre-flight has settled it."""

    task: BridgeInput
    setup: SeatSetup
    connection: Connection
    models: tuple[str | None, ...]
    reasoning: str | None
    has_agents: bool


class Runtime:
    """One family of models. Everything that differs between runs lives in its connections."""

    name: ClassVar[str]
    model_family: ClassVar[str]
    id_prefix: ClassVar[str]
    connections: ClassVar[tuple[type[Connection], ...]] = ()
    missing: ClassVar[str] = "cli_not_found"
    """Skip reason when no connection is found."""
    missing_halt: ClassVar[str] = "cli_not_found"
    """Halt reason instead, under `on_missing: halt`."""
    login_refused: ClassVar[Status] = Status.HALTED
    """What becomes of the seat when its first call is refused for want of a login (council §19)."""
    install_hint: ClassVar[str] = ""
    login_hint: ClassVar[str] = ""
    timeout_factor: ClassVar[float] = 1.0
    """For runtimes from outside; those of the specification have theirs in contract/timeouts.py."""

    @classmethod
    def reasoning(
        cls, task: BridgeInput, cap: str, *, may_use_most: bool
    ) -> str | None:
        """The reasoning level to ask for under the user's limit; None when the runtime is not told one."""
        return None

    @classmethod
    def warnings(cls, cap: str) -> tuple[str, ...]:
        """What the report must say because the runtime cannot follow a setting."""
        return ()

    @classmethod
    def report_fields(cls, taken: Taken) -> dict[str, Any]:
        """Fields of the report that belong to this runtime only (council §12)."""
        return {}


RuntimeT = TypeVar("RuntimeT", bound=type[Runtime])
_registry: dict[str, type[Runtime]] = {}


def runtime(name: str) -> Callable[[RuntimeT], RuntimeT]:
    """Register the decorated class as the runtime `name`."""

    def register(adapter: RuntimeT) -> RuntimeT:
        known = _registry.get(name)
        if known is not None and known.__qualname__ != adapter.__qualname__:
            raise ValueError(
                f"two runtimes are called {name!r}: {known!r} and {adapter!r}"
            )
        adapter.name = name
        _registry[name] = adapter
        return adapter

    return register


def registered() -> dict[str, type[Runtime]]:
    """The runtimes that have been imported so far, by name."""
    return dict(_registry)
