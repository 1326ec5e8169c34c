"""Checks of programs on this machine: git, Node, ssh-keygen and the AI command-line tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bridgehead.doctor.diagnosis import Diagnosis, Group, State
from bridgehead.host.command import Command, CommandResult, Ended, child_environment
from bridgehead.host.process import run

VERSION_SECONDS: Final = 10.0
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Program:
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

    @property
    def kind(self) -> str:
        return self.name.replace("-", "_")


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
    Program("claude", Group.RUNTIMES, "npm install -g @anthropic-ai/claude-code", "a council seat"),
    Program("gemini", Group.RUNTIMES, "npm install -g @google/gemini-cli", "a council seat"),
    Program(
        "agy",
        Group.RUNTIMES,
        "npm install -g @google/gemini-cli",
        "the seat of gemini where that is missing or refused for good",
        stand_in=True,
    ),
    Program("codex", Group.RUNTIMES, "npm install -g @openai/codex", "a council seat"),
    Program("opencode", Group.RUNTIMES, "npm install -g opencode-ai", "a council seat"),
)


def check_program(program: Program, environ: Mapping[str, str]) -> Diagnosis | None:
    """Whether the program is there, answers, and is new enough. Asking for a version spends no tokens."""
    command = Command(
        (program.name, "--version" if program.tells_version else "-?"), env=child_environment({}, base=environ)
    )
    return judge_program(program, run(command, timeout_seconds=VERSION_SECONDS, idle_seconds=None))


def judge_program(program: Program, result: CommandResult) -> Diagnosis | None:
    """What the answer to the version question means; None for a stand-in that is not there."""
    if program.stand_in:
        return _judge_stand_in(program, result)
    if result.ended is Ended.NOT_STARTED:
        state = State.BROKEN if program.required else State.LOOK
        message = f"{program.name} not found; needed for {program.purpose}"
        return Diagnosis(program.group, f"{program.kind}.missing", state, message, fix=program.install)
    if result.ended is not Ended.EXITED:
        message = f"{program.name} did not tell its version within {VERSION_SECONDS:g} s"
        return Diagnosis(program.group, f"{program.kind}.silent", State.LOOK, message, fix=program.install)
    if program.tells_version and result.exit_code != 0:
        message = f"{program.name} --version failed with exit code {result.exit_code}"
        return Diagnosis(program.group, f"{program.kind}.failing", State.LOOK, message, fix=program.install)
    found = _VERSION.search(result.text())
    if program.oldest and (found is None or _numbers(found.group()) < program.oldest):
        wanted = ".".join(map(str, program.oldest))
        message = f"{program.name} {found.group() if found else '(unknown version)'} is older than {wanted}"
        state = State.BROKEN if program.required else State.LOOK
        return Diagnosis(program.group, f"{program.kind}.old", state, message, fix=program.install)
    version = f" {found.group()}" if found else ""
    return Diagnosis(program.group, f"{program.kind}.found", State.FINE, f"{program.name}{version}")


def _judge_stand_in(program: Program, result: CommandResult) -> Diagnosis | None:
    if result.ended is Ended.NOT_STARTED:
        return None
    message = f"{program.name} is there and unverified; it may take {program.purpose}"
    return Diagnosis(program.group, f"{program.kind}.unverified", State.LOOK, message, fix=program.install)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
