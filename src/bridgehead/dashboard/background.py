"""Run the doctor's check and the commands started from pages, in the background."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.doctor.checkup import check_everything
from bridgehead.doctor.diagnosis import Checkup
from bridgehead.errors import UserError
from bridgehead.host.clock import Clock, iso_ms
from bridgehead.host.command import (
    Cancel,
    Command,
    our_command,
    our_environment,
    runs_code_of_flows,
)
from bridgehead.host.process import run

MOST_RUNNING: Final = 8
MOST_KEPT: Final = 20
MOST_OUTPUT: Final = 64 << 20
GRACE_SECONDS: Final = 30.0  # for a council that is stopped to write its report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CachedCheckup:
    checkup: Checkup
    at: str


class DoctorCache:
    """The result of the latest check of this machine.

    Checks run one at a time, in a thread of their own. The event that a check records
    tells open pages of its end.
    """

    def __init__(self, assembly: Assembly, clock: Clock) -> None:
        self._assembly = assembly
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.latest: CachedCheckup | None = None

    @property
    def is_checking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def check(self) -> None:
        """Start a check unless one is under way."""
        with self._lock:
            if not self.is_checking:
                self._thread = threading.Thread(
                    target=self._check, name="web-checkup", daemon=True
                )
                self._thread.start()

    def wait(self) -> None:
        """Wait until the check under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def _check(self) -> None:
        try:
            self.latest = CachedCheckup(
                check_everything(self._assembly), iso_ms(self._clock.now())
            )
        except Exception:
            # An unexpected error in a check must not stop the dashboard.
            logger.exception("`bridgehead doctor` failed")


@dataclass(slots=True)
class StartedCommand:
    """A bridgehead command that was started from a page."""

    words: tuple[str, ...]
    place: Path
    at: str
    exit_code: int | None = None
    out: str = ""
    error: str = ""

    @property
    def line(self) -> str:
        """Return the command line to type for the same."""
        return shlex.join(("bridgehead", *self.words))


class CommandRunner:
    """Runs bridgehead commands in child processes, as a shell would.

    Those that are still running end with the dashboard.
    """

    def __init__(self, assembly: Assembly, clock: Clock) -> None:
        self._environ = dict(assembly.environ)
        self._clock = clock
        self._cancel = Cancel()
        self._lock = threading.Lock()
        self._running: set[threading.Thread] = set()
        self.started: list[StartedCommand] = []

    def run(
        self,
        words: Sequence[str],
        place: Path,
        *,
        stdin: str = "",
        wait_seconds: float,
        looks: bool = False,
    ) -> StartedCommand:
        """Start a command and wait up to `wait_seconds` for its end.

        It has no exit code if it is still running. A command that only `looks` is not
        listed among those started.
        """
        command = StartedCommand(tuple(words), place, iso_ms(self._clock.now()))
        thread = threading.Thread(
            target=self._run, args=(command, stdin), name="web-command", daemon=True
        )
        with self._lock:
            self._running = {running for running in self._running if running.is_alive()}
            if len(self._running) >= MOST_RUNNING:
                raise UserError(
                    f"{MOST_RUNNING} commands are already running",
                    hint="wait for one of them to end",
                )
            self._running.add(thread)
            if not looks:
                self.started = [command, *self.started][:MOST_KEPT]
            thread.start()
        thread.join(wait_seconds)
        return command

    def close(self) -> None:
        """Stop all running commands, as Ctrl-C would, and wait for their end."""
        self._cancel.cancel()
        for thread in list(self._running):
            thread.join()

    def _run(self, command: StartedCommand, stdin: str) -> None:
        child = Command(
            our_command(*command.words),
            stdin=stdin,
            env=our_environment(
                self._environ, search_path=runs_code_of_flows(command.words)
            ),
            cwd=command.place,
            grace_seconds=GRACE_SECONDS,
            stdout_cap=MOST_OUTPUT,
        )
        result = run(
            child,
            timeout_seconds=None,
            idle_seconds=None,
            cancel=self._cancel,
            keep_family=True,
        )
        command.out = result.stdout.decode("utf-8", "replace").strip()
        command.error = (result.error_text() or result.reason or "").strip()
        command.exit_code = result.exit_code
