"""Whether a runtime can sit, and over which connection: the eight steps of council §4, none of which spends
tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bridgehead.contract.report import ModelWarning
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import (
    MAX_ROUNDS,
    Timeout,
    bridge_deadline,
    estimate_timeout,
)
from bridgehead.contract.words import Status, TaskType
from bridgehead.council.attendance import DISABLED
from bridgehead.council.calls import Seat, SeatEvent
from bridgehead.council.debate.five_phase import ROUNDS
from bridgehead.council.request.settings import MEDIUM, NOT_FOUND
from bridgehead.council.runtimes import BUILT_IN
from bridgehead.council.runtimes.base import (
    Barred,
    Connection,
    Missing,
    Runtime,
    SeatSetup,
    Taken,
)
from bridgehead.council.runtimes.machine import Machine

STEPS_OF_A_ROUND: Final = 3
"""Challenges, a reminder of those that are owed, answers."""
PROGRAMS: Final = ("claude", "gemini", "agy", "codex", "opencode")

# Hints only, never sufficient for anything but naming the host seat (council §4).
_EXECUTOR_HINTS: Final = {
    "CLAUDE_CODE_SESSION": "claude-code",
    "CLAUDECODE": "claude-code",
    "CODEX_SESSION_ID": "codex",
    "OPENCODE_SESSION_ID": "opencode",
    "OPENCODE_CLIENT": "opencode",
    "GEMINI_CLI": "gemini",
}
_BRIDGE_OF_EXECUTOR: Final = {
    "claude-code": "claude",
    "codex": "codex",
    "opencode": "opencode",
    "gemini": "gemini",
}
UNKNOWN: Final = "unknown"
NO_TOOLS: Final = "it has no tools, or nothing here can confine them: bridgehead doctor"


def executor_type(
    environment: Mapping[str, str], client_name: str | None = None
) -> str:
    """Which agent runs us: `claude-code opencode codex gemini`, or `unknown`; an MCP client may have said its name."""
    said = (client_name or "").casefold()
    for executor in ("claude-code", "opencode", "codex", "gemini"):
        if executor in said or (executor == "claude-code" and "claude" in said):
            return executor
    return next(
        (
            executor
            for name, executor in _EXECUTOR_HINTS.items()
            if environment.get(name)
        ),
        UNKNOWN,
    )


def host_bridge(executor: str) -> str | None:
    """The runtime the agent that runs us would sit for."""
    return _BRIDGE_OF_EXECUTOR.get(executor)


def discovery_manifest(machine: Machine, executor: str) -> dict[str, Any]:
    """The manifest that is kept with the run and written in the first event."""
    programs = {name: machine.which(name) for name in PROGRAMS}
    return {
        "executor_type": executor,
        "native_dispatch": {
            "available": False,
            "tool_name": None,
            "session_continuity": False,
            "messaging": False,
        },
        "mcp_tools": {"available": False, "servers": [], "tools": []},
        "cli_tools": {
            name: {"available": path is not None, "path": path, "version": None}
            for name, path in programs.items()
        },
        "recommended_dispatch": "cli" if any(programs.values()) else "none",
    }


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the run as a whole asks of every seat."""

    reasoning_cap: str = MEDIUM
    may_use_most_reasoning: bool = False
    max_concurrency: int = 8
    timeout_seconds: int | None = None
    """Seconds after which a silent call is given up, as the user says; None: estimated."""
    shortest_timeout: int = 0
    """No call is given up before it was silent this long, however small the estimate (`council.timeout`)."""
    debates: bool = False
    """Every seat debates in five phases."""
    discovery: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """A runtime that can sit."""

    seat: Seat
    connection: Connection
    events: tuple[SeatEvent, ...]
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class NotSeated:
    """A runtime that cannot: SKIPPED with a skip reason, or HALTED with a halt reason and what to do."""

    status: Status
    reason: str
    message: str
    events: tuple[SeatEvent, ...]
    timeout_seconds: int
    connection: str | None = None


def check_seat(
    runtime: type[Runtime],
    setup: SeatSetup,
    task: BridgeInput,
    machine: Machine,
    wishes: Wishes,
    *,
    barred_before: frozenset[str] = frozenset(),
) -> Ready | NotSeated:
    """Take a runtime through pre-flight; runtimes in `barred_before` refused their first call and are passed over."""
    return _Preflight(runtime, setup, task, machine, wishes).check(barred_before)


@dataclass(slots=True)
class _Preflight:
    """One runtime's way through the steps; collects an event for each."""

    _runtime: type[Runtime]
    _setup: SeatSetup
    _task: BridgeInput
    _machine: Machine
    _wishes: Wishes
    _events: list[SeatEvent] = field(default_factory=list)
    _connection: Connection | None = None

    def check(self, barred_before: frozenset[str]) -> Ready | NotSeated:
        enabled = self._setup.settings.enabled
        self._note("settings", "enabled" if enabled else "disabled")
        if not enabled:
            return self._not_seated(Status.SKIPPED, DISABLED)
        self._note("discovery", "done", detail=self._wishes.discovery)
        chosen = self._choose(barred_before)
        if not isinstance(chosen, Connection):
            return chosen
        self._connection = chosen
        return self._seat(chosen)

    def _choose(self, barred_before: frozenset[str]) -> Connection | NotSeated:
        """The first connection that is there and may be used; the first barrier counts when none may (step 5)."""
        missing: list[Missing] = []
        barred: list[tuple[Barred, Connection]] = []
        for kind in self._runtime.connections:
            if kind.runtime_name in barred_before:
                continue
            located = kind.locate(self._setup, self._machine)
            if isinstance(located, Missing):
                missing.append(located)
                self._note(
                    "availability_check",
                    "absent",
                    connection=kind.kind,
                    detail=located.detail,
                )
                continue
            self._note(
                "availability_check",
                "found",
                connection=kind.kind,
                path=getattr(located, "path", None),
            )
            barrier = self._unable(located) or located.barrier(self._machine)
            if barrier is None:
                self._note("auth_check", "passed", connection=kind.kind)
                return located
            self._note(
                "auth_check", "failed", connection=kind.kind, detail=barrier.reason
            )
            barred.append((barrier, located))
        if not barred:
            return self._absent(missing)
        barrier, self._connection = barred[0]
        return self._not_seated(
            barrier.status, barrier.reason, barrier.message or self._runtime.login_hint
        )

    def _unable(self, connection: Connection) -> Barred | None:
        """An implementation is made by somebody who has the files and may use tools."""
        if self._task.task_type is not TaskType.IMPLEMENTATION or (
            connection.reads_files and connection.changes_files
        ):
            return None
        return Barred(
            Status.SKIPPED,
            f"cli_error: {connection.runtime_name} cannot change files here",
            NO_TOOLS,
        )

    def _absent(self, missing: Sequence[Missing]) -> NotSeated:
        broken = next(
            (one.reason for one in missing if one.reason.startswith("cli_error")), None
        )
        if self._setup.settings.options.get("on_missing") == "halt":
            return self._not_seated(
                Status.HALTED, self._runtime.missing_halt, self._runtime.install_hint
            )
        return self._not_seated(
            Status.SKIPPED, broken or self._runtime.missing, self._runtime.install_hint
        )

    def _seat(self, connection: Connection) -> Ready:
        has_agents = connection.has_agents(self._machine)
        self._note("multi_agent_check", "enabled" if has_agents else "not enabled")
        models, model_warnings = self._models(connection)
        timeout = self._timeout(multi_agent=has_agents)
        reasoning = self._reasoning()
        taken = Taken(
            self._task,
            self._setup,
            connection,
            models,
            reasoning,
            has_agents,
        )
        exchange_mode = connection.exchange_mode
        if connection.keeps_history:
            exchange_mode = "session-continuity"
        seat = Seat(
            name=self._setup.runtime,
            model_family=self._setup.text_option("family")
            or self._runtime.model_family,
            connection=connection.kind,
            id_prefix=self._runtime.id_prefix,
            timeout_seconds=timeout.timeout_s,
            deadline_seconds=self._deadline(timeout.timeout_s, models),
            keeps_history=connection.keeps_history,
            reads_files=connection.reads_files,
            models=models,
            debate_merged=self._setup.settings.options.get("debate_merged") is True,
            exchange_mode=exchange_mode,
            runtime=connection.runtime_name,
            toolchain=f"{connection.runtime_name} {connection.version}"
            if connection.version
            else None,
            model_validation_warnings=model_warnings,
            warnings=(
                *connection.warnings,
                *self._runtime.warnings(self._wishes.reasoning_cap),
            ),
            extra=self._runtime.report_fields(taken),
        )
        return Ready(seat, connection, tuple(self._events), reasoning)

    def _models(
        self, connection: Connection
    ) -> tuple[tuple[str | None, ...], tuple[ModelWarning, ...]]:
        """The models to ask for: those of the settings that exist, else the connection's default (council §13)."""
        wanted = self._setup.settings.models
        named = [model for model in wanted if model is not None]
        known = connection.models(self._machine) if named else None
        unknown = (
            ModelWarning(model, NOT_FOUND)
            for model in named
            if known is not None and model not in known
        )
        kept = tuple(model for model in named if known is None or model in known)
        self._note(
            "model_validation",
            "list unavailable" if named and known is None else "checked",
        )
        warnings = (*self._setup.settings.model_warnings, *unknown)
        return kept or (connection.default_model(self._machine),), warnings

    def _timeout(self, *, multi_agent: bool = False) -> Timeout:
        timeout = estimate_timeout(
            files=self._task.files,
            loc=self._task.loc,
            intensity=self._task.intensity,
            bridge=self._setup.runtime,
            multi_agent_enabled=multi_agent,
        )
        if self._runtime.name not in BUILT_IN:
            factor = self._runtime.timeout_factor
            timeout = replace(
                timeout,
                timeout_s=math.ceil(timeout.timeout_s * factor),
                bridge_multiplier=factor,
            )
        self._note(
            "timeout_estimate",
            "done",
            value_seconds=timeout.timeout_s,
            basis=timeout.basis,
        )
        seconds = self._wishes.timeout_seconds or max(
            timeout.timeout_s, self._wishes.shortest_timeout
        )
        return replace(timeout, timeout_s=seconds)

    def _deadline(self, timeout_seconds: int, models: Sequence[str | None]) -> int:
        """Return a deadline that is long enough for every step.

        A five-phase debate has its rounds and a last word, the others a reminder each.
        """
        intensity = self._task.intensity
        wishes = self._wishes
        if wishes.debates:
            steps = 2 + ROUNDS[intensity]
        else:
            steps = 2 + STEPS_OF_A_ROUND * MAX_ROUNDS[intensity]
        return bridge_deadline(
            timeout_seconds,
            intensity,
            len(self._task.domains),
            wishes.max_concurrency,
            steps=steps,
            models=len(models),
        )

    def _reasoning(self) -> str | None:
        level = self._runtime.reasoning(
            self._task,
            self._wishes.reasoning_cap,
            may_use_most=self._wishes.may_use_most_reasoning,
        )
        if level is not None:
            self._note("reasoning_level", level)
        return level

    def _not_seated(self, status: Status, reason: str, message: str = "") -> NotSeated:
        timeout = self._timeout()
        used = self._connection.kind if self._connection else None
        return NotSeated(
            status, reason, message, tuple(self._events), timeout.timeout_s, used
        )

    def _note(self, step: str, result: str, **fields: Any) -> None:
        told = {
            name: value for name, value in fields.items() if value not in (None, "", {})
        }
        self._events.append(
            SeatEvent(
                self._setup.runtime,
                "preflight",
                {"step": step, "result": result, **told},
            )
        )
