"""Which exit code a council ends with: signals, mistakes, waiting and failures before the gate (council §18)."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.contract.words import Mode, TaskType, Verdict
from bridgehead.council.reporting.gate import Gate, GateOutcome, council_exit_code
from bridgehead.exit_codes import ExitCode

PASS, CONCERNS, FAIL = Verdict.PASS, Verdict.CONCERNS, Verdict.FAIL
REPORT, ABORTED, PENDING, USAGE = GateOutcome


def code(
    outcome: GateOutcome = REPORT, verdict: Verdict | None = FAIL, **given: Any
) -> ExitCode:
    return council_exit_code(
        outcome, verdict=verdict, **{"task_type": TaskType.REVIEW, **given}
    )


@pytest.mark.parametrize(
    ("gate", "refused"),
    [(None, ()), (Gate.FAIL, (FAIL,)), (Gate.CONCERNS, (CONCERNS, FAIL))],
)
def test_a_gate_refuses_its_verdict_and_worse(
    gate: Gate | None, refused: tuple[Verdict, ...]
) -> None:
    for verdict in (PASS, CONCERNS, FAIL, None):
        expected = ExitCode.GATE if verdict in refused else ExitCode.DONE
        assert code(verdict=verdict, gate=gate) is expected
        if gate is not None:
            assert gate.refuses(verdict) is (verdict in refused)


@pytest.mark.parametrize("outcome", GateOutcome)
def test_a_signal_comes_before_everything(outcome: GateOutcome) -> None:
    given = {"gate": Gate.FAIL, "pending": ["host"], "abort_reason": "x"}
    assert code(outcome, signal="SIGINT", **given) is ExitCode.INTERRUPTED
    assert code(outcome, signal="SIGTERM", **given) is ExitCode.TERMINATED


def test_a_user_who_aborts_is_an_interrupt_and_another_abort_a_failure() -> None:
    assert code(ABORTED, abort_reason="user_abort: no seats") is ExitCode.INTERRUPTED
    assert code(ABORTED, abort_reason="no_seats") is ExitCode.FAILURE
    assert code(ABORTED) is ExitCode.FAILURE
    assert code(REPORT, abort_reason="user_abort: x") is ExitCode.DONE


def test_a_gate_on_what_has_no_verdict_is_a_mistake() -> None:
    assert code(USAGE) is ExitCode.USER
    assert code(task_type=TaskType.PLANNING, gate=Gate.FAIL) is ExitCode.USER
    assert code(mode=Mode.BRAINSTORM, gate=Gate.FAIL) is ExitCode.USER
    assert code(task_type=TaskType.PLANNING) is ExitCode.DONE
    assert code(ABORTED, task_type=TaskType.PLANNING, gate=Gate.FAIL) is ExitCode.USER


def test_what_waits_is_not_over() -> None:
    assert code(PENDING, gate=Gate.FAIL) is ExitCode.WAITING
    assert code(REPORT, gate=Gate.FAIL, pending=["host"]) is ExitCode.WAITING
    assert code(REPORT, gate=Gate.FAIL, pending=["rig:winbox"]) is ExitCode.GATE
    assert code(ABORTED, pending=["host"]) is ExitCode.WAITING
