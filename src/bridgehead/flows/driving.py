"""The loop around any program that pauses with exit 42 (flows §5): run, have the request answered, run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridgehead.exit_codes import ExitCode

DEFAULT_MAX_ITERATIONS: Final = 50


def drive_loop(
    run: Callable[[bool], int],
    dispatch: Callable[[], object],
    *,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
) -> int:
    """Call `run(resume)` until it ends otherwise than paused, `dispatch()` after each pause; the last exit code.

    After the last permitted run nothing is dispatched any more: its request stays where it is, to be resumed.
    """
    for iteration in range(max_iterations):
        code = run(iteration > 0)
        if code != ExitCode.WAITING:
            return code
        if iteration + 1 < max_iterations:
            dispatch()
    return ExitCode.USER
