"""What all agent CLIs share: found on PATH, probed once, prompt on stdin; exit code 0 is not success (runtimes
§2).
"""

from __future__ import annotations

import json
import os
import re
import signal
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Self

from bridgehead.contract.words import ErrorClass
from bridgehead.council.refusals import classify
from bridgehead.council.reporting.seat_report import excerpt
from bridgehead.council.runtimes import exchange
from bridgehead.council.runtimes.base import Connection, Missing, SeatSetup
from bridgehead.council.runtimes.call_errors import (
    CLI_NOT_FOUND,
    DETAIL_CHARACTERS,
)
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.errors import FileError
from bridgehead.host.command import Command, CommandResult, Ended, child_environment
from bridgehead.host.confinement import SEATBELT, XDG_FOLDERS, Confinement, installation
from bridgehead.host.directories import make_private_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.host.ports import (
    ephemeral_ports,
    ports_in_urls,
    ports_in_value,
    reachable_ports,
)

StartupErrors = Sequence[tuple[re.Pattern[str], ErrorClass]]
"""What a CLI writes to stderr when it does not even begin, in the order in which it is looked for."""

# Below 0, or 128 and up: a signal ended it, whatever it had printed by then. Some CLIs also use these codes for HTTP
# statuses, but then their record says that they failed.
_OWN_END: Final = range(128)
# What `timeout` programs end with; a user may have put one around the runtime (council §19).
_TIMED_OUT: Final = 124
_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;]*m")
# Their values are files of the user's that the program needs to reach its provider.
_FILE_VARIABLES: Final = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "GOOGLE_APPLICATION_CREDENTIALS",
]
_SETTINGS: Final = frozenset({".json", ".jsonc", ".toml", ".md", ".yaml", ".yml"})
_SYSTEM_SETTINGS: Final = ["claude-code", "codex", "gemini-cli", "opencode"]
_SETTINGS_BYTES: Final = 1024 * 1024
_OWN_FILE_BYTES: Final = 16 * 1024 * 1024
NOT_CONFINED: Final = "asked_without_tools"


def ended_early(
    program: str, result: CommandResult, timeout_seconds: int
) -> exchange.RuntimeRefusal | None:
    """The refusal of a program that did not come to its own end, or None."""
    detail = stderr_of(result)
    match result.ended:
        case Ended.NOT_STARTED:
            message = f"{program} could not be started: {result.reason}"
            return exchange.RuntimeRefusal(
                ErrorClass.OTHER, message, detail, reason=CLI_NOT_FOUND
            )
        case Ended.TIMEOUT | Ended.IDLE:
            message = (
                f"{program} was stopped after {timeout_seconds} s without an answer"
            )
            return exchange.RuntimeRefusal(ErrorClass.TIMEOUT, message, detail)
        case Ended.OUTPUT_CAP:
            return exchange.RuntimeRefusal(
                ErrorClass.MALFORMED, f"{program} printed too much", detail
            )
        case Ended.EXITED if result.exit_code == _TIMED_OUT:
            return exchange.RuntimeRefusal(
                ErrorClass.TIMEOUT,
                f"{program} ended with the code of a timeout",
                detail,
            )
    return None


def succeeded(
    program: str, result: CommandResult, answered: exchange.RuntimeAnswer
) -> exchange.CallOutcome:
    """`answered`, unless the program was killed or the answer is empty (runtimes §2.1)."""
    if result.exit_code not in _OWN_END:
        message = f"{program} was ended with code {result.exit_code}"
        return exchange.RuntimeRefusal(
            ErrorClass.OTHER, message, stderr_of(result), usage=answered.usage
        )
    if not answered.text.strip():
        return empty(program, result, answered)
    return answered


def empty(
    program: str, result: CommandResult, answered: exchange.RuntimeAnswer | None = None
) -> exchange.RuntimeRefusal:
    message = f"{program} ended with code {result.exit_code} and gave no answer"
    usage = answered.usage if answered else exchange.NOTHING_REPORTED
    return exchange.RuntimeRefusal(
        ErrorClass.EMPTY, message, stderr_of(result), usage=usage
    )


def refused_without_record(
    program: str, result: CommandResult, known: StartupErrors
) -> exchange.RuntimeRefusal:
    """A run that left no record of its own: what stderr says decides, or else the prose on stdout."""
    said = stderr_of(result)
    message = (
        excerpt(said) or f"{program} ended with code {result.exit_code} and no output"
    )
    told = next(
        (error_class for pattern, error_class in known if pattern.search(said)), None
    )
    told = told or classify(said)
    if told is ErrorClass.OTHER:
        printed = excerpt(_TERMINAL_CODES.sub("", result.text()))
        told = classify(printed)
        message = message if said else excerpt(printed) or message
    if told is ErrorClass.OTHER and result.exit_code == 0:
        return empty(program, result)
    return exchange.RuntimeRefusal(told, message, said)


def stderr_of(result: CommandResult) -> str:
    """stderr without colours, cut to what the log takes."""
    return excerpt(_TERMINAL_CODES.sub("", result.error_text()), DETAIL_CHARACTERS)


def option(flag: str, value: str | None) -> list[str]:
    """`--flag=value` in one word: whatever the value is, no program can read it as an option of its own."""
    return [f"{flag}={value}"] if value else []


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
    own_folders: ClassVar[tuple[str, ...]] = ()
    """What the program keeps in the user's home for itself: its settings, its login, its sessions."""
    own_files: ClassVar[tuple[str, ...]] = ()
    """JSON files of the same kind; it works on copies, without what they say about other projects."""
    folder_variables: ClassVar[tuple[str, ...]] = ()
    """Variables by which the user moves such a folder."""
    starts_servers: ClassVar[bool] = False
    """It starts servers of its own on this machine and connects to them, on a port that the system chooses."""
    serves_acp: ClassVar[bool] = False
    """It does so when it speaks ACP."""
    server_ports: ClassVar[frozenset[int]] = frozenset()
    """Ports on which they listen by default."""
    nests_sandbox: ClassVar[bool] = False
    """It puts its own commands into a sandbox made of mounts."""

    def __init__(self, setup: SeatSetup, path: str, probe: Probe) -> None:
        self.setup = setup
        self.path = path
        self.version = probe.version
        self.flags = probe.flags
        self.keeps_history = setup.settings.options.get("continuity") == "session"
        self.has_tools = True
        self._home = setup.environment.get("HOME", "/")
        self._mechanism: tuple[str, str] | None = None

    def hold(self, machine: Machine) -> None:
        """Settle what confines the program here; without anything it is asked with its tools off."""
        self._mechanism = machine.confinement(
            nests=self.nests_sandbox, brought=self.brought_helpers()
        )
        self._home = str(machine.home)
        self.held_by = self._mechanism[0] if self._mechanism else self.own_sandbox()
        self.has_tools = bool(self.held_by)
        if not self.has_tools:
            self.reads_files = False
            self.warnings = (*self.warnings, f"{NOT_CONFINED}:{self.program}")

    def brought_helpers(self) -> Sequence[str]:
        """Bubblewraps that are installed with the program."""
        return ()

    def own_sandbox(self) -> str:
        """The program's own sandbox, where it keeps every tool to the private copy without our help."""
        return ""

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        wanted = setup.text_option("path") or cls.program
        path = machine.which(wanted)
        if path is None:
            return Missing(CLI_NOT_FOUND, f"{wanted} is not on PATH")
        probe = machine.probe(
            cls._command_for(setup, path, ["--version"]),
            cls._command_for(setup, path, cls.help_arguments),
        )
        if probe.version is None:
            return Missing(f"cli_error: {cls.program} --version: {probe.problem}", path)
        if lacking := sorted(cls.required_flags - probe.flags):
            detail = f"{cls.program} {probe.version} does not know {', '.join(lacking)}"
            return Missing(f"cli_error: {detail}; install a newer version", path)
        located = cls(setup, path, probe)
        located.hold(machine)
        return located

    @abstractmethod
    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        """The arguments for one prompt, which goes to stdin."""

    @abstractmethod
    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        """What a run that came to its own end has said."""

    def environment(self, ask: exchange.RuntimeRequest | None) -> dict[str, str]:
        """The whole environment of the program; without an ask, that of a probe."""
        return self._environment_for(self.setup)

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        # stdin, because one argument over 128 KiB cannot be passed and arguments show in `ps` (runtimes §2.3).
        return Command(
            [self.path, *self.arguments(ask)],
            stdin=ask.prompt,
            env=self.environment(ask),
            cwd=ask.workspace,
            first_signal=self.first_signal,
            confined=self._confinement(ask),
        )

    def _confinement(self, ask: exchange.RuntimeRequest) -> Confinement | None:
        """Its installation, its own folders, the private copy and a scratch home; nothing else of the user's."""
        if self._mechanism is None:
            return None
        mechanism, helper = self._mechanism
        environment = self.setup.environment
        own = {
            name: _in_home(name, self._home, environment) for name in self.own_folders
        }
        moved_folders = [
            environment[name] for name in self.folder_variables if environment.get(name)
        ]
        files = (environment[name] for name in _FILE_VARIABLES if environment.get(name))
        write = [*own.values(), *moved_folders]
        read = [
            *installation(self.path, environment.get("PATH", os.defpath)),
            *files,
            *_linked_settings(write),
        ]
        read += [str(Path(path).expanduser()) for path in self.setup.readable]
        read += [str(ask.schema_file)] if ask.schema_file else []
        (write if ask.may_write else read).append(str(ask.workspace))
        hidden = (
            self._home,
            *([str(self.setup.project)] if self.setup.project else []),
        )
        scratch = None
        # a keychain is found by the real home.
        if ask.scratch is not None and mechanism != SEATBELT:
            scratch = _furnished(ask.scratch, own, self.own_files, Path(self._home))
        else:
            read += [str(ask.scratch)] if ask.scratch else []
            write += [environment.get("TMPDIR", "/tmp")]
            write += [f"{self._home}/{name}" for name in self.own_files]
        return Confinement(
            mechanism,
            connect=self._ports(ask, [*own.values(), *moved_folders]),
            read=tuple(read),
            write=tuple(write),
            hidden=hidden,
            home=str(scratch / "home") if scratch else None,
            temporary=str(scratch / "tmp") if scratch else None,
            helper=helper,
        )

    def _ports(
        self, ask: exchange.RuntimeRequest, folders: Sequence[str]
    ) -> tuple[range, ...] | None:
        """The ports of the addresses the program was told: by variables, its own settings and the servers of the call.

        None where the call brings servers that the program starts: where those connect to is the operator's business.
        """
        if any(tool.words for tool in ask.tools):
            return None
        named = {port for tool in ask.tools for port in ports_in_urls(tool.url)}
        for value in self.environment(ask).values():
            named |= ports_in_value(value)
        for option_value in self.setup.settings.options.values():
            named |= ports_in_urls(str(option_value))
        for folder in [*folders, *(f"/etc/{name}" for name in _SYSTEM_SETTINGS)]:
            for text in _settings_texts(folder):
                named |= ports_in_urls(text)
        servers = ephemeral_ports() if self.starts_servers else None
        if self.starts_servers:
            named |= self.server_ports
        return reachable_ports(named, own_servers=servers, rules=self.setup.ports)

    def read(
        self, ask: exchange.RuntimeRequest, received: exchange.Received
    ) -> exchange.NextStep:
        if isinstance(received, exchange.HttpReply):
            raise TypeError(f"{self.program} is a program and got an HTTP reply")
        early = ended_early(self.program, received, ask.timeout_seconds)
        return early or self.read_result(ask, received)

    def probing(self, *arguments: str) -> Command:
        """A command that asks the program something about itself."""
        return Command(
            [self.path, *arguments],
            env=self.environment(None),
            first_signal=self.first_signal,
        )

    @property
    def extra_arguments(self) -> tuple[str, ...]:
        return self.setup.text_options("extra_args")

    @classmethod
    def _command_for(
        cls, setup: SeatSetup, path: str, arguments: Sequence[str]
    ) -> Command:
        return Command(
            [path, *arguments],
            env=cls._environment_for(setup),
            first_signal=cls.first_signal,
        )

    @classmethod
    def _environment_for(cls, setup: SeatSetup) -> dict[str, str]:
        keep = (*cls.own_variables, *setup.pass_env)
        return child_environment(
            cls.fixed_environment, keep=keep, base=setup.environment
        )


def _in_home(name: str, home: str, environment: Mapping[str, str]) -> str:
    """Where the user has the folder: below the home, or where a variable has moved that part of it."""
    for variable, part in XDG_FOLDERS.items():
        if name.startswith(f"{part}/") and (moved := environment.get(variable)):
            return str(Path(moved, name.removeprefix(f"{part}/")))
    return str(Path(home, name))


def _linked_settings(folders: Iterable[str]) -> list[str]:
    """Settings that the user keeps elsewhere and links into the program's own folder; nothing else that is linked."""
    found: list[Path] = []
    for folder in folders:
        with suppress(OSError):
            links = [
                Path(one.path)
                for one in os.scandir(folder)
                if one.is_symlink() and one.is_file()
            ]
            found += [link.resolve() for link in links if link.suffix in _SETTINGS]
    return [str(path) for path in found if path.suffix in _SETTINGS]


def _settings_texts(folder: str) -> Iterator[str]:
    """The settings files directly in a folder, for the addresses in them."""
    try:
        paths = sorted(Path(folder).iterdir())
    except OSError:
        return
    for path in paths:
        if path.suffix in _SETTINGS or path.name == ".env":
            with suppress(FileError, OSError):
                yield read_bounded(path, _SETTINGS_BYTES).decode("utf-8", "replace")


def _furnished(
    scratch: Path, own: Mapping[str, str], files: Sequence[str], home: Path
) -> Path:
    """A home with links to the program's own folders and copies of its own files, and a temporary folder."""
    for folder in (scratch, scratch / "home", scratch / "tmp"):
        make_private_dir(folder)
    for name, target in own.items():
        link = scratch / "home" / name
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            link.symlink_to(target) if Path(target).is_dir() else link.mkdir(mode=0o700)
    for name in files:
        if not (scratch / "home" / name).exists():
            with suppress(
                FileError, OSError, ValueError, RecursionError, AttributeError
            ):
                said = json.loads(read_bounded(home / name, _OWN_FILE_BYTES))
                said.pop("projects", None)
                write_atomic(scratch / "home" / name, json.dumps(said), private=True)
    return scratch
