"""Flows on a fleet: `bridgehead worker`, `flow submit`, and which of the other commands
mean a run of a fleet.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridgehead.cli.click_classes import Command
from bridgehead.cli.flows.reports import run_document
from bridgehead.cli.output import App
from bridgehead.errors import NotFound, StoreError, UserError
from bridgehead.exit_codes import ExitCode

if TYPE_CHECKING:
    from bridgehead.assembly.flows.fleet import Fleet
    from bridgehead.flows.journals.base import Run

database_option = click.option(
    "--database",
    metavar="URL",
    help="The fleet's Postgres database; default: store.url, where that is one.",
)


@click.command(
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(
        "bridgehead flow submit release.py --tag v1.4",
        "bridgehead flow submit release.py --tag v1.4 --id release-v1.4 --priority 1",
        "bridgehead flow submit nightly.py --at 2026-12-01T06:00:00Z --queue slow",
    ),
)
@click.argument("name", type=click.Path(readable=False))
@database_option
@click.option(
    "--queue",
    default="default",
    show_default=True,
    help="The queue to put the run into.",
)
@click.option(
    "--id",
    "key",
    metavar="KEY",
    help="Submit once under this key; the same key again joins that run.",
)
@click.option(
    "--priority",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="1 is the highest.",
)
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="Not before this time, in ISO 8601; without an offset, UTC.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLOW OPTIONS]...")
@click.pass_obj
def submit(
    app: App,
    /,
    name: str,
    database: str | None,
    queue: str,
    key: str | None,
    priority: int,
    moment: str | None,
    words: tuple[str, ...],
) -> int:
    """Submit the flow NAME to the workers of a fleet.

    NAME is as for `flow run`. The flow's options are checked here; workers find it by
    its name in their own folder.
    """
    from bridgehead.assembly.flows.fleet import open_fleet
    from bridgehead.flows.definition import defaults_of, read_options, refuse_incomplete
    from bridgehead.flows.discovery import find_flow

    flow, _ = find_flow(name, app.cwd)
    if flow.keeps_state_file or flow.read_words is not None:
        raise UserError(
            f"flow {flow.name} needs project files and was not submitted",
            hint=f"bridgehead flow run {name}",
        )
    settings = {**defaults_of(flow), **read_options(flow, words)}
    refuse_incomplete(flow, settings)
    at = None if moment is None else _moment(moment)
    with open_fleet(database or app.assembly().record_url) as fleet:
        run = fleet.submit(
            flow.name,
            settings,
            queue=queue,
            key=key or flow.key_for(settings),
            priority=priority,
            at=at,
        )
    return show(app, run)


@click.command(
    cls=Command,
    examples=(
        "bridgehead worker --database postgresql://fleet@db.example/bridgehead",
        "bridgehead worker --dir flows --queue slow --concurrency 2",
        (
            "bridgehead worker --handler runtime:codex --limit runtime:codex=4,60/m "
            "--limit writer=1"
        ),
    ),
)
@database_option
@click.option(
    "--queue", default="default", show_default=True, help="The queue to take runs from."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help=(
        "Concurrent runs per worker; the last worker started sets it for its queue. "
        "Waiting runs do not count."
    ),
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the flows are.",
)
@click.option(
    "--handler",
    help="Who answers requests: cmd:COMMAND, runtime:NAME or rig:ID; default: anyone.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N[,N/s|m|h]",
    help=(
        "Limit concurrent calls and call rate of an agent or handler (runtime:NAME) "
        "in the fleet; repeatable."
    ),
)
@click.option(
    "--app-version",
    help=(
        "The version of this code; default: a digest of the Python files in the folder."
    ),
)
@click.pass_obj
def worker(
    app: App,
    database: str | None,
    queue: str,
    concurrency: int,
    folder: Path | None,
    handler: str | None,
    limits: tuple[str, ...],
    app_version: str | None,
) -> None:
    """Run flows of a fleet until Ctrl-C or SIGTERM, which let running passes end.

    The worker serves the flows in the *.py files of its folder and of flows/ below it.
    A run that has begun is continued by workers of the same version only; new runs go
    to those of the newest version.
    """
    from bridgehead.assembly.application import Assembly
    from bridgehead.assembly.flows.fleet import FleetAddress
    from bridgehead.assembly.flows.handlers import handler_makers
    from bridgehead.assembly.flows.recording import keep_days
    from bridgehead.assembly.flows.worker import Limit, Worker, flows_of
    from bridgehead.flows.handlers import make_handler

    address = FleetAddress(database or app.assembly().record_url)
    place = (app.cwd / folder if folder else app.cwd).resolve()
    flows, version = flows_of(place)
    if handler == "pending":
        handler = None  # every question is a pending item
    makers = handler_makers(Assembly(place, app.environ), app.say)
    here = Worker(
        address,
        flows,
        app_version or version,
        queue=queue,
        concurrency=concurrency,
        say=app.say,
        handler=(handler, make_handler(handler, makers)) if handler else None,
        limits=[Limit.parse(text) for text in limits],
        folder=place,
        keep_days=keep_days(app.assembly().settings),
    )
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    here.start()
    app.say(
        f"worker {here.id} of version {app_version or version} serves "
        f"{', '.join(sorted(flows))} on {queue}"
    )
    stopped.wait()
    app.say("stopping: no new runs are started; press Ctrl-C again to end at once")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    here.stop()


@contextmanager
def here(app: App, root: Path | None, database: str | None) -> Iterator[Fleet | None]:
    """The fleet a command shows besides this directory: the one named, or that of the
    settings where it has begun.
    """
    from bridgehead.assembly.flows.fleet import has_begun, open_fleet

    url = database or app.assembly(warns=False).record_url
    try:
        shown = root is None and (database is not None or has_begun(url))
    except StoreError as error:
        shown = False
        app.warn(f"cannot list the runs of the fleet: {error.message}")
    if not shown:
        yield None
        return
    with open_fleet(url) as fleet:
        yield fleet


@contextmanager
def owner_of(
    app: App, flow_id: str | None, root: Path | None, database: str | None
) -> Iterator[Fleet | None]:
    """The fleet, if the run meant is one of its, and none of this directory."""
    if database is None and _is_here(app, flow_id):
        yield None
        return
    with here(app, root, database) as fleet:
        yield fleet if fleet is not None and fleet.knows(flow_id) else None


def _is_here(app: App, flow_id: str | None) -> bool:
    from bridgehead.flows.operations.inspect import status

    try:
        return bool(status(app.cwd, flow_id))
    except NotFound:
        return False


def show(app: App, run: Run) -> int:
    result = {"result": run.result} if run.status.value == "completed" else {}
    app.emit(
        {**run_document(run), **result},
        lambda: f"{run.id}  {run.name}  {run.status.value}\n",
    )
    return ExitCode.DONE


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"--at {text}: not a time", hint="write it like 2026-12-01T06:00:00Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
