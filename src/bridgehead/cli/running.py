"""Runs one command and ends the process: errors become a sentence, a hint and an exit code, signals clean up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from bridgehead.errors import BridgeheadError
from bridgehead.exit_codes import ExitCode


class Terminated(BaseException):
    """SIGTERM arrived; raised in the main thread so that everything on the way out can clean up.

    Event loops lose it inside their callbacks; a command that runs one handles the signal there.
    """


def run_guarded(command: Callable[[], int], *, program: str, debug: bool) -> NoReturn:
    """Run `command`, end the process with its exit code, and never show a traceback unless asked to."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = command()
        sys.stdout.flush()
    except BridgeheadError as error:
        _show_traceback(debug)
        complain(program, error.message, error.hint)
        code = error.exit_code
    except KeyboardInterrupt:
        complain(program, "interrupted")
        code = ExitCode.INTERRUPTED
    except Terminated:
        complain(program, "terminated")
        code = ExitCode.TERMINATED
    except BrokenPipeError:
        code = _reader_left()
    except Exception as error:
        # The last line of defence: whatever was not foreseen still ends in one sentence.
        _show_traceback(debug)
        complain(
            program, f"internal error: {type(error).__name__}: {error}", "repeat with --debug and report it"
        )
        code = ExitCode.FAILURE
    sys.exit(code)


def complain(program: str, message: str, hint: str | None = None) -> None:
    """One sentence on stderr, and what can be done about it. Foreign text must not drive the terminal."""
    from bridgehead.host.terminal import escape_controls

    lines = f"{program}: {message}\n" + (f"  hint: {hint}\n" if hint else "")
    try:
        sys.stderr.write(escape_controls(lines))
        sys.stderr.flush()
    except BrokenPipeError:
        pass


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


def _reader_left() -> int:
    """`bridgehead events | head`: the reader has enough. Python must not complain while closing stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.DONE


def _show_traceback(debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
