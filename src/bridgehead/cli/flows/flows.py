"""`bridgehead flow`: run programs that pause for an agent, answer their requests, list
them, drive them to their end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bridgehead.cli.click_classes import Group
from bridgehead.cli.flows import fleet, reports, run_resume
from bridgehead.cli.output import App, read_text
from bridgehead.errors import UserError, plural
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.calls import Reply
from bridgehead.flows.handlers import make_handler
from bridgehead.flows.operations.cancel import cancel as cancel_run
from bridgehead.flows.operations.cancel import prune as prune_runs
from bridgehead.flows.operations.inspect import ListRequest, list_runs
from bridgehead.flows.operations.inspect import check as check_runs
from bridgehead.flows.operations.inspect import status as status_of
from bridgehead.flows.operations.respond import RespondRequest
from bridgehead.flows.operations.respond import respond as respond_to
from bridgehead.flows.operations.run import FLAGS, CommandLine
from bridgehead.flows.words import RESPONSE_FILE, ErrorType, RequestStatus
from bridgehead.host.clock import SystemClock
from bridgehead.host.terminal import escape_controls

directory_option = click.option(
    "--dir",
    "root",
    type=click.Path(path_type=Path),
    default=None,
    help="Flow directory; default: here.",
)

roots_option = click.option(
    "--dir",
    "roots",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help=(
        "Check only this directory; repeatable. Default: every directory with a "
        "recorded paused run."
    ),
)


@click.group(cls=Group)
def flow() -> None:
    """Run programs that pause for an agent and resume with its answer.

    A paused flow exits 42, prints one BRIDGEHEAD-PAUSE line and leaves its question in
    .agent-request.json.
    """


def common_flags(
    *, leave_out: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the flags every flow understands, from the one table that scripts use too."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for flag in reversed(FLAGS):
            if flag.name not in leave_out:
                kind: Any = click.Choice(flag.choices) if flag.choices else flag.read
                function = click.option(
                    flag.name,
                    flag.sets,
                    is_flag=flag.read is None,
                    type=None if flag.read is None else kind,
                    default=None,
                    help=flag.summary,
                )(function)
        return function

    return decorate


@flow.command(
    context_settings={"ignore_unknown_options": True},
    examples=(
        "bridgehead flow run release.py:release --tag v1.4",
        "bridgehead flow run release.py --resume",
        "bridgehead flow run release.py --tag v1.4 --id release-v1.4",
        'bridgehead flow run ask --agent reviewer --prompt "Is this safe?" --wait 60',
    ),
)
@click.argument("name", type=click.Path(readable=False))
@common_flags()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLOW OPTIONS]...")
@click.pass_obj
def run(app: App, /, name: str, words: tuple[str, ...], **flags: Any) -> int:
    """Start the flow NAME, or resume it if it is paused.

    NAME is a built-in flow, an entry point in the group bridgehead.flows, or
    file.py:function. Its options are the function's parameters; `flow run NAME --help`
    lists them.
    """
    return run_resume.run(app, name, _line(app, flags, words))


@flow.command(
    context_settings={"ignore_unknown_options": True},
    examples=(
        "bridgehead flow resume",
        "bridgehead flow resume --dir ../service --wait 30",
    ),
)
@click.argument("flow_id", metavar="[ID]", required=False)
@common_flags(leave_out=("--resume", "--fresh", "--id"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLOW OPTIONS]...")
@click.pass_obj
def resume(
    app: App, /, flow_id: str | None, words: tuple[str, ...], **flags: Any
) -> int:
    """Resume the flow paused in this directory."""
    return run_resume.resume(app, flow_id, _line(app, flags, words))


@flow.command(
    context_settings={"ignore_unknown_options": True},
    examples=("bridgehead flow retry 4f2a", "bridgehead flow retry 4f2a --from build"),
)
@click.argument("flow_id", metavar="ID")
@click.option(
    "--from",
    "from_step",
    metavar="STEP",
    help="Repeat this recorded step and everything after it.",
)
@fleet.database_option
@common_flags(leave_out=("--resume", "--fresh", "--id"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLOW OPTIONS]...")
@click.pass_obj
def retry(
    app: App,
    /,
    flow_id: str,
    from_step: str | None,
    database: str | None,
    words: tuple[str, ...],
    **flags: Any,
) -> int:
    """Retry a failed flow. Recorded results are kept; the failed step runs again.

    A run of a fleet is put into its queue again, for a worker that has the newest code.
    """
    from bridgehead.flows.operations.retry import retry as retry_run

    with fleet.owner_of(app, flow_id, flags.get("root"), database) as owner:
        if owner is not None:
            return fleet.show(app, owner.retry(flow_id, from_step))
    return run_resume.go_on(
        app, retry_run, flow_id, from_step, _line(app, flags, words)
    )


@flow.command(
    context_settings={"ignore_unknown_options": True},
    examples=("bridgehead flow fork 4f2a --from build",),
)
@click.argument("flow_id", metavar="ID")
@click.option(
    "--from",
    "from_step",
    metavar="STEP",
    required=True,
    help="The recorded step to start from.",
)
@common_flags(leave_out=("--resume", "--fresh", "--id"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLOW OPTIONS]...")
@click.pass_obj
def fork(
    app: App, /, flow_id: str, from_step: str, words: tuple[str, ...], **flags: Any
) -> int:
    """Start a second run from STEP of an existing one, with its settings and earlier
    results.
    """
    from bridgehead.flows.operations.retry import fork as fork_run

    return run_resume.go_on(app, fork_run, flow_id, from_step, _line(app, flags, words))


flow.add_command(fleet.submit)


@flow.command(
    examples=(
        "bridgehead flow respond --status success --response-file answer.txt",
        (
            "agent < prompt.txt | bridgehead flow respond --dir ../service "
            "--response-file -"
        ),
        (
            "bridgehead flow respond --status error --error-type INVOCATION_FAILED "
            '--message "quota"'
        ),
    )
)
@directory_option
@click.option(
    "--request-id", help="The request to answer; default: the one in the request file."
)
@click.option(
    "--status",
    type=click.Choice([s.value for s in RequestStatus]),
    default=RequestStatus.SUCCESS.value,
)
@click.option(
    "--response-file",
    "path",
    help="Read the answer from this file; - is standard input.",
)
@click.option("--response", "text", help="The answer itself.")
@click.option(
    "--error-type",
    type=click.Choice([e.value for e in ErrorType]),
    help="Why it failed.",
)
@click.option("--message", help="Why it failed, in words.")
@click.option("--model", help="The model that answered.")
@click.option("--tokens", type=int, help="Tokens it used.")
@click.option("--confidence", type=click.FloatRange(0, 1), help="Its confidence.")
@click.option(
    "--duration",
    "duration_seconds",
    type=click.FloatRange(0),
    help="How long it took, in seconds.",
)
@click.pass_obj
def respond(
    app: App,
    /,
    root: Path | None,
    request_id: str | None,
    status: str,
    path: str | None,
    text: str | None,
    **details: Any,
) -> None:
    """Answer a paused flow's request. This does not resume the flow."""
    with run_resume.run_inputs(app, root or app.cwd) as inputs:
        answer = _answer_text(app, path, text, inputs.size_limits[RESPONSE_FILE])
        reply = Reply(RequestStatus(status), answer, **details)
        request = RespondRequest(root or app.cwd, reply, request_id)
        done = respond_to(request, inputs, lambda asked: _admit(app, asked, reply))
    app.emit(
        {"request_id": done.request_id, "response_file": str(done.path)},
        lambda: f"{done.path}\n",
    )


def _admit(app: App, asked: Mapping[str, Any], reply: Reply) -> None:
    """Raise for a request that asks for a person, unless a person confirms the answer
    at the terminal.
    """
    from bridgehead.assembly.pending import ClosedDoor
    from bridgehead.cli.commands.pending import evidence_of
    from bridgehead.contract.doors import Door, decide_door, request_asks_for_person

    if not request_asks_for_person(asked):
        return
    request_id = str(asked["request_id"])
    lines = [f"  {escape_controls(line)}" for line in str(asked["prompt"]).splitlines()]
    question = "\n".join([request_id, *lines, ""])
    evidence = evidence_of(app, request_id, question, reply.text or reply.message)
    decision = decide_door(Door.COMMAND, True, evidence, request_id)
    if not decision.allowed:
        raise ClosedDoor(decision)


@flow.command(
    examples=("bridgehead flow status", "bridgehead flow status 4f2a --page 1 --json")
)
@click.argument("flow_id", metavar="[ID]", required=False)
@directory_option
@click.option(
    "--page",
    type=click.IntRange(1),
    help=(
        f"Show this page of its steps, {reports.STEPS_PER_PAGE} each; default: the "
        "last."
    ),
)
@click.option("--all", "everything", is_flag=True, help="Show every step.")
@fleet.database_option
@click.pass_obj
def status(
    app: App,
    flow_id: str | None,
    root: Path | None,
    page: int | None,
    everything: bool,
    database: str | None,
) -> None:
    """Show a flow's state and what it is waiting for; ID defaults to the newest of this
    directory.
    """
    with fleet.owner_of(app, flow_id, root, database) as owner:
        found = owner.status(flow_id) if owner else status_of(root or app.cwd, flow_id)
    steps = reports.StepPage.of(found.steps, page, everything=everything)
    app.emit(
        reports.status_document(found, steps),
        lambda: reports.status_text(found, steps, SystemClock().now(), app.width),
    )


@flow.command(
    examples=(
        "bridgehead flow check release.py",
        "bridgehead flow check release.py:release --dir ../service",
    )
)
@click.argument("name", type=click.Path(readable=False))
@roots_option
@click.pass_obj
def check(app: App, name: str, roots: tuple[Path, ...]) -> int:
    """Check whether every paused run of NAME can resume with the current code. Nothing
    is run.
    """
    from bridgehead.assembly.flows.views import paused_projects
    from bridgehead.flows.discovery import find_flow

    meant, _ = find_flow(name, app.cwd)
    places = roots
    if not places:
        with app.assembly().store(read_only=True) as store:
            places = tuple({app.cwd: None, **paused_projects(store, meant.name)})
    checked = check_runs(meant, places)
    document = [
        {**reports.run_document(one.run), "goes_on": one.goes_on, "detail": one.detail}
        for one in checked
    ]
    app.emit(
        {"flow": meant.name, "version": meant.version, "runs": document},
        lambda: reports.check_text(meant.name, checked),
    )
    return ExitCode.DONE if all(one.goes_on for one in checked) else ExitCode.USER


@flow.command(
    examples=(
        "bridgehead flow prune --days 30",
        "bridgehead flow prune --days 90 --failed --dry-run",
    )
)
@directory_option
@click.option(
    "--days",
    type=float,
    help=(
        "Delete runs that ended more than this many days ago; default: flows.keep_days."
    ),
)
@click.option(
    "--failed",
    is_flag=True,
    help="Delete failed runs too; they can no longer be retried.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted.")
@fleet.database_option
@click.pass_obj
def prune(
    app: App,
    root: Path | None,
    days: float | None,
    failed: bool,
    dry_run: bool,
    database: str | None,
) -> None:
    """Delete old completed and cancelled runs of this directory, and of the fleet where
    there is one.

    Paused runs are never deleted. A deleted run's --id is free again: using it starts a
    new run.
    """
    from bridgehead.assembly.flows.recording import keep_days

    days = keep_days(app.assembly().settings) or None if days is None else days
    if days is None:
        raise UserError(
            "prune needs --days",
            hint="bridgehead flow prune --days 30, or set flows.keep_days",
        )
    gone = prune_runs(root or app.cwd, days, failed=failed, dry_run=dry_run)
    with fleet.here(app, root, database) as known:
        gone = (
            (*gone, *known.prune(days, failed=failed, dry_run=dry_run))
            if known is not None
            else gone
        )
    document = {"forgotten": [run.id for run in gone], "dry_run": dry_run}
    word = "would be deleted" if dry_run else "deleted"
    text = "".join(f"{run.id}  {run.name}  {run.status}\n" for run in gone)
    app.emit(document, lambda: f"{text}{len(gone)} {word}\n")


@flow.command(
    "list",
    examples=("bridgehead flow list", "bridgehead flow list --dir ../service --json"),
)
@directory_option
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most N.",
)
@fleet.database_option
@click.pass_obj
def list_(app: App, root: Path | None, limit: int, database: str | None) -> None:
    """List the flows of this directory, newest first, and those of the fleet where
    there is one.
    """
    listed = list_runs(ListRequest(root or app.cwd, limit))
    with fleet.here(app, root, database) as known:
        if known is not None:
            theirs = known.list(limit)
            runs = sorted(
                [*listed.runs, *theirs.runs], key=lambda run: run.created, reverse=True
            )
            listed = listed._replace(
                runs=tuple(runs[:limit]), waits_for=theirs.waits_for
            )
    document = {
        "flows": [reports.listed_run(run, listed.unfinished) for run in listed.runs]
    }
    app.emit(
        document, lambda: reports.list_text(listed, SystemClock().now(), app.width)
    )


@flow.command(
    examples=(
        "bridgehead flow cancel flow-20251118-103000-4f2a",
        "bridgehead flow cancel 4f2a",
    )
)
@click.argument("flow_id", metavar="ID")
@directory_option
@fleet.database_option
@click.pass_obj
def cancel(app: App, flow_id: str, root: Path | None, database: str | None) -> None:
    """Cancel a paused flow; its files are moved to post-mortem/. A run of a fleet may
    be queued or running, too.
    """
    with fleet.owner_of(app, flow_id, root, database) as owner:
        if owner is not None:
            fleet.show(app, owner.cancel(flow_id))
            return
    with run_resume.run_inputs(app, root or app.cwd) as inputs:
        done = cancel_run(root or app.cwd, flow_id, inputs)
    document = {
        "flow_id": done.run.id,
        "status": "cancelled",
        "post_mortem": str(done.post_mortem),
    }
    app.emit(
        document,
        lambda: f"{done.run.id} cancelled; its files are in {done.post_mortem}\n",
    )


@flow.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    examples=(
        (
            "bridgehead flow drive --handler 'cmd:claude -p' -- python release.py "
            "--tag "
            "v1.4"
        ),
        "bridgehead flow drive --handler pending -- ./release.sh",
    ),
)
@directory_option
@click.option(
    "--handler", help="Who answers: cmd:COMMAND, pending, runtime:NAME or rig:ID."
)
@click.option(
    "--max-iterations",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum runs of CMD.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Concurrent requests of one run (`gather`, `map`).",
)
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CMD..."
)
@click.pass_obj
def drive(
    app: App,
    root: Path | None,
    handler: str | None,
    max_iterations: int,
    concurrency: int,
    command: tuple[str, ...],
) -> int:
    """Run CMD; each time it exits 42, get its request answered and run it again with
    --resume.

    The handler is --handler, else the setting flows.handler, else `pending`, which
    waits for `bridgehead answer`.
    """
    from bridgehead.assembly.flows.handlers import handler_makers
    from bridgehead.flows.operations.drive import DriveRequest
    from bridgehead.flows.operations.drive import drive as drive_command

    name = handler or app.assembly().settings.text("flows.handler") or "pending"
    answers = make_handler(name, handler_makers(app.assembly(warns=False), app.say))
    request = DriveRequest(command, root or app.cwd, max_iterations, concurrency)
    with run_resume.run_inputs(app, root or app.cwd) as inputs:
        done = drive_command(request, answers, inputs, on_stderr=_pass_on)
    if done.gave_up:
        raise UserError(
            f"{command[0]} is still waiting after {plural(done.runs, 'run')}; no "
            "further request was answered",
            hint=(
                "its files are unchanged: answer and resume it, or raise "
                "--max-iterations"
            ),
        )
    app.stdout.flush()
    _show_bytes(done.stdout)
    return done.exit_code


@flow.command(
    examples=("bridgehead flow watch", "bridgehead flow watch --dir ../service --once")
)
@roots_option
@click.option(
    "--once", is_flag=True, help="Check once, wait for resumed flows, then exit."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Concurrent resumes.",
)
@click.pass_obj
def watch(app: App, roots: tuple[Path, ...], once: bool, concurrency: int) -> None:
    """Resume paused flows as their answers arrive, each in its own process, until
    Ctrl-C.

    A flow that makes no progress is retried after 30 seconds, then at growing
    intervals. Ctrl-C stops resumed flows; `flow resume` continues them.
    `bridgehead web` does the same unless --no-auto is given.
    """
    from bridgehead.assembly.flows.handlers import WATCH_SECONDS, watching

    assembly = app.assembly()
    given = tuple(app.cwd / root for root in roots)
    with watching(
        assembly, app.say, _show_bytes, roots=given, concurrency=concurrency
    ) as watched:
        if once:
            while watched.look():
                watched.wait()
            return
        app.say("watching for answers; press Ctrl-C to stop")
        while True:
            watched.look()
            time.sleep(WATCH_SECONDS)


def _show_bytes(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _line(app: App, flags: dict[str, Any], words: tuple[str, ...]) -> CommandLine:
    given = {name: value for name, value in flags.items() if value is not None}
    return CommandLine({"here": app.cwd, **given}, words)


def _answer_text(
    app: App, path: str | None, text: str | None, limit: int
) -> str | None:
    if path is not None and text is not None:
        raise UserError("--response-file and --response cannot be combined")
    if path is None:
        return text
    return read_text(
        path if path == "-" else app.cwd / path, limit, hint="raise flows.response_mib"
    )


def _pass_on(chunk: bytes) -> None:
    sys.stderr.buffer.write(chunk)
    sys.stderr.buffer.flush()
