"""What pre-flight may ask of this machine: programs on PATH, remembered probes, files of the user, a loopback or
model URL.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from bridgehead.council.runtimes.exchange import HttpReply
from bridgehead.errors import FileError
from bridgehead.host import process
from bridgehead.host.command import (
    Command,
    CommandResult,
    Ended,
    beside_python,
    child_environment,
)
from bridgehead.host.confinement import (
    BUBBLEWRAP,
    LANDLOCK,
    SEATBELT,
    SEATBELT_PROGRAM,
    landlock_version,
)
from bridgehead.host.files import read_bounded, write_private

PROBE_SECONDS: Final = 10.0
SLOW_FACTOR: Final = 3
HTTP_SECONDS: Final = 3.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_USER_FILE_BYTES: Final = 1024 * 1024
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
MOST_PROBES: Final = 64
_MOST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Probe:
    """What a program says about itself; version None when it does not run."""

    version: str | None
    flags: frozenset[str] = frozenset()
    problem: str = ""


class RunProgram(Protocol):
    def __call__(
        self,
        command: Command,
        *,
        timeout_seconds: float | None,
        idle_seconds: float | None,
    ) -> CommandResult: ...


HttpGet = Callable[[str, Mapping[str, str], float], HttpReply]


class Machine:
    """The machine as pre-flight sees it; tests give it their own programs and answers."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        run: RunProgram = process.run,
        get: HttpGet | None = None,
        memory: dict[str, Probe] | None = None,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self.environment = environment
        self._probe_seconds = probe_seconds
        self._run = run
        self._get = get or http_get
        self._memory = {} if memory is None else memory
        self._bubblewraps: dict[str, bool] = {}

    @property
    def home(self) -> Path:
        return Path(self.environment.get("HOME") or Path.home())

    def which(self, program: str) -> str | None:
        """The absolute path of a program; relative entries of PATH are not looked at, a tree could fill them."""
        entries = self.environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
        found = shutil.which(program, path=path)
        return found if found is not None and Path(found).is_absolute() else None

    def beside_python(self, program: str) -> str | None:
        """The path of a program that was installed with the packages of this Python."""
        found = beside_python(program)
        return found if os.access(found, os.X_OK) and Path(found).is_file() else None

    def run(self, command: Command, *, slow: bool = False) -> CommandResult:
        """Run a probe; some programs are slow at telling what they have."""
        limit = self._probe_seconds * (SLOW_FACTOR if slow else 1)
        return self._run(command, timeout_seconds=limit, idle_seconds=None)

    def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, slow: bool = False
    ) -> HttpReply:
        """One short GET; a listing may take longer than a sign of life."""
        return self._get(
            url,
            headers or {},
            self._probe_seconds * SLOW_FACTOR if slow else HTTP_SECONDS,
        )

    def probe(self, version: Command, usage: Command) -> Probe:
        """The version of a program and the flags its help names; both commands start with the same path."""
        key = _probe_key(version, usage)
        if (known := self._memory.get(key)) is not None:
            return known
        probe = self._probe(version, usage)
        if probe.version is not None:
            self._memory[key] = probe
        return probe

    def read_user_file(self, path: Path) -> str | None:
        """A settings file of the user, or None when there is none that can be read."""
        try:
            return read_bounded(path, _USER_FILE_BYTES).decode("utf-8", "replace")
        except (FileError, OSError):
            return None

    def confinement(
        self, *, nests: bool, brought: Sequence[str] = ()
    ) -> tuple[str, str] | None:
        """What can hold a program to some paths here, and the helper it takes; None when nothing can.

        A program that `nests` puts its own commands into a sandbox of mounts: Landlock and sandbox-exec do not let it.
        `brought` are bubblewraps that came with the program.
        """
        if sys.platform == "darwin":
            usable = not nests and Path(SEATBELT_PROGRAM).exists()
            return (SEATBELT, SEATBELT_PROGRAM) if usable else None
        if not nests and landlock_version():
            return LANDLOCK, ""
        candidates = [path for path in (self.which("bwrap"), *brought) if path]
        helper = next((path for path in candidates if self._works(path)), None)
        return (BUBBLEWRAP, helper) if helper else None

    def _works(self, bubblewrap: str) -> bool:
        """Whether this bubblewrap may make its namespaces here; some systems and containers forbid it."""
        if bubblewrap not in self._bubblewraps:
            words = [
                "--unshare-user",
                "--unshare-pid",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "true",
            ]
            ended = self.run(
                Command(
                    [bubblewrap, *words],
                    env=child_environment({}, base=self.environment),
                )
            )
            self._bubblewraps[bubblewrap] = ended.exit_code == 0
        return self._bubblewraps[bubblewrap]

    def can_import(self, module: str) -> bool:
        return find_spec(module) is not None

    def _probe(self, version: Command, usage: Command) -> Probe:
        shown = self.run(version)
        found = _VERSION.search(shown.text()) if shown.exit_code == 0 else None
        if found is None:
            return Probe(None, problem=problem_of(shown))
        helped = self.run(usage)
        return Probe(
            found[0], frozenset(_FLAG.findall(helped.text() + helped.error_text()))
        )


def is_local(url: str) -> bool:
    """Whether a server is on this machine: it is reached directly, the user's proxies are for the outside."""
    return urlsplit(url).hostname in _LOOPBACK


def http_get(url: str, headers: Mapping[str, str], timeout_seconds: float) -> HttpReply:
    """One short GET; a server that cannot be reached is a reply too."""
    import httpx

    try:
        reply = httpx.get(
            url,
            headers=dict(headers),
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=not is_local(url),
        )
    except httpx.TimeoutException:
        return HttpReply(
            0, failure=f"no answer within {timeout_seconds:g} s", timed_out=True
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return HttpReply(0, failure=str(error) or type(error).__name__)
    return HttpReply(reply.status_code, reply.text)


def _probe_key(version: Command, usage: Command) -> str:
    path = version.argv[0]
    try:
        found = Path(path).stat()
    except OSError:
        return f"{path} does not exist"
    return " ".join(
        [
            path,
            str(found.st_mtime_ns),
            str(found.st_size),
            *version.argv[1:],
            *usage.argv[1:],
        ]
    )


def problem_of(result: CommandResult) -> str:
    match result.ended:
        case Ended.NOT_STARTED:
            return result.reason or "cannot be started"
        case Ended.EXITED:
            said = (result.error_text() or result.text()).strip().splitlines()
            return f"exit code {result.exit_code}" + (
                f": {said[0][:200]}" if said else ""
            )
        case _:
            return f"no answer within {result.duration_seconds:.0f} s"


class ProbeFile(dict[str, Probe]):
    """Probes as a file keeps them, written whenever one is added. Losing it only costs seconds."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        with suppress(FileError, OSError, msgspec.DecodeError):
            self.update(
                msgspec.json.decode(
                    read_bounded(path, _MOST_BYTES), type=dict[str, Probe]
                )
            )

    def __setitem__(self, key: str, probe: Probe) -> None:
        self.pop(key, None)
        super().__setitem__(key, probe)
        while len(self) > MOST_PROBES:
            del self[next(iter(self))]
        with suppress(FileError, OSError):
            write_private(self._path, msgspec.json.encode(dict(self)))
