"""Run a child process with limits on time and output, and end its family with it."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import IO, Literal

from bridgehead.host.child import SignalsHeld
from bridgehead.host.clock import Clock, SystemClock
from bridgehead.host.command import (
    Cancel,
    Command,
    CommandResult,
    Ended,
    child_environment,
    exit_code_of,
    isolated_python,
)
from bridgehead.host.family import GIVE_UP_SECONDS, Family
from bridgehead.host.guardian import GUARDIAN, MARK

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
CHUNK_BYTES = 1 << 16
# How often to check for the end if the system does not announce it.
TICK_SECONDS = 0.05
__all__ = [
    "Cancel",
    "Command",
    "CommandResult",
    "Ended",
    "OnOutput",
    "Stream",
    "child_environment",
    "run",
]
# When the program has ended, its last output may still be on its way through a helper
# such as `tee`.
LINGER_SECONDS = 0.5
_MORE_THAN_A_PIPE_HOLDS = 64


def run(
    command: Command,
    *,
    timeout_seconds: float | None,
    idle_seconds: float | None,
    cancel: Cancel | None = None,
    on_output: OnOutput | None = None,
    keep_family: bool = False,
    clock: Clock | None = None,
) -> CommandResult:
    """Run `command` to its end and return the result, also if it cannot be started.

    `timeout_seconds` limits the whole run, `idle_seconds` the time without output.
    Children that outlive the program are killed, because nobody owns them;
    `keep_family` spares them, for programs that leave helpers behind on purpose (git's
    maintenance, credential caches).
    """
    clock = clock or SystemClock()
    started_at = clock.now()
    if cancel is not None and cancel.cancelled:
        return CommandResult(tuple(command.argv), Ended.CANCELLED, 130, started_at)
    family = Family()
    process: subprocess.Popen[bytes] | None = None
    with GUARDIAN.watching(family.run_id):
        try:
            try:
                with SignalsHeld():
                    process = _start(command, family)
            except (OSError, ValueError) as error:
                return _not_started(command, started_at, error)
            family.set_leader(process.pid)
            deadline = None
            if timeout_seconds is not None:
                deadline = clock.monotonic() + timeout_seconds
            running = _Run(
                command, process, family, cancel, clock, deadline, idle_seconds
            )
            return running.run_to_end(on_output, started_at, keep_family=keep_family)
        except BaseException:
            family.remember()
            family.kill()
            if process is not None:
                _reap(process)
                _close_pipes(process)
            raise


class _Run:
    """A running program and its limits."""

    def __init__(
        self,
        command: Command,
        process: subprocess.Popen[bytes],
        family: Family,
        cancel: Cancel | None,
        clock: Clock,
        deadline: float | None,
        idle_seconds: float | None,
    ) -> None:
        self._command = command
        self._process = process
        self._family = family
        self._cancel = cancel
        self._clock = clock
        self._deadline = deadline
        self._idle_seconds = idle_seconds
        self._began = clock.monotonic()
        self._last_output_at = self._began
        self._capture = Capture(command.stdout_cap, command.stderr_tail)

    def run_to_end(
        self, on_output: OnOutput | None, started_at: datetime, *, keep_family: bool
    ) -> CommandResult:
        """Stay with the program to its end and clean up after it."""
        prompt = self._command.prompt()
        with ExitStack() as stack:
            pipes = stack.enter_context(
                Pipes(self._process, prompt, self._capture, on_output)
            )
            if self._cancel is not None:
                stack.enter_context(self._cancel.waking(pipes.wake))
            ended = self._exchange(pipes)
            if ended is Ended.EXITED:
                self._linger(pipes)
            else:
                self._ask_to_stop(pipes)
            spared = keep_family and ended is Ended.EXITED
            leftovers_killed = 0 if spared else self._family.kill()
            # Read what was written before the kill.
            for _ in range(_MORE_THAN_A_PIPE_HOLDS):
                if not pipes.wait(0):
                    break
        return CommandResult(
            argv=tuple(self._command.argv),
            ended=ended,
            exit_code=exit_code_of(ended, _reap(self._process)),
            started_at=started_at,
            duration_seconds=self._clock.monotonic() - self._began,
            stdout=self._capture.stdout,
            stderr=self._capture.stderr,
            stdout_truncated=self._capture.stdout_truncated,
            stderr_truncated=self._capture.stderr_truncated,
            leftovers_killed=leftovers_killed,
        )

    def _exchange(self, pipes: Pipes) -> Ended:
        """Move bytes until the program ends or must be ended; return why."""
        while True:
            ended = self._ending(pipes, self._clock.monotonic())
            if ended is not None:
                return ended
            if pipes.wait(self._seconds_left()):
                self._last_output_at = self._clock.monotonic()

    def _ending(self, pipes: Pipes, now: float) -> Ended | None:
        if pipes.has_exited:
            return Ended.EXITED
        if self._cancel is not None and self._cancel.cancelled:
            return Ended.CANCELLED
        if self._capture.stdout_truncated:
            return Ended.OUTPUT_CAP
        if self._deadline is not None and now >= self._deadline:
            return Ended.TIMEOUT
        if (
            self._idle_seconds is not None
            and now >= self._last_output_at + self._idle_seconds
        ):
            return Ended.IDLE
        return None

    def _seconds_left(self) -> float | None:
        """Return how long until a limit is reached, or None without limits."""
        limits = []
        if self._deadline is not None:
            limits.append(self._deadline)
        if self._idle_seconds is not None:
            limits.append(self._last_output_at + self._idle_seconds)
        if not limits:
            return None
        return max(0.0, min(limits) - self._clock.monotonic())

    def _linger(self, pipes: Pipes) -> None:
        until = self._clock.monotonic() + LINGER_SECONDS
        while not pipes.is_silent and (left := until - self._clock.monotonic()) > 0:
            pipes.wait(left)

    def _ask_to_stop(self, pipes: Pipes) -> None:
        """Signal the program and give it its grace period.

        Some programs print a last record then (runtimes §2.4).
        """
        self._family.remember()
        self._family.signal(self._command.first_signal)
        until = self._clock.monotonic() + self._command.grace_seconds
        while not pipes.has_exited and (left := until - self._clock.monotonic()) > 0:
            pipes.wait(left)


class Pipes:
    """Feeds and drains one child; `wait` is the only place that waits."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        prompt: bytes,
        capture: Capture,
        on_output: OnOutput | None,
    ) -> None:
        self._process = process
        self._rest = memoryview(prompt)
        self._capture = capture
        self._on_output = on_output
        self._exit_announced = False
        self._open_outputs = 0
        self._had_output = False
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._exit_handle = _exit_handle(process.pid)
        self._selector.register(
            self._wake_reader, selectors.EVENT_READ, self._note_wake
        )
        if self._exit_handle is not None:
            self._selector.register(
                self._exit_handle, selectors.EVENT_READ, self._note_exit
            )
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._selector.register(
                self._process.stdin, selectors.EVENT_WRITE, self._feed
            )
        self._watch_output("stdout", self._process.stdout)
        self._watch_output("stderr", self._process.stderr)

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for handle in (self._wake_reader, self._wake_writer, self._exit_handle):
            if handle is not None:
                os.close(handle)
        _close_pipes(self._process)

    @property
    def has_exited(self) -> bool:
        """Return whether the program itself has ended.

        Its children may still have the pipes open.
        """
        return self._exit_announced or (
            self._exit_handle is None and self._process.poll() is not None
        )

    @property
    def is_silent(self) -> bool:
        """Return whether nobody is left who could write anything."""
        return self._open_outputs == 0

    def wake(self) -> None:
        """End a `wait` from another thread."""
        # If the pipe is full, `wait` is woken anyway.
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def wait(self, seconds: float | None) -> bool:
        """Wait at most `seconds` for something to happen, and handle it.

        Return whether there was output.
        """
        if self._exit_handle is None:
            seconds = TICK_SECONDS if seconds is None else min(seconds, TICK_SECONDS)
        self._had_output = False
        for key, _ in self._selector.select(seconds):
            key.data()
        return self._had_output

    def _watch_output(self, stream: Stream, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            self._open_outputs += 1
            self._selector.register(
                pipe, selectors.EVENT_READ, lambda: self._drain(stream, pipe)
            )

    def _note_wake(self) -> None:
        # It stays readable, but one wake is enough.
        self._selector.unregister(self._wake_reader)

    def _note_exit(self) -> None:
        self._exit_announced = True
        if self._exit_handle is not None:
            self._selector.unregister(self._exit_handle)

    def _feed(self) -> None:
        stdin = self._process.stdin
        if stdin is None:
            return
        try:
            written = os.write(stdin.fileno(), self._rest[:CHUNK_BYTES])
        except BlockingIOError:
            return
        except BrokenPipeError:  # the program does not want the rest
            written = len(self._rest)
        self._rest = self._rest[written:]
        if not self._rest:
            self._selector.unregister(stdin)
            stdin.close()

    def _drain(self, stream: Stream, pipe: IO[bytes]) -> None:
        chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        if not chunk:
            self._selector.unregister(pipe)
            self._open_outputs -= 1
            return
        self._had_output = True
        counted = self._capture.take(stream, chunk)
        if counted and self._on_output is not None:
            self._on_output(stream, counted)


class Capture:
    """Keeps the beginning of stdout, up to a cap, and the end of stderr."""

    def __init__(self, stdout_cap: int, stderr_tail: int) -> None:
        self._stdout_cap = stdout_cap
        self._stderr_tail = stderr_tail
        self._stdout = bytearray()
        self._stderr = bytearray()
        self.stdout_truncated = False
        self.stderr_truncated = False

    @property
    def stdout(self) -> bytes:
        return bytes(self._stdout)

    @property
    def stderr(self) -> bytes:
        start = max(0, len(self._stderr) - self._stderr_tail)
        return bytes(self._stderr[start:])

    def take(self, stream: Stream, chunk: bytes) -> bytes:
        """Keep as much as there is room for.

        Return the part of `chunk` that still counts as output.
        """
        if stream == "stderr":
            self._stderr += chunk
            self.stderr_truncated |= len(self._stderr) > self._stderr_tail
            # Cut only now and then, because each cut moves the whole tail.
            if len(self._stderr) > 2 * self._stderr_tail:
                del self._stderr[: len(self._stderr) - self._stderr_tail]
            return chunk
        counted = chunk[: self._stdout_cap - len(self._stdout)]
        self._stdout += counted
        self.stdout_truncated |= len(counted) < len(chunk)
        return counted


def _start(command: Command, family: Family) -> subprocess.Popen[bytes]:
    environment = child_environment({}) if command.env is None else dict(command.env)
    argv = list(command.argv)
    if command.confined is not None:
        environment |= command.confined.environment()
        cwd = os.fspath(command.cwd or ".")
        argv = command.confined.wrap(argv, cwd, isolated_python("-S"))
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=command.cwd,
        env={**environment, MARK: family.mark()},
        start_new_session=True,
    )


def _not_started(
    command: Command, started_at: datetime, error: OSError | ValueError
) -> CommandResult:
    program = command.argv[0]
    subject = program
    cause = str(error)
    exit_code = 126
    if isinstance(error, OSError):
        cause = error.strerror or str(error)
        if error.filename not in (None, program):
            subject = f"working directory {error.filename}"
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            exit_code = 127
    reason = f"{subject}: {cause}"
    return CommandResult(
        tuple(command.argv), Ended.NOT_STARTED, exit_code, started_at, reason=reason
    )


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _reap(process: subprocess.Popen[bytes]) -> int | None:
    # A process that is stuck in the kernel cannot even be killed.
    with suppress(subprocess.TimeoutExpired):
        return process.wait(GIVE_UP_SECONDS)
    return None


def _exit_handle(pid: int) -> int | None:
    """Return a handle that becomes readable when the process ends, or None if the
    system has no such thing.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
