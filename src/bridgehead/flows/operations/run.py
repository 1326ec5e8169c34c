"""Start a flow by name, or go on with the one that is paused in a root."""

from __future__ import annotations

from pathlib import Path

from bridgehead.flows.command_line import CommandLine
from bridgehead.flows.definition import Flow
from bridgehead.flows.engine import run_flow
from bridgehead.flows.errors import NoCheckpoint
from bridgehead.flows.options import defaults_of, read_options
from bridgehead.flows.requests import RunRequest, RunResult
from bridgehead.flows.root import FlowRoot
from bridgehead.flows.surroundings import Surroundings
from bridgehead.flows.words import STATE_FILE


def run_named(
    source: str,
    line: CommandLine,
    directory: Path,
    surroundings: Surroundings | None = None,
    *,
    output_directories: tuple[Path, ...] = (),
) -> RunResult:
    """Run the flow a user named; its own options are among the words of the command line."""
    from bridgehead.flows.discovery import find_flow

    flow, found_as = find_flow(source, directory)
    return run_with_options(flow, found_as, line, surroundings, output_directories=output_directories)


def run_with_options(
    flow: Flow,
    source: str,
    line: CommandLine,
    surroundings: Surroundings | None = None,
    *,
    output_directories: tuple[Path, ...] = (),
) -> RunResult:
    """Run `flow` with the settings that stand on a command line."""
    if flow.read_words is not None:
        given, defaults = flow.read_words(line.words, line.root)
    else:
        given, defaults = read_options(flow, line.words), defaults_of(flow)
    request = line.request(
        source=source, given=given, defaults=defaults, output_directories=output_directories
    )
    return run_flow(flow, request, surroundings)


def resume_paused(
    request: RunRequest, directory: Path, surroundings: Surroundings | None = None
) -> RunResult:
    """Go on with whatever is paused in a root, or with the run that has that id."""
    from bridgehead.flows.operations.inspect import find_run

    around = surroundings or Surroundings()
    root = FlowRoot.open(request.root)
    request = request._replace(resume=True)
    source = "template-create" if (root.path / STATE_FILE).exists() else None
    if root.journal.exists():
        with around.open_journal(root) as journal:
            wanted = find_run(journal.runs(), request.flow_id, root.path) if request.flow_id else None
            run = wanted or journal.unfinished() or next(iter(journal.runs()), None)
            if run is not None and (source is None or wanted is not None):
                source = run.source
                request = request._replace(flow_id=run.id)
    if not source:
        raise NoCheckpoint(root.path)
    from bridgehead.flows.discovery import find_flow

    flow, found_as = find_flow(source, directory)
    return run_flow(flow, request._replace(source=found_as), around)
