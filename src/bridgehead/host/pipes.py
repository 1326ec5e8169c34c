"""The three pipes of a running program, moved by one selector that also notices its end and a wake-up call.

The prompt goes in as fast as the program reads it, output comes out as it is written: neither side can block the
other, whatever the sizes (runtimes §2.3, §2.7).
"""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import IO, Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]

CHUNK_BYTES = 1 << 16
TICK_SECONDS = 0.05  # how often to ask for the end where the system does not announce it


class Capture:
    """What is kept of the output: stdout from its start up to a cap, of stderr the end."""

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
        return bytes(self._stderr[max(0, len(self._stderr) - self._stderr_tail) :])

    def take(self, stream: Stream, chunk: bytes) -> bytes:
        """Keep what there is room for; return the part of `chunk` that still counts as output."""
        if stream == "stderr":
            self._take_tail(chunk)
            return chunk
        counted = chunk[: self._stdout_cap - len(self._stdout)]
        self._stdout += counted
        self.stdout_truncated |= len(counted) < len(chunk)
        return counted

    def _take_tail(self, chunk: bytes) -> None:
        self._stderr += chunk
        self.stderr_truncated |= len(self._stderr) > self._stderr_tail
        if len(self._stderr) > 2 * self._stderr_tail:  # seldom, because each cut moves the whole tail
            del self._stderr[: len(self._stderr) - self._stderr_tail]


class Pipes:
    """Feeds and drains one child; `turn` is the only place that waits."""

    def __init__(
        self, process: subprocess.Popen[bytes], prompt: bytes, capture: Capture, on_output: OnOutput | None
    ) -> None:
        self._process = process
        self._rest = memoryview(prompt)
        self._capture = capture
        self._on_output = on_output
        self._exit_announced = False
        self._open_outputs = 0
        self._heard = False
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._exit_handle = _exit_handle(process.pid)
        self._watch_everything()

    def __enter__(self) -> Pipes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        for handle in (self._wake_reader, self._wake_writer, self._exit_handle):
            if handle is not None:
                os.close(handle)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def has_exited(self) -> bool:
        """Whether the program itself has ended; children of it may still hold the pipes."""
        return self._exit_announced or (self._exit_handle is None and self._process.poll() is not None)

    @property
    def is_silent(self) -> bool:
        """Whether nobody is left who could write anything."""
        return self._open_outputs == 0

    def wake(self) -> None:
        """End a `turn` that waits; for other threads."""
        with suppress(BlockingIOError):  # so many calls wait there already that one more adds nothing
            os.write(self._wake_writer, b"\0")

    def turn(self, seconds: float | None) -> bool:
        """Wait at most `seconds` for something to happen and carry it out; return whether there was output."""
        if self._exit_handle is None:
            seconds = TICK_SECONDS if seconds is None else min(seconds, TICK_SECONDS)
        self._heard = False
        for key, _ in self._selector.select(seconds):
            key.data()
        return self._heard

    def _watch_everything(self) -> None:
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._note_wake)
        if self._exit_handle is not None:
            self._selector.register(self._exit_handle, selectors.EVENT_READ, self._note_exit)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._selector.register(self._process.stdin, selectors.EVENT_WRITE, self._feed)
        self._watch_output("stdout", self._process.stdout)
        self._watch_output("stderr", self._process.stderr)

    def _watch_output(self, stream: Stream, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            self._open_outputs += 1
            self._selector.register(pipe, selectors.EVENT_READ, lambda: self._drain(stream, pipe))

    def _note_wake(self) -> None:
        self._selector.unregister(self._wake_reader)  # it stays readable, and has been heard

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
        except BrokenPipeError:  # the program does not want the rest, which is its own business
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
        self._heard = True
        counted = self._capture.take(stream, chunk)
        if counted and self._on_output is not None:
            self._on_output(stream, counted)


def _exit_handle(pid: int) -> int | None:
    """Return a handle that becomes readable when the process ends, where the system has such a thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
