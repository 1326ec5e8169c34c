"""Sends a signal at every step of an action in turn, so that no moment is left to chance."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

TASKS = Path("/proc/self/task")


def _line_of_birth() -> int:
    """Where `subprocess.Popen` notes that its process exists; no line before it runs afterwards."""
    lines, first = inspect.getsourcelines(subprocess.Popen._execute_child)
    return first + next(
        number for number, line in enumerate(lines) if "_child_created = True" in line
    )


LINE_OF_BIRTH = _line_of_birth()


class Stopped(BaseException):
    """What the handler raises, as Ctrl-C and our SIGTERM do."""


def stopped_at_every_step(action: Callable[[], object], *files: str) -> Iterator[int]:
    """Run `action` again and again, with SIGTERM at its first line, its second and so on, until none is left.

    Counted are the lines of `files`, and those of `subprocess.Popen` that run when the process exists already. Each
    time it has to end with the handler's exception, and without a child.
    """
    step, others = 0, children()
    while True:
        with _raising_handler() as handler, _signal_at(step, files) as sent:
            try:
                action()
            except Stopped:
                assert sent, "stopped without a signal"
            else:
                assert not sent, f"the signal at {sent} was lost"
        assert signal.getsignal(signal.SIGTERM) is not handler
        assert children() <= others, f"a child outlives the exception at {sent}"
        if not sent:
            return
        yield step
        step += 1


def children() -> set[int]:
    """The children of this process, also those that have ended and were not reaped; fixtures may have some."""
    lists = (
        [Path(thread.path, "children") for thread in os.scandir(TASKS)]
        if TASKS.is_dir()
        else []
    )
    if (
        not all(one.exists() for one in lists) or not lists
    ):  # another system, or a kernel without these lists
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for one in lists for pid in one.read_text().split()}


@contextmanager
def _raising_handler() -> Iterator[Callable[..., None]]:
    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _signal_at(step: int, files: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield a list; it holds the place at which the signal was sent as soon as it was."""
    sent: list[str] = []
    left = step

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        starting = code is subprocess.Popen._execute_child.__code__
        if code.co_filename not in files and not starting:
            return None
        if starting and (
            frame.f_lineno <= LINE_OF_BIRTH or not frame.f_locals["self"]._child_created
        ):
            return trace
        if event in ("call", "line") and not sent:
            if left == 0:
                sent.append(f"{code.co_qualname}:{frame.f_lineno}")
                signal.raise_signal(signal.SIGTERM)
            left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield sent
    finally:
        sys.settrace(before)
