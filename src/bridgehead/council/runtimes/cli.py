"""What all agent CLIs share: found on PATH, asked once for version and flags, prompt on stdin (runtimes §2)."""

from __future__ import annotations

import signal
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from bridgehead.council.refusals import CLI_NOT_FOUND
from bridgehead.council.runtimes.base import Connection, Missing, SeatSetup
from bridgehead.council.runtimes.cli_result import ended_early
from bridgehead.council.runtimes.exchange import Ask, HttpReply, Outcome, Received, Request
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.host.command import Command, CommandResult
from bridgehead.host.environment import child_environment


class CliConnection(Connection):
    """A program that takes one prompt and ends."""

    kind = "cli"
    program: ClassVar[str]
    help_arguments: ClassVar[tuple[str, ...]] = ("--help",)
    required_flags: ClassVar[frozenset[str]] = frozenset()
    """Without these a tree could not be reviewed safely; an installation that lacks one is not used."""
    own_variables: ClassVar[tuple[str, ...]] = ()
    """Keys and addresses of this runtime, handed on when the user has set them."""
    fixed_environment: ClassVar[dict[str, str]] = {}
    first_signal: ClassVar[int] = signal.SIGTERM

    def __init__(self, setup: SeatSetup, path: str, probe: Probe) -> None:
        self.setup = setup
        self.path = path
        self.version = probe.version
        self.flags = probe.flags
        self.keeps_history = setup.settings.keeps_session

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        wanted = setup.text_option("path") or cls.program
        path = machine.which(wanted)
        if path is None:
            return Missing(CLI_NOT_FOUND, f"{wanted} is not on PATH")
        probe = machine.probe(
            cls._command_for(setup, path, ["--version"]), cls._command_for(setup, path, cls.help_arguments)
        )
        if probe.version is None:
            return Missing(f"cli_error: {cls.program} --version: {probe.problem}", path)
        if lacking := sorted(cls.required_flags - probe.flags):
            detail = f"{cls.program} {probe.version} does not know {', '.join(lacking)}"
            return Missing(f"cli_error: {detail}; install a newer version", path)
        return cls(setup, path, probe)

    @abstractmethod
    def arguments(self, ask: Ask) -> Sequence[str]:
        """The arguments for one prompt, which goes to stdin."""

    @abstractmethod
    def read_result(self, ask: Ask, result: CommandResult) -> Outcome:
        """What a run that came to its own end has said."""

    def environment(self, ask: Ask | None) -> dict[str, str]:
        """The whole environment of the program; without an ask, that of a probe."""
        return self._environment_for(self.setup)

    def ask(self, ask: Ask) -> Request:
        # stdin, because one argument over 128 KiB cannot be passed and arguments show in `ps` (runtimes §2.3).
        return Command(
            [self.path, *self.arguments(ask)],
            stdin=ask.prompt,
            env=self.environment(ask),
            cwd=ask.workspace,
            first_signal=self.first_signal,
        )

    def read(self, ask: Ask, received: Received) -> Outcome | Request:
        if isinstance(received, HttpReply):
            raise TypeError(f"{self.program} is a program and got an HTTP reply")
        early = ended_early(self.program, received, ask.timeout_seconds)
        return early or self.read_result(ask, received)

    def probing(self, *arguments: str) -> Command:
        """A command that asks the program something about itself."""
        return Command([self.path, *arguments], env=self.environment(None), first_signal=self.first_signal)

    @property
    def extra_arguments(self) -> tuple[str, ...]:
        return self.setup.text_options("extra_args")

    @classmethod
    def _command_for(cls, setup: SeatSetup, path: str, arguments: Sequence[str]) -> Command:
        return Command([path, *arguments], env=cls._environment_for(setup), first_signal=cls.first_signal)

    @classmethod
    def _environment_for(cls, setup: SeatSetup) -> dict[str, str]:
        keep = (*cls.own_variables, *setup.pass_env)
        return child_environment(cls.fixed_environment, keep=keep, base=setup.environment)
