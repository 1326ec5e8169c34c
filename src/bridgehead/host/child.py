"""Child processes that have an owner at every moment, whatever signal arrives.

A handler that raises (Ctrl-C, our SIGTERM) may run inside `subprocess.Popen()`, where
the process exists already and nobody has been given it. So whoever starts one holds
such signals until the process is in a variable, inside the `try` that sees to its end:

    process = None
    try:
        with SignalsHeld():
            process = subprocess.Popen(...)
        ...
    except BaseException:
        if process is not None:
            end_child(process)
        raise
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

GRACE_SECONDS = 2.0

_HELD = (signal.SIGINT, signal.SIGTERM)

_Handler = Callable[[int, FrameType | None], Any]


class SignalsHeld:
    """A block that SIGINT and SIGTERM do not interrupt.

    What arrived meanwhile is handled at its end.

    With `only_the_first`, somebody who insists is heard at once.
    """

    def __init__(self, *, only_the_first: bool = False) -> None:
        self._only_the_first = only_the_first
        self._holding = False
        self._handlers: dict[int, _Handler] = {}
        self._arrived: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # handlers run in the main thread only
        self._holding = True
        try:
            for number in _HELD:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
        for number, frame in self._arrived:
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._holding and not (self._only_the_first and self._arrived):
            self._arrived.append((number, frame))
        else:  # also where an interrupted `_release` has left this handler in place
            self._handlers[number](number, frame)

    def _release(self) -> None:
        self._holding = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def end_child(
    process: subprocess.Popen[Any], *, grace_seconds: float = GRACE_SECONDS
) -> None:
    """End the child, kill it if it takes longer than `grace_seconds`, reap it and close
    its pipes; once is enough.
    """
    with SignalsHeld(), process:
        if process.poll() is not None:
            return
        if grace_seconds:
            process.terminate()
            try:
                process.wait(grace_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        else:
            process.kill()


def run_child(
    command: Sequence[str],
    *,
    stdin_bytes: bytes | None = None,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does without its `check`.

    An exception leaves when the child is ended and reaped.
    """
    if stdin_bytes is not None:
        options["stdin"] = subprocess.PIPE
    process: subprocess.Popen[bytes] | None = None
    try:
        with SignalsHeld():
            process = subprocess.Popen(command, **options)
        out, says = process.communicate(stdin_bytes, timeout)
        return subprocess.CompletedProcess(command, process.returncode, out, says)
    finally:
        if process is not None:
            end_child(process, grace_seconds=0.0)
