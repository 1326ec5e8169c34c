"""Checks of programs on this machine: git, Node, ssh-keygen and the AI command-line tools."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from shutil import which
from typing import Any, Final, NamedTuple

from bridgehead.doctor.diagnosis import Diagnosis, Group, State
from bridgehead.host.child import run_child

VERSION_SECONDS: Final = 10.0
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


class Program(NamedTuple):
    """A program we use: how to get it, what for, and the oldest that will do."""

    name: str
    group: Group
    install: str
    purpose: str
    oldest: tuple[int, ...] = ()
    required: bool = False
    tells_version: bool = True
    stand_in: bool = False
    """Worth a word only where it is installed; what it does has not been measured (runtimes §5)."""


PROGRAMS: Final[tuple[Program, ...]] = (
    Program(
        "git",
        Group.MACHINE,
        "install git 2.34 or newer from your system's packages",
        "rigs, scopes and snapshots",
        oldest=(2, 34),
        required=True,
    ),
    Program(
        "node",
        Group.MACHINE,
        "install Node.js 20 or newer from your system's packages",
        "gemini and codex, and the tests' peers",
        oldest=(20,),
    ),
    Program(
        "ssh-keygen",
        Group.RIGS,
        "install OpenSSH 8.2 or newer (package openssh-client)",
        "signing and checking envelopes",
        tells_version=False,
    ),
    Program(
        "claude",
        Group.RUNTIMES,
        "npm install -g @anthropic-ai/claude-code",
        "a council seat",
    ),
    Program(
        "gemini", Group.RUNTIMES, "npm install -g @google/gemini-cli", "a council seat"
    ),
    Program(
        "agy",
        Group.RUNTIMES,
        "npm install -g @google/gemini-cli",
        "gemini's seat, if gemini is missing or its account was refused",
        stand_in=True,
    ),
    Program("codex", Group.RUNTIMES, "npm install -g @openai/codex", "a council seat"),
    Program("opencode", Group.RUNTIMES, "npm install -g opencode-ai", "a council seat"),
)


class Answer(NamedTuple):
    """What a program said when asked for its version; one that took too long has no exit code."""

    is_there: bool = True
    exit_code: int | None = 0
    text: str = ""


def check_programs(environ: Mapping[str, str]) -> list[Diagnosis]:
    """Whether each program is there, answers, and is new enough. Asking for a version spends no tokens."""
    there = [
        program for program in PROGRAMS if which(program.name, path=environ.get("PATH"))
    ]
    agents = [program for program in there if program.group is Group.RUNTIMES]
    answers = {program: Answer(is_there=program in there) for program in PROGRAMS}
    answers |= {
        one: _version(one, environ)
        for one in there
        if one.tells_version and one not in agents
    }
    if agents:
        answers |= zip(agents, _versions_of_agents(agents, environ), strict=True)
    judged = (judge_program(program, answer) for program, answer in answers.items())
    return [diagnosis for diagnosis in judged if diagnosis is not None]


def _version(program: Program, environ: Mapping[str, str]) -> Answer:
    streams: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    try:
        done = run_child(
            (program.name, "--version"),
            timeout=VERSION_SECONDS,
            env=dict(environ),
            **streams,
        )
    except OSError:
        return Answer(is_there=False)
    except subprocess.TimeoutExpired:
        return Answer(exit_code=None)
    return Answer(exit_code=done.returncode, text=done.stdout.decode(errors="replace"))


def _versions_of_agents(
    programs: Sequence[Program], environ: Mapping[str, str]
) -> list[Answer]:
    """Asked at the same time, with an environment without keys, and ended with everything they started."""
    from concurrent.futures import ThreadPoolExecutor

    from bridgehead.host.process import Command, Ended, child_environment, run

    def ask(program: Program) -> Answer:
        command = Command(
            (program.name, "--version"), env=child_environment({}, base=environ)
        )
        result = run(command, timeout_seconds=VERSION_SECONDS, idle_seconds=None)
        has_ended = result.ended is Ended.EXITED
        return Answer(
            result.ended is not Ended.NOT_STARTED,
            result.exit_code if has_ended else None,
            result.text(),
        )

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(ask, programs))


def judge_program(program: Program, answer: Answer) -> Diagnosis | None:
    """What the answer to the version question means; None for a stand-in that is not there."""
    if program.stand_in and not answer.is_there:
        return None
    serious = State.BROKEN if program.required else State.LOOK
    found = _VERSION.search(answer.text)
    version = found[0] if found else ""
    if program.stand_in:
        kind = "unverified"
        state = State.LOOK
        said = f"is installed but not verified; used for {program.purpose}"
    elif not answer.is_there:
        kind = "missing"
        state = serious
        said = f"not found; needed for {program.purpose}"
    elif answer.exit_code is None:
        kind = "silent"
        state = State.LOOK
        said = f"did not print its version within {VERSION_SECONDS:g} s"
    elif answer.exit_code != 0:
        kind = "failing"
        state = State.LOOK
        said = f"--version failed with exit code {answer.exit_code}"
    elif (
        program.oldest
        and tuple(int(part) for part in version.split(".") if part) < program.oldest
    ):
        wanted = ".".join(map(str, program.oldest))
        kind = "old"
        state = serious
        said = f"{version or '(unknown version)'} is older than {wanted}"
    else:
        kind = "found"
        state = State.FINE
        said = version
    fix = None if state is State.FINE else program.install
    return Diagnosis(
        program.group,
        f"{program.name.replace('-', '_')}.{kind}",
        state,
        f"{program.name} {said}".rstrip(),
        fix=fix,
    )
