"""Which exit code a council command ends with (council §20)."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from bridgehead.contract.words import Mode, TaskType, Verdict
from bridgehead.council.request.plan import is_judged
from bridgehead.exit_codes import ExitCode

USER_ABORT: Final = "user_abort:"
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
    abort_reason: str | None = None,
    signal: str | None = None,
    pending: Collection[str] = (),
) -> ExitCode:
    """The first row of the table that fits. `pending` holds the kinds of seats that wait: `host`, `rig`."""
    if signal is not None:
        return _SIGNAL_CODE[signal]
    if outcome is GateOutcome.ABORTED and (abort_reason or "").startswith(USER_ABORT):
        return ExitCode.INTERRUPTED
    if outcome is GateOutcome.USAGE or (gate is not None and not is_judged(task_type, mode)):
        return ExitCode.USER
    if outcome is GateOutcome.PENDING or "host" in pending:
        return ExitCode.WAITING
    if outcome is GateOutcome.ABORTED:
        return ExitCode.FAILURE
    if gate is not None and gate.refuses(verdict):
        return ExitCode.GATE
    return ExitCode.DONE
