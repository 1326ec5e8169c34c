"""`rig-bridge` and `bridgehead rig`: one command tree with the wording, streams and
exit codes of rigs §7 and §13.

Nothing is imported that a command does not need: start-up is what most of these
commands consist of.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bridgehead import __version__
from bridgehead.cli.rigs.arguments import ArgumentRefused, parse_arguments
from bridgehead.cli.rigs.commands import COMMANDS, explain, overview
from bridgehead.cli.running import Terminated, complain
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode

if TYPE_CHECKING:
    from bridgehead.rigs.rig import Rig

_FALSY = frozenset({"", "0", "false", "no", "off"})


def run_rig(arguments: Sequence[str], *, program: str, quiet: bool = False) -> int:
    """Run one rig command.

    `program` is the name stderr lines begin with; `quiet` leaves out its notes.
    """
    shown_as = program if program == "rig-bridge" else f"{program} rig"
    name, *rest = arguments or ["--help"]
    if os.environ.get("DEBUG_RIG_BRIDGE", "").strip().lower() not in _FALSY:
        runtime = ".".join(map(str, sys.version_info[:3]))
        command = name if arguments else "(no command)"
        sys.stderr.write(
            f"{program}: v{__version__} {command} (Python {runtime}, platform "
            f"{sys.platform})\n"
        )
    if name in ("--version", "-v"):
        sys.stdout.write(f"{__version__}\n")
        return ExitCode.DONE
    if name in ("--help", "-h"):
        sys.stdout.write(overview(shown_as))
        return ExitCode.DONE
    if name not in COMMANDS:
        raise ArgumentRefused(f'unknown command "{name}". Run {shown_as} --help')
    return _run_command(name, rest, program, shown_as, quiet)


def _run_command(
    name: str, tokens: Sequence[str], program: str, shown_as: str, quiet: bool
) -> int:
    parsed = parse_arguments(tokens, COMMANDS[name].flags)
    if parsed.has("--help"):
        sys.stdout.write(explain(shown_as, name))
        return ExitCode.DONE
    from bridgehead.assembly.council.reviews import CouncilReviews
    from bridgehead.assembly.rigs.rig import make_rig_here
    from bridgehead.cli.rigs import handlers
    from bridgehead.cli.rigs.handlers import RigConsole
    from bridgehead.host.file_errors import SYSTEM_REFUSALS, Refusal

    def say(text: str) -> None:
        complain(program, text)

    # a command ends before looking for garbage pays; only watching goes on and on
    gc.disable()
    unanswered: list[Callable[[], None]] = []

    def make_rig() -> Rig:
        rig = make_rig_here(say, CouncilReviews)
        rig.once_answered = unanswered.append
        return rig

    try:
        console = RigConsole(
            parsed, make_rig, (lambda _note: None) if quiet else say, os.environ
        )
        code = int(getattr(handlers, name)(console) or ExitCode.DONE)
        for done in unanswered:  # all was written out by now
            done()
        if unanswered:
            # Who reads only how we ended must not see a kill that came while Python was
            # ending.
            os._exit(code)
        return code
    except SYSTEM_REFUSALS:  # rigs §13: they end with 2
        raise
    except Refusal as error:
        raise UserError(error.message, hint=error.hint) from error
    except (KeyboardInterrupt, Terminated) as stopped:
        return _interrupted(program, by_terminal=isinstance(stopped, KeyboardInterrupt))


def _interrupted(program: str, *, by_terminal: bool) -> int:
    """Say that the command was interrupted, and return its exit code.

    What was begun has been finished or undone by now. A second signal ends at once (rigs §13).
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    word = "SIGINT" if by_terminal else "SIGTERM"
    root = _root() or "<the bridge repository>"
    complain(
        program,
        f"interrupted ({word}). To check for orphaned envelopes: cd {root}; git status",
    )
    return ExitCode.INTERRUPTED if by_terminal else ExitCode.TERMINATED


def _root() -> str | None:
    from bridgehead.errors import BridgeheadError
    from bridgehead.rigs.repositories.git.repository import GitRepository

    try:
        return GitRepository().root
    except BridgeheadError:
        return None
