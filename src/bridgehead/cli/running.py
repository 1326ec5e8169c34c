"""Runs one command and ends the process: errors become a sentence, a hint and an exit
code, signals clean up.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, Literal, NoReturn, TextIO

from bridgehead.errors import BridgeheadError, UserError, for_this_installation
from bridgehead.exit_codes import ExitCode

UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class Terminated(BaseException):
    """SIGTERM arrived.

    Raised in the main thread so that everything on the way out can clean up.

    Event loops lose it inside their callbacks; a command that runs one handles the
    signal there.
    """


def run_guarded(command: Callable[[], int], *, program: str, debug: bool) -> NoReturn:
    """Run `command`, end the process with its exit code, and never show a traceback
    unless asked to.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        _prepare_streams()
        code = command()
        sys.stdout.flush()
    except BridgeheadError as error:
        _show_traceback(debug)
        usual = (
            f"{program} {' '.join(sys.argv[1:3])} --help"
            if isinstance(error, UserError)
            else "bridgehead doctor"
        )
        # The first as the npm tool does.
        says_all = program == "rig-bridge" or "--help" in error.message
        complain(program, error.message, error.hint or (None if says_all else usual))
        code = error.exit_code
    except KeyboardInterrupt:
        complain(program, "interrupted")
        code = ExitCode.INTERRUPTED
    except Terminated:
        complain(program, "terminated")
        code = ExitCode.TERMINATED
    except BrokenPipeError:  # `bridgehead events | head`: the reader has enough
        _let_go(sys.stdout)
        code = ExitCode.DONE
    except Exception as error:
        # The last line of defence: whatever was not foreseen still ends in one
        # sentence.
        _show_traceback(debug)
        ending = _ending(error)
        complain(program, ending.message, ending.hint)
        _let_go(sys.stdout)
        code = ending.exit_code
    # Nothing is left to clean up: a signal from here on must not raise in the middle of
    # Python's own ending.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # everything goes now: Python need not look through it for garbage, which costs 13
    # ms
    gc.freeze()
    sys.exit(code)


def complain(program: str, message: str, hint: str | None = None) -> None:
    """One sentence on stderr, and what can be done about it.

    Foreign text must not drive the terminal.

    Rig commands are named as they were typed.
    """
    from bridgehead.host.terminal import escape_controls

    lines = f"{program}: {message}\n" + (
        f"  hint: {for_this_installation(hint)}\n" if hint else ""
    )
    if program != "rig-bridge":
        lines = lines.replace("rig-bridge ", f"{program} rig ")
    try:
        sys.stderr.write(escape_controls(lines))
        sys.stderr.flush()
    except OSError:
        _let_go(sys.stderr)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


def _prepare_streams() -> None:
    """Open what the caller has closed (`>&-`), and write UTF-8 in every locale, as JSON
    must be.
    """
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Bytes of a file name that are no text become the escapes that JSON has for
        # them.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")


def _ending(error: Exception) -> BridgeheadError:
    """Return the sentence for an error nobody foresaw.

    The process itself may have lost what it stands on.
    """
    if isinstance(error, OSError):
        ending = _file_ending(error)
        if ending is not None:
            return ending
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package not in ("", "bridgehead"):
            return _missing_package(package)
    # What pathlib says to a strange `~`.
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return UserError(
            "the home directory is unknown", hint="set HOME, or write paths without ~"
        )
    return BridgeheadError(
        f"internal error: {type(error).__name__}: {error}",
        hint="repeat with --debug and report it",
    )


def _file_ending(error: OSError) -> BridgeheadError | None:
    """Return the sentence for an error of the operating system, None if it has none."""
    if error.errno in UNWRITABLE and error.filename is None:
        return BridgeheadError(
            f"writing failed: {error.strerror}",
            hint="free some space, or redirect the output",
        )
    if isinstance(error, FileNotFoundError) and not _has_directory():
        return UserError(
            "the current directory no longer exists",
            hint="change to an existing directory",
        )
    if error.filename is not None and error.strerror:
        return BridgeheadError(
            f"{error.filename}: {error.strerror}",
            hint="repeat with --debug to see where it was used",
        )
    return None


def _missing_package(package: str) -> UserError:
    from bridgehead.host.extras import extra_with

    return UserError(
        f"this command needs the package {package}, which is not installed",
        hint=f"pip install 'bridgehead[{extra_with(package)}]'",
    )


def _has_directory() -> bool:
    from pathlib import Path

    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _let_go(stream: TextIO) -> None:
    """Python must not complain, nor change the exit code, while closing a stream that
    cannot be written.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _show_traceback(debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
