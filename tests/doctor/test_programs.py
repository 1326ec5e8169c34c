"""What the answer of a program to the version question means."""

from __future__ import annotations

import pytest

from bridgehead.doctor.checkup import check_system
from bridgehead.doctor.diagnosis import Checkup, Diagnosis, Group, State
from bridgehead.doctor.programs import PROGRAMS, Answer, Program, judge_program

GIT = next(program for program in PROGRAMS if program.name == "git")
SSH_KEYGEN = next(program for program in PROGRAMS if program.name == "ssh-keygen")
CODEX = next(program for program in PROGRAMS if program.name == "codex")


@pytest.mark.parametrize(
    ("program", "answer", "kind", "state"),
    [
        (GIT, Answer(text="git version 2.39.5"), "git.found", State.FINE),
        (GIT, Answer(text="git version 2.34"), "git.found", State.FINE),
        (GIT, Answer(text="git version 2.9.1"), "git.old", State.BROKEN),
        (GIT, Answer(text="hello"), "git.old", State.BROKEN),
        (GIT, Answer(is_there=False), "git.missing", State.BROKEN),
        (GIT, Answer(exit_code=None), "git.silent", State.LOOK),
        (CODEX, Answer(text="codex-cli 0.166.0"), "codex.found", State.FINE),
        (CODEX, Answer(is_there=False), "codex.missing", State.LOOK),
        (CODEX, Answer(exit_code=1), "codex.failing", State.LOOK),
        (SSH_KEYGEN, Answer(), "ssh_keygen.found", State.FINE),
    ],
)
def test_programs(program: Program, answer: Answer, kind: str, state: State) -> None:
    diagnosis = judge_program(program, answer)

    assert (diagnosis.kind, diagnosis.state) == (kind, state)
    assert (diagnosis.fix is None) == (state is State.FINE)


def test_the_summary_counts_every_state() -> None:
    states = [State.FINE, State.FINE, State.LOOK, State.BROKEN]
    checkup = Checkup.of(
        [Diagnosis(Group.MACHINE, "x", state, "m") for state in states]
    )

    assert checkup.summary == "2 fine, 1 to look at, 1 broken"


def test_diagnoses_are_shown_by_group() -> None:
    checkup = Checkup.of(
        [Diagnosis(group, "x", State.FINE, "m") for group in reversed(Group)]
    )

    assert [diagnosis.group for diagnosis in checkup.diagnoses] == list(Group)


@pytest.mark.parametrize(
    ("platform", "state", "message"),
    [
        ("linux", State.FINE, "Linux"),
        ("darwin", State.LOOK, "macOS is supported, but only Linux is tested"),
        ("win32", State.LOOK, "win32 is not supported; on Windows use it inside WSL 2"),
    ],
)
def test_what_is_known_of_the_system_is_said(
    platform: str, state: State, message: str
) -> None:
    found = check_system(platform)
    assert (found.state, found.message) == (state, message)
