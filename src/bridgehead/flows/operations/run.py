"""Start a flow by name, or go on with the one that is paused in a root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridgehead.flows.command_line import CommandLine
from bridgehead.flows.definition import Flow
from bridgehead.flows.engine import run_flow
from bridgehead.flows.errors import NoCheckpoint
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.options import defaults_of, read_options
from bridgehead.flows.requests import RunResult
from bridgehead.flows.root import FlowRoot
from bridgehead.flows.surroundings import Surroundings
from bridgehead.flows.words import STATE_FILE


def run_with_options(
    flow: Flow,
    source: str,
    line: CommandLine,
    surroundings: Surroundings | None = None,
) -> RunResult:
    """Run `flow`, found as `source`, with the settings that stand on a command line."""
    around = surroundings or Surroundings()
    line = _at_named_root(line, flow)
    given, defaults = _settings_in(line, flow)
    places = _output_directories(line, flow, around)
    if places:
        defaults["output_path"] = str(places[0] / Path(defaults["output_path"]).name)
    request = line.request(source=source, given=given, defaults=defaults, output_directories=places)
    return run_flow(flow, request, around)


def resume_paused(
    line: CommandLine,
    directory: Path,
    surroundings: Surroundings | None = None,
    *,
    flow_id: str | None = None,
) -> RunResult:
    """Go on with whatever is paused in a root, or with the run that has that id."""
    around = surroundings or Surroundings()
    source, paused_id = _paused_in(FlowRoot.open(line.root), flow_id, around)
    from bridgehead.flows.discovery import find_flow

    flow, found_as = find_flow(source, directory)
    given, _ = _settings_in(line, flow)
    places = _output_directories(line, flow, around)
    request = line.request(source=found_as, given=given, flow_id=paused_id, output_directories=places)
    return run_flow(flow, request._replace(resume=True), around)


def _paused_in(root: FlowRoot, flow_id: str | None, around: Surroundings) -> tuple[str, str | None]:
    """How the flow that is to go on is found again, and the id of the run that is meant.

    A state file says that it is template-create's, with or without a journal.
    """
    by_state_file = not flow_id and (root.path / STATE_FILE).exists()
    if by_state_file:
        return "template-create", None
    if not root.journal.exists():
        raise NoCheckpoint(root.path)
    with around.open_journal(root) as journal:
        run = journal.unfinished() if flow_id is None else _found(journal, flow_id, root)
        run = run or next(iter(journal.runs()), None)
    if run is None or not run.source:
        raise NoCheckpoint(root.path)
    return run.source, run.id


def _found(journal: Journal, flow_id: str, root: FlowRoot) -> Run:
    from bridgehead.flows.operations.inspect import find_run

    return find_run(journal.runs(), flow_id, root.path)


def _output_directories(line: CommandLine, flow: Flow, around: Surroundings) -> tuple[Path, ...]:
    """Only a flow whose state file names its output needs to know (flows §10)."""
    return around.output_directories(line.root) if flow.keeps_state_file else ()


def _at_named_root(line: CommandLine, flow: Flow) -> CommandLine:
    """The same line, in the root that an option of the flow's own names where --dir does not (flows §1)."""
    named = None if flow.root_in is None or "root" in line.flags else flow.root_in(line.words)
    return line if named is None else line._replace(flags={**line.flags, "root": named})


def _settings_in(line: CommandLine, flow: Flow) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flow's settings in the words of a command line, and the defaults of a new run."""
    if flow.read_words is not None:
        return flow.read_words(line.words, line.root)
    return read_options(flow, line.words), defaults_of(flow)
