"""`bridgehead setup`: make bridgehead known to an agent's host or to git.

Shown first, idempotent, undoable.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.output import PROGRAM, App
from bridgehead.errors import UserError
from bridgehead.host.terminal import escape_controls
from bridgehead.setup.hosts import HOSTS, Reach, Whereabouts, edits_for, remarks_for
from bridgehead.setup.planning import (
    Change,
    Notes,
    plan_setup,
    plan_undo,
    set_up,
    take_back,
)
from bridgehead.setup.server_entry import Launch

CHECKED_WITH = {
    host: f"{host} mcp list"
    for host in ("claude", "codex", "gemini", "opencode", "copilot")
}
CHECKED_WITH["cursor"] = "cursor-agent mcp list"


def _shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        click.option(
            "--dry-run", is_flag=True, help="Show the change without writing it."
        ),
        click.option("--undo", is_flag=True, help="Undo an earlier setup."),
    ):
        function = option(function)
    return function


@click.group(cls=Group)
def setup() -> None:
    """Register bridgehead with agent hosts and git.

    Every change is shown as a diff first. Running it twice changes nothing; --undo
    reverts it.
    """


def _host_command(host: str) -> click.Command:
    def run(app: App, undo: bool, dry_run: bool, yes: bool, project: bool) -> None:
        reach = Reach.PROJECT if project else Reach.USER
        _set_up_host(Agreement(app, dry_run, yes), host, reach, undo=undo)

    function = _shared_options(click.pass_obj(run))
    function = click.option(
        "--project",
        is_flag=True,
        help="Write to the project's files instead of your own.",
    )(function)
    command = click.command(
        host,
        cls=Command,
        help=f"Register the MCP server with {host}, and tell its agent what it is for.",
        examples=(
            f"bridgehead setup {host}",
            f"bridgehead setup {host} --project --yes",
            f"bridgehead setup {host} --undo",
        ),
    )
    return command(function)


for _host in HOSTS:
    setup.add_command(_host_command(_host))


@setup.command(
    "git-hook",
    examples=(
        "bridgehead setup git-hook",
        "bridgehead setup git-hook --level concerns --yes",
        "bridgehead setup git-hook --undo",
    ),
)
@_shared_options
@click.option(
    "--level",
    type=click.Choice(("fail", "concerns")),
    default="fail",
    show_default=True,
    help="Block pushes on this verdict or worse.",
)
@click.pass_obj
def git_hook(app: App, undo: bool, dry_run: bool, yes: bool, level: str) -> None:
    """Install a pre-push hook that blocks a push when the gate refuses the newest
    report.

    The hook starts no council. An existing pre-push hook is kept and runs afterwards.
    """
    from bridgehead.setup.git_hook import (
        carry_out,
        hooks_folder,
        plan_hook,
        plan_removal,
    )

    folder = hooks_folder(app.cwd, app.environ)
    plan = plan_removal(folder) if undo else plan_hook(folder, level)
    agreement = Agreement(app, dry_run, yes)
    written = agreement.reached([plan.change])
    if written:
        carry_out(plan)
    _show_outcome(
        agreement, "git-hook", "project", [plan.change], written=written, undo=undo
    )


def _set_up_host(agreement: Agreement, host: str, reach: Reach, *, undo: bool) -> None:
    app = agreement.app
    assembly = app.assembly(warns=False)
    home = Path(app.environ.get("HOME") or Path.home())
    where = Whereabouts(home, assembly.places.project, app.environ)
    edits = edits_for(host, reach, where, _launch(app, reach))
    notes = Notes(assembly.places.data)
    user = host if reach is Reach.USER else f"{host} {where.project}"
    changes = plan_undo(edits, notes, user) if undo else plan_setup(edits, notes)
    written = agreement.reached(changes)
    if written:
        (take_back if undo else set_up)(changes, notes, user)
    _show_outcome(agreement, host, reach.value, changes, written=written, undo=undo)
    for remark in () if undo else remarks_for(host, where):
        app.warn(remark)


def _launch(app: App, reach: Reach) -> Launch:
    """For a project the plain name, which works on every machine.

    For this user the program that runs now.
    """
    if reach is Reach.PROJECT:
        return Launch(PROGRAM)
    running = Path(sys.argv[0])
    program = (
        str(running.absolute())
        if running.name in (PROGRAM, "bh")
        else shutil.which(PROGRAM) or PROGRAM
    )
    passed_on = {
        name: app.environ[name]
        for name in ("BRIDGEHEAD_HOME",)
        if app.environ.get(name)
    }
    return Launch(program, passed_on)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How it is found out whether changes are to be written."""

    app: App
    dry_run: bool
    yes: bool

    @property
    def asks(self) -> bool:
        return not (self.dry_run or self.yes)

    def reached(self, changes: Sequence[Change]) -> bool:
        """Return whether to write; asking shows the changes first."""
        if self.asks and any(change.action != "keep" for change in changes):
            self._ask(changes)
        return not self.dry_run

    def _ask(self, changes: Sequence[Change]) -> None:
        app = self.app
        # Until somebody agrees this is conversation: an error leaves stdout empty.
        app.insist(_diff(changes).rstrip("\n"))
        answer = ""
        if not app.as_json and sys.stdin.isatty() and app.stderr.isatty():
            app.stderr.write("Write this? [y/N] ")
            app.stderr.flush()
            answer = sys.stdin.readline().strip().lower()
        if answer not in ("y", "yes"):
            raise UserError(
                "nothing was written",
                hint="repeat with --yes to write the changes shown",
            )


def _diff(changes: Sequence[Change]) -> str:
    return "".join(change.diff() for change in changes)


def _show_outcome(
    agreement: Agreement,
    what: str,
    reach: str,
    changes: Sequence[Change],
    *,
    written: bool,
    undo: bool,
) -> None:
    """Say what was done: the changes on stdout unless they were shown when asking, the
    outcome on stderr.
    """
    app = agreement.app
    changed = [change for change in changes if change.action != "keep"]
    document = {
        "target": what,
        "scope": reach,
        "undo": undo,
        "written": written and bool(changed),
        "changes": [
            {
                "path": os.fspath(change.path),
                "action": change.action,
                "diff": change.diff(),
            }
            for change in changes
        ],
    }
    app.emit(
        document, lambda: "" if agreement.asks else escape_controls(_diff(changes))
    )
    if not app.as_json:
        app.say(_outcome(what, changed=bool(changed), written=written, undo=undo))


def _outcome(what: str, *, changed: bool, written: bool, undo: bool) -> str:
    if not changed:
        return (
            "nothing to undo"
            if undo
            else f"{what} is already set up; nothing to change"
        )
    if not written:
        return "nothing was written (--dry-run)"
    if undo:
        return "reverted"
    check = f"; check with: {CHECKED_WITH[what]}" if what in CHECKED_WITH else ""
    return f"{what} is set up{check}"
