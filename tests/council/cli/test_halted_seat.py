"""A seat that needs somebody: put to the person at the terminal, or kept in the pending list (council §3)."""

from __future__ import annotations

import pytest

from bridgehead.council.reporting.report import CouncilReport
from bridgehead.errors import NotFound, UserError
from bridgehead.exit_codes import ExitCode
from council.cli.conftest import Hall, StandIn
from council.support.terminal_screen import Terminal
from support.installed import SCRIPTS, Machine

REVIEW = (
    *("council", "review", "orders/store.py", "--runtime", "codex"),
    *("--intensity", "quick", "--domain", "security"),
)


def at_terminal(machine: Machine, codex: StandIn) -> Terminal:
    command = (str(SCRIPTS / "bridgehead"), *REVIEW)
    return Terminal(
        command, cwd=machine.project, environ=machine.environ(PATH=codex.path)
    )


def test_a_halted_seat_waits_for_an_answer_and_is_seated_again_as_often_as_somebody_says_retry(
    hall: Hall, codex: StandIn
) -> None:
    held = hall.call(runtimes=("codex",))
    waiting = hall.waiting()
    assert held.exit_code() == ExitCode.FAILURE
    assert [item.question.origin for item in waiting] == ["runtime codex"]

    hall.answer(waiting[0], "retry")
    too_early = hall.resume(None)
    again = hall.waiting()
    assert too_early.exit_code() == ExitCode.FAILURE
    assert [item.id for item in again] != [waiting[0].id], (
        "the answer of last time must not count twice"
    )

    codex.log_in()
    hall.answer(again[0], "retry")
    report = hall.resume(None).report
    assert isinstance(report, CouncilReport)
    assert report.bridges_available == ("codex",)
    assert not [warning for warning in report.warnings if "halted" in warning]
    assert hall.waiting() == []
    assert hall.notices() == ["failed", "needs_you", "failed", "needs_you", "finished"]

    with pytest.raises(UserError, match="codex completed in"):
        hall.resume(report.review_id, retry=("codex",))


def test_skip_is_an_answer_that_leaves_nothing_to_do(hall: Hall) -> None:
    hall.call(runtimes=("codex",))

    hall.answer(hall.waiting()[0], "skip")

    with pytest.raises(NotFound, match="no council of this project is open"):
        hall.resume(None)


def test_a_person_is_asked_again_until_the_answer_is_one_on_offer(
    orders: Machine, codex: StandIn
) -> None:
    terminal = at_terminal(orders, codex)
    terminal.wait_for("skip / retry / abort?")
    terminal.type("perhaps\n")
    terminal.wait_for("skip / retry / abort?")
    codex.log_in()
    terminal.type("retry\n")

    code = terminal.finish()

    assert code == 0, terminal.written
    assert "nothing found by 1 seat" in terminal.screen.text
    assert "seats   codex (cli)" in terminal.screen.text
    assert "Ctrl-C stops and keeps what is there" in terminal.written
    assert "Ctrl-C stops" not in terminal.screen.text, (
        "the table leaves nothing behind in scrollback"
    )


def test_ctrl_c_at_the_question_ends_the_waiting_and_keeps_a_report(
    orders: Machine, codex: StandIn
) -> None:
    terminal = at_terminal(orders, codex)
    terminal.wait_for("skip / retry / abort?")
    terminal.type("\x03")

    assert terminal.finish() == 130
    assert list((orders.project / ".outputs" / "council").glob("*.json"))
