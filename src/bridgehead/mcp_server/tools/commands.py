"""The tools `command` and `flow_run`: commands of ours, run as a shell would run them,
and flows of this project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridgehead.assembly.flows.project_flows import (
    refuse_foreign_flow,
    relative_source,
)
from bridgehead.contract.doors import asks_for_person
from bridgehead.contract.record_words import PendingKind
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.operations.run import paused_in
from bridgehead.host.command import (
    Command,
    our_command,
    our_environment,
    runs_code_of_flows,
)
from bridgehead.host.process import run
from bridgehead.mcp_server.tools.call import (
    Caller,
    NeededInput,
    ToolReply,
    without_columns,
)
from bridgehead.mcp_server.tools.pending import (
    NO_ANSWER,
    form_for,
    give_persons_answer,
)
from bridgehead.mcp_server.tools.schemas import (
    ACTIONS,
    CommandArguments,
    CommandResult,
    FlowRunArguments,
)

RUNNING: Final = ("flow run", "flow resume", "flow retry")


def run_command(caller: Caller, wanted: CommandArguments) -> ToolReply:
    """Return what the command printed, fenced: it quotes flows, findings and files."""
    if wanted.action in RUNNING:
        action = wanted.action.removeprefix("flow ")
        raise UserError(
            f"{wanted.action} runs a program; the tool `command` does not",
            hint=f'use the tool `flow_run` with {{"action": "{action}"}}',
        )
    if wanted.action not in ACTIONS:
        raise UserError(f"unknown action; known: {', '.join(ACTIONS)}")
    return _ran(caller, wanted.action, command_words(wanted))


def run_flow(caller: Caller, wanted: FlowRunArguments) -> ToolReply:
    """Return what a flow of this project printed, fenced.

    Nothing else of this machine is started.
    """
    if wanted.action == "run":
        if wanted.flow is None:
            raise UserError("run needs the name of a flow", hint="give it as `flow`")
        refuse_foreign_flow(caller.assembly, wanted.flow)
        return _ran(
            caller, "flow run", ["flow", "run", "--", wanted.flow, *wanted.options]
        )
    _refuse_foreign_run(caller, caller.assembly.cwd, wanted.run_id)
    step = [f"--from={wanted.step}"] if wanted.step and wanted.action == "retry" else []
    which = ["--", wanted.run_id] if wanted.run_id else []
    return _ran(caller, f"flow {wanted.action}", ["flow", wanted.action, *step, *which])


def _refuse_foreign_run(caller: Caller, root: Path, run_id: str | None) -> None:
    """Raise unless the run that would go on is of a flow of this project."""
    source, _ = paused_in(FlowRoot.open(root), run_id, RunInputs())
    refuse_foreign_flow(caller.assembly, relative_source(caller.assembly, source))


def answered_by_person(
    caller: Caller, item_id: str, content: Mapping[str, Any]
) -> ToolReply:
    """Continue a flow that waited for a person, at once."""
    item = give_persons_answer(caller, item_id, content)
    if item is None:
        said = NO_ANSWER.format(item_id)
        return ToolReply(CommandResult(exit_code=ExitCode.WAITING, output=said), said)
    root = Path(str(item.question.context.get("root", "")))
    run_id = item.question.run_id
    if not root.is_relative_to(caller.assembly.places.project):
        said = (
            f"{item_id} is answered; its flow belongs to another project and was not "
            "resumed."
        )
        return ToolReply(CommandResult(exit_code=ExitCode.WAITING, output=said), said)
    _refuse_foreign_run(caller, root, run_id)
    which = [run_id] if run_id else []
    return _ran(caller, "flow resume", ["flow", "resume", *which, "--dir", str(root)])


def _ran(caller: Caller, action: str, words: Sequence[str]) -> ToolReply:
    foreign = caller.foreign
    command = Command(
        our_command(*words),
        env=our_environment(
            caller.assembly.environ, search_path=runs_code_of_flows(words)
        ),
        cwd=caller.assembly.cwd,
    )
    done = run(
        command,
        timeout_seconds=None,
        idle_seconds=None,
        cancel=caller.cancel,
        keep_family=True,
    )
    said = (
        "\n".join(filter(None, [done.text().strip(), done.error_text().strip()]))
        or "(it printed nothing)"
    )
    output = foreign.block(
        without_columns(said) if "council" in action else said,
        origin=f"bridgehead {action}",
    )
    result = CommandResult(note=foreign.note, exit_code=done.exit_code, output=output)
    form = (
        _form_of_pause(caller, done.text())
        if done.exit_code == ExitCode.WAITING
        else None
    )
    waits = (
        ": it waits for an answer, see the tool `pending`"
        if done.exit_code == ExitCode.WAITING
        else ""
    )
    return ToolReply(
        result, f"exit code {done.exit_code}{waits}\n\n{foreign.note}\n\n{output}", form
    )


def _form_of_pause(caller: Caller, pause_line: str) -> NeededInput | None:
    """Return the form for what a flow waits for, where that is a question to a person."""
    with caller.assembly.store(read_only=True) as store:
        waiting = store.pending(
            PendingFilter(kinds=(PendingKind.FLOW_REQUEST,)), limit=1_000
        )
    asked = (item for item in waiting if item.question.key in pause_line)
    return next(
        (form_for(caller, item) for item in asked if asks_for_person(item.question)),
        None,
    )


def command_words(wanted: CommandArguments) -> list[str]:
    """Return the words behind `bridgehead`.

    What the caller names stands behind `--`, so that it is read as no option.
    """
    if wanted.action in ("council challenge", "council dismiss") and not (
        wanted.target and wanted.reason
    ):
        raise UserError(
            f"{wanted.action} needs a finding as `target` and a `reason`; nothing was "
            "done"
        )
    reason = [f"--reason={wanted.reason}"] if wanted.action == "council dismiss" else []
    # Of the newest council.
    question = [str(wanted.reason)] if wanted.action == "council challenge" else []
    return [
        *wanted.action.split(),
        *reason,
        *(["--", wanted.target, *question] if wanted.target else []),
    ]
