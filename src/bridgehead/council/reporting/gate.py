"""Which exit code a council command ends with (council §20), and what a gate has against a report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridgehead.contract.words import (
    Mode,
    Severity,
    Status,
    TaskType,
    Verdict,
    severity_rank,
)
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.request.plan import is_judged
from bridgehead.council.scope.scope import named
from bridgehead.errors import plural
from bridgehead.exit_codes import ExitCode

_SIGNAL_CODE: Final = {"SIGINT": ExitCode.INTERRUPTED, "SIGTERM": ExitCode.TERMINATED}


class GateOutcome(StrEnum):
    """How far a council command came."""

    REPORT = "REPORT"
    ABORTED = "ABORTED"
    PENDING = "PENDING"
    USAGE = "USAGE"


class Gate(StrEnum):
    """From which verdict on a run is refused."""

    FAIL = "fail"
    CONCERNS = "concerns"

    def refuses(self, verdict: Verdict | None) -> bool:
        least = Verdict.FAIL if self is Gate.FAIL else Verdict.CONCERNS
        return verdict is not None and verdict.rank >= least.rank


def council_exit_code(
    outcome: GateOutcome,
    *,
    verdict: Verdict | None,
    task_type: TaskType,
    mode: Mode | None = None,
    gate: Gate | None = None,
    incomplete: bool = False,
    abort_reason: str | None = None,
    signal: str | None = None,
    pending: Collection[str] = (),
) -> ExitCode:
    """The first row of the table that fits. `pending` holds the kinds of seats that wait: `host`, `rig`."""
    if signal is not None:
        return _SIGNAL_CODE[signal]
    if outcome is GateOutcome.ABORTED and (abort_reason or "").startswith(
        "user_abort:"
    ):
        return ExitCode.INTERRUPTED
    if outcome is GateOutcome.USAGE or (
        gate is not None and not is_judged(task_type, mode)
    ):
        return ExitCode.USER
    if outcome is GateOutcome.PENDING or "host" in pending:
        return ExitCode.WAITING
    if outcome is GateOutcome.ABORTED:
        return ExitCode.FAILURE
    if gate is not None and (incomplete or gate.refuses(verdict)):
        return ExitCode.GATE
    return ExitCode.DONE


INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class GateDemands:
    """What a report must bring besides its verdict."""

    level: Gate = Gate.FAIL
    seats: int = 0
    runtimes: tuple[str, ...] = ()
    min_probability: float = 0.0
    """A verdict refuses only if a finding that is at least so likely stands behind it."""


@dataclass(frozen=True, slots=True)
class GatedState:
    """A state of the project that wants to pass: digests of its files, and which of them the change touches."""

    name: str
    digests: Mapping[str, str]
    changed: tuple[str, ...] = ()


def objections(
    report: CouncilReport, demands: GateDemands, states: Sequence[GatedState]
) -> Iterator[str]:
    """Why the gate refuses, in words; nothing when it opens. One of `states` has to be the one that was reviewed."""
    if any(warning.partition(":")[0] == INTERRUPTED for warning in report.warnings):
        yield "the council was stopped before its end"
    if report.incomplete:
        yield f"no seat has read {named(list(report.unread))}"
    yield from min(
        (list(_about_state(report, state)) for state in states), key=len, default=[]
    )
    sat = [one.bridge for one in report.participants if one.status == Status.COMPLETED]
    if len(sat) < demands.seats:
        yield f"{plural(len(sat), 'seat')} completed; {demands.seats} required"
    if missing := [name for name in demands.runtimes if name not in sat]:
        yield f"{', '.join(missing)} did not take part and is required"
    if demands.level.refuses(report.gate_verdict) and _is_likely(report, demands):
        yield f"the verdict is {report.gate_verdict}"


def _is_likely(report: CouncilReport, demands: GateDemands) -> bool:
    """Return whether a serious finding reaches the least probability; one without any is taken as certain."""
    if not demands.min_probability:
        return True
    least = Severity.HIGH if demands.level is Gate.FAIL else Severity.MEDIUM
    dismissed = [one.finding for one in report.dismissed_findings]
    return any(
        severity_rank(entry.severity) >= least.rank
        and (entry.probability is None or entry.probability >= demands.min_probability)
        for entry in (*report.findings(), *dismissed)
    )


def _about_state(report: CouncilReport, state: GatedState) -> Iterator[str]:
    seen = report.reviewed
    if differ := [
        path
        for path, digest in seen.items()
        if digest and state.digests.get(path) != digest
    ]:
        yield f"it is about another state than {state.name}: {named(differ)}"
    if unseen := [
        path for path in state.changed if path in state.digests and path not in seen
    ]:
        yield f"it did not look at what {state.name} changes: {named(unseen)}"
