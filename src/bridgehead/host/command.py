"""A command to run, the environment its child gets (an allow-list), the token that
cancels it, and how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bridgehead.host.confinement import Confinement


_OURSELVES: Final = "from bridgehead.cli import main; main()"
_OURSELVES_BY_STDIN: Final = (
    "import json, sys; sys.argv[1:] = json.load(sys.stdin); " + _OURSELVES
)


def isolated_python(*arguments: str) -> tuple[str, ...]:
    """Return the words that start our Python for the standard library alone.

    `-I`: nothing is imported from the working folder, from a variable or from the
    user's own packages.
    """
    return (sys.executable, "-I", *arguments)


def our_python(*arguments: str) -> tuple[str, ...]:
    """Return the words that start our Python with the packages it was installed with.

    `-P`: nothing is imported from the working folder, which may be foreign. `-I` would
    lose packages that were installed for the user. The environment that goes with it is
    `our_environment`, or an allow-list without PYTHON*.
    """
    return (sys.executable, "-P", *arguments)


def our_command(*words: str) -> tuple[str, ...]:
    """Return the words that start bridgehead itself in a process of its own.

    See `our_python`.
    """
    return our_python("-c", _OURSELVES, *words)


def our_command_by_stdin() -> tuple[str, ...]:
    """Return the same for words that come as a JSON list on standard input.

    A command line is readable for every user of the machine.
    """
    return our_python("-c", _OURSELVES_BY_STDIN)


def our_environment(
    environ: Mapping[str, str], *, search_path: bool = False
) -> dict[str, str]:
    """Return `environ` without the variables that tell Python what to import and run.

    With `search_path` the absolute folders of PYTHONPATH stay, for code of the user's
    that needs them.
    """
    kept = {
        name: value for name, value in environ.items() if not name.startswith("PYTHON")
    }
    if not search_path:
        return kept
    folders = environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [folder for folder in folders if Path(folder).is_absolute()]
    if absolute:
        kept["PYTHONPATH"] = os.pathsep.join(absolute)
    return kept


def runs_code_of_flows(words: Sequence[str]) -> bool:
    """Return whether a command of ours runs the user's programs in its own process."""
    return words[0] == "flow"


def python_folders() -> tuple[str, ...]:
    """Return what a confined Python of ours must be able to read: itself, and where it
    imports from.
    """
    imported_from = (folder for folder in sys.path if Path(folder).is_absolute())
    return (sys.prefix, sys.base_prefix, sys.executable, *imported_from)


def beside_python(program: str) -> str:
    """Return the path of a program installed with the packages of this Python."""
    return str(Path(sys.executable).parent / program)


class Cancel:
    """A token that can be cancelled once and stays so.

    One token may stop several runs.
    """

    def __init__(self) -> None:
        # Re-entrant, because a signal handler may cancel while this very thread is in
        # `waking`.
        self._lock = threading.RLock()
        self._cancelled = False
        self._wakers: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Ask everyone who watches this token to stop.

        Safe from any thread and more than once.
        """
        with self._lock:
            self._cancelled = True
            for wake in self._wakers:
                wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` on cancellation while the block runs, and never after it."""
        with self._lock:
            self._wakers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)


class Ended(StrEnum):
    """How a run came to its end."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    IDLE = "idle"
    OUTPUT_CAP = "output_cap"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Command:
    """What to run.

    `env` is the complete environment of the child; None stands for the bare allow-list.
    """

    argv: Sequence[str]
    stdin: bytes | str = field(default=b"", repr=False)
    # Holds keys: not for logs and traces.
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | PathLike[str] | None = None
    first_signal: int = signal.SIGTERM
    grace_seconds: float = 3.0
    stdout_cap: int = 8 * 1024 * 1024
    stderr_tail: int = 256 * 1024
    confined: Confinement | None = None
    """What the program and its children may touch; None is everything the user may."""

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not self.argv:
            raise ValueError(
                f"a command is a list that starts with a program, not {self.argv!r}"
            )
        object.__setattr__(self, "argv", tuple(self.argv))

    def prompt(self) -> bytes:
        """Return stdin as the bytes the program will read."""
        return (
            self.stdin
            if isinstance(self.stdin, bytes)
            else self.stdin.encode("utf-8", "replace")
        )


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of it. `reason` says why a program could not be started."""

    argv: tuple[str, ...]
    ended: Ended
    exit_code: int
    started_at: datetime
    duration_seconds: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    leftovers_killed: int = 0
    reason: str | None = None

    def text(self) -> str:
        """Return stdout as text; what is not UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    def error_text(self) -> str:
        """Return the kept end of stderr as text."""
        return self.stderr.decode("utf-8", "replace")


def exit_code_of(ended: Ended, returncode: int | None) -> int:
    """Settle the exit code of a program that was started, from its wait status
    (negative: a signal).
    """
    match ended:
        case Ended.TIMEOUT | Ended.IDLE | Ended.OUTPUT_CAP:
            return 124
        case Ended.CANCELLED:
            return 130
    if returncode is None:  # it could not even be killed
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode


ALWAYS = {"TERM": "dumb", "NO_COLOR": "1"}
INHERITED = frozenset(
    (
        *("HOME", "PATH", "LANG", "TMPDIR", "CODEX_HOME"),
        *(
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "NO_PROXY",
            "http_proxy",
            "https_proxy",
            "no_proxy",
        ),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    )
)


def child_environment(
    extra: Mapping[str, str],
    *,
    keep: Iterable[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the complete environment of a child.

    `extra` (this runtime's key and settings) wins over everything; `keep` names further
    variables to pass on; `base` is where inherited values come from, our own
    environment unless given.
    """
    source = os.environ if base is None else base
    kept = frozenset(keep)
    inherited = {
        name: value
        for name, value in source.items()
        if name in INHERITED or name in kept or _is_xdg_home(name)
    }
    return {**inherited, **ALWAYS, **extra}


def _is_xdg_home(name: str) -> bool:
    return name.startswith("XDG_") and name.endswith("_HOME")
