"""What to run, and what came of it, as plain data.

Exit codes: the program's own; 128 + N if a signal N killed it that was not ours; 124 when we ended it at a limit
(council §19) and 130 when it was cancelled; 127 if there is no such program and 126 if it cannot be started.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from os import PathLike


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
    """What to run. `env` is the complete environment of the child; None stands for the bare allow-list."""

    argv: Sequence[str]
    stdin: bytes | str = field(default=b"", repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)  # holds keys: not for logs and traces
    cwd: str | PathLike[str] | None = None
    first_signal: int = signal.SIGTERM
    signal_group: bool = True
    grace_seconds: float = 3.0
    stdout_cap: int = 8 * 1024 * 1024
    stderr_tail: int = 256 * 1024

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not self.argv:
            raise ValueError(f"a command is a list that starts with a program, not {self.argv!r}")
        object.__setattr__(self, "argv", tuple(self.argv))

    def prompt(self) -> bytes:
        """Return stdin as the bytes the program will read."""
        return self.stdin if isinstance(self.stdin, bytes) else self.stdin.encode("utf-8", "replace")


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
    """Settle the exit code of a program that was started, from its wait status (negative: a signal)."""
    match ended:
        case Ended.TIMEOUT | Ended.IDLE | Ended.OUTPUT_CAP:
            return 124
        case Ended.CANCELLED:
            return 130
    if returncode is None:  # it could not even be killed
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode
