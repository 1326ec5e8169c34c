"""What the answer of a program to the version question means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bridgehead.doctor.diagnosis import Checkup, Diagnosis, Group, State
from bridgehead.doctor.programs import PROGRAMS, Program, judge_program
from bridgehead.host.command import CommandResult, Ended

GIT = next(program for program in PROGRAMS if program.name == "git")
SSH_KEYGEN = next(program for program in PROGRAMS if program.name == "ssh-keygen")
CODEX = next(program for program in PROGRAMS if program.name == "codex")


def result(text: str = "", ended: Ended = Ended.EXITED, code: int = 0) -> CommandResult:
    return CommandResult(("x",), ended, code, datetime(2026, 1, 1, tzinfo=UTC), 0.1, stdout=text.encode())


@pytest.mark.parametrize(
    ("program", "answer", "kind", "state"),
    [
        (GIT, result("git version 2.39.5"), "git.found", State.FINE),
        (GIT, result("git version 2.34"), "git.found", State.FINE),
        (GIT, result("git version 2.9.1"), "git.old", State.BROKEN),
        (GIT, result("hello"), "git.old", State.BROKEN),
        (GIT, result(ended=Ended.NOT_STARTED), "git.missing", State.BROKEN),
        (GIT, result(ended=Ended.TIMEOUT), "git.silent", State.LOOK),
        (CODEX, result("codex-cli 0.166.0"), "codex.found", State.FINE),
        (CODEX, result(ended=Ended.NOT_STARTED), "codex.missing", State.LOOK),
        (CODEX, result(code=1), "codex.failing", State.LOOK),
        (SSH_KEYGEN, result(code=1), "ssh_keygen.found", State.FINE),
    ],
)
def test_programs(program: Program, answer: CommandResult, kind: str, state: State) -> None:
    diagnosis = judge_program(program, answer)

    assert (diagnosis.kind, diagnosis.state) == (kind, state)
    assert (diagnosis.fix is None) == (state is State.FINE)


def test_the_summary_counts_every_state() -> None:
    states = [State.FINE, State.FINE, State.LOOK, State.BROKEN]
    checkup = Checkup.of([Diagnosis(Group.MACHINE, "x", state, "m") for state in states])

    assert checkup.summary == "2 fine, 1 to look at, 1 broken"


def test_diagnoses_are_shown_by_group() -> None:
    checkup = Checkup.of([Diagnosis(group, "x", State.FINE, "m") for group in reversed(Group)])

    assert [diagnosis.group for diagnosis in checkup.diagnoses] == list(Group)
