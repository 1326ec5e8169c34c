"""The commands `bridgehead` (also `bh`) and `rig-bridge`.

Only here do errors become exit codes.

`--version` needs no library at all. Rig commands parse their own arguments, as the
tool they stand in for does (rigs §7); so do `flow run` and `flow resume`, by the same
table as scripts that are flows themselves. Everything else is click's.
"""

from __future__ import annotations

import gc
import os
import sys

from bridgehead import __version__

# as type checkers read it; importing `typing` would double the time of --version
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

PROGRAM = "bridgehead"
# Importing only allocates; with the default of 700 the collector looks for garbage
# dozens of times meanwhile.
ALLOCATIONS_PER_COLLECTION = 100_000


def main() -> NoReturn:
    """Entry point of `bridgehead` and `bh`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        _show_version(PROGRAM)
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
    from bridgehead.cli.running import run_guarded

    run_guarded(_run, program=PROGRAM, debug="--debug" in sys.argv[1:])


def rig_bridge() -> NoReturn:
    """Entry point of `rig-bridge`, the drop-in for the npm tool of that name."""
    arguments = sys.argv[1:]
    if (
        arguments[:1] in (["--version"], ["-v"])
        and "DEBUG_RIG_BRIDGE" not in os.environ
    ):
        _show_version("rig-bridge")
    from bridgehead.cli.running import run_guarded

    run_guarded(
        lambda: _run_rig(arguments, "rig-bridge"),
        program="rig-bridge",
        debug="--debug" in arguments,
    )


def _show_version(program: str) -> NoReturn:
    try:
        sys.exit(_print_version())
    except OSError:
        from bridgehead.cli.running import run_guarded

        run_guarded(_print_version, program=program, debug=False)


def _print_version() -> int:
    print(__version__, flush=True)  # noqa: T201
    return 0


def _run() -> int:
    arguments, quiet = _take_manner(sys.argv[1:])
    if arguments[:1] == ["rig"] and "_BRIDGEHEAD_COMPLETE" not in os.environ:
        return _run_rig(arguments[1:], PROGRAM, quiet=quiet)
    if _is_quick_flow(arguments):
        from bridgehead.cli.flows.run_resume import run_quickly

        return run_quickly(arguments[1], arguments[2:])
    from bridgehead.cli.tree import run_click

    return run_click(arguments)


def _take_manner(arguments: list[str]) -> tuple[list[str], bool]:
    """Heed --quiet, --verbose and --no-color, which every command takes.

    Return the other arguments, and whether to be quiet. The options may stand anywhere
    before `--`; what follows it is not for us.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = {"--quiet", "--verbose", "--no-color"}.intersection(arguments[:end])
    quiet = "--quiet" in options
    verbose = "--verbose" in options
    if "--no-color" in options:
        os.environ["NO_COLOR"] = "1"
    if quiet or verbose:
        from bridgehead.cli.output import App
        from bridgehead.errors import UserError

        App.quiet = quiet
        App.verbose = verbose
        if quiet and verbose:
            raise UserError(
                "--quiet and --verbose exclude each other", hint="use one of them"
            )
    if verbose:
        from bridgehead.cli.verbose import show_what_happens

        show_what_happens(PROGRAM)
    others = [word for word in arguments[:end] if word not in options]
    return others + arguments[end:], quiet


def _run_rig(arguments: Sequence[str], program: str, *, quiet: bool = False) -> int:
    from bridgehead.cli.rigs.run import run_rig

    return run_rig(arguments, program=program, quiet=quiet)


def _is_quick_flow(arguments: Sequence[str]) -> bool:
    """Return whether this is about one flow to be run.

    The command's own help and completion are click's business.
    """
    runs = arguments[:1] == ["flow"] and arguments[1:2] in (["run"], ["resume"])
    names_one = arguments[1:2] == ["run"] and not "".join(arguments[2:3]).startswith(
        "-"
    )
    asks_for_help = ("--help" in arguments or "-h" in arguments) and not (
        names_one and len(arguments) > 3
    )
    return runs and not asks_for_help and "_BRIDGEHEAD_COMPLETE" not in os.environ
