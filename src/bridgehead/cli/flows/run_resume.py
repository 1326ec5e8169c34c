"""`flow run` and `flow resume`, read without click: a pause must not cost more than the
work it interrupts (design §8).

cli/flows/flows.py declares the same two commands for help, completion and the
reference, and runs them through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridgehead.cli.output import PROGRAM, App
from bridgehead.errors import BridgeheadError, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.operations.run import (
    CommandLine,
    resume_paused,
    run_with_options,
    split_words,
)
from bridgehead.flows.script import notices_of, output_of, waiting_for

if TYPE_CHECKING:
    from bridgehead.flows.engine.run_request import RunResult
    from bridgehead.flows.operations.retry import RetryRequest

SHARED_FLAGS: Final = ("--json", "--debug")


def run_quickly(verb: str, words: Sequence[str]) -> int:
    """Run what was typed after `flow run` or `flow resume`."""
    # What stands before `--`, that itself, and what stands after it and is none of our
    # business.
    typed = list(words)
    place = typed.index("--") if "--" in typed else len(typed)
    ours = typed[:place]
    separator = typed[place : place + 1]
    theirs = typed[place + 1 :]
    app = App(as_json="--json" in ours)
    line = split_words(
        [*(word for word in ours if word not in SHARED_FLAGS), *separator, *theirs]
    )
    line = line._replace(flags={"here": app.cwd, **line.flags})
    name, rest = _named(line.words)
    if verb == "resume":
        return resume(app, name, line._replace(words=rest))
    if name is None:
        raise UserError(
            "flow run needs the NAME of a flow", hint="bridgehead flow run --help"
        )
    if "--help" in ours or "-h" in ours:
        return explain(app, name)
    return run(app, name, line._replace(words=rest))


def run(app: App, name: str, line: CommandLine) -> int:
    """Start the flow `name`, or go on with it."""
    from bridgehead.flows.discovery import find_flow

    with run_inputs(app, line.root) as inputs, _flow_codes():
        flow, source = find_flow(name, app.cwd)
        return _show_result(app, run_with_options(flow, source, line, inputs))


def explain(app: App, name: str) -> int:
    """Return what the flow `name` is for, and its options."""
    from bridgehead.flows.discovery import find_flow
    from bridgehead.flows.script import usage_of

    app.stdout.write(usage_of(find_flow(name, app.cwd)[0]))
    return ExitCode.DONE


def resume(app: App, flow_id: str | None, line: CommandLine) -> int:
    """Resume the flow paused in this directory."""
    if line.flags.get("fresh"):
        raise UserError("--fresh works with `bridgehead flow run NAME` only")
    with run_inputs(app, line.root) as inputs, _flow_codes():
        return _show_result(app, resume_paused(line, app.cwd, inputs, flow_id=flow_id))


def go_on(
    app: App,
    way: Callable[[RetryRequest, RunInputs], RunResult],
    flow_id: str,
    from_step: str | None,
    line: CommandLine,
) -> int:
    """`flow retry` and `flow fork`."""
    from bridgehead.flows.operations.retry import RetryRequest

    with run_inputs(app, line.root) as inputs, _flow_codes():
        return _show_result(
            app, way(RetryRequest(line, app.cwd, flow_id, from_step), inputs)
        )


@contextmanager
def run_inputs(app: App, root: Path) -> Iterator[RunInputs]:
    """What flows are given by this surface; the record is told what happens in `root`."""
    from bridgehead.assembly.application import Assembly
    from bridgehead.assembly.flows.recording import (
        RecordingAnnouncer,
        keep_days,
        size_limits,
        template_directories,
    )

    here = Assembly(app.cwd)
    with RecordingAnnouncer(
        root, app.warn, here if root == app.cwd else None
    ) as announcer:
        yield RunInputs(
            announcer=announcer,
            on_wait=lambda pause: app.say(f"{PROGRAM}: {waiting_for(pause)}"),
            output_directories=template_directories,
            size_limits=size_limits(here.settings),
            keep_days=keep_days(here.settings),
        )


def _named(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    return None, words


@contextmanager
def _flow_codes() -> Iterator[None]:
    """Flows end in 0, 1 or 42, whoever is to blame (flows §6)."""
    try:
        yield
    except BridgeheadError as error:
        error.exit_code = ExitCode.USER
        raise


def _show_result(app: App, result: RunResult) -> int:
    """Say how a run ended.

    On a pause stdout is the pause line and nothing else, with --json too (flows §5).
    """
    for notice in notices_of(result):
        app.insist(f"{PROGRAM}: {notice}")
    if result.pause is not None:
        app.stdout.write(output_of(result))
        app.stdout.flush()
        return result.exit_code
    document = {
        "flow_id": result.flow_id,
        "name": result.name,
        "status": result.status.value,
        "actions": list(result.actions),
        "result": result.result,
        "remarks": [remark._asdict() for remark in result.remarks],
    }
    app.emit(document, lambda: output_of(result))
    return result.exit_code
