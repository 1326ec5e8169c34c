"""Run bridgehead commands from pages, as a shell would, each shown before it runs.

A table lists the words of each command, the fields of its form, and where it runs. The
values of a form follow `--option=` or `--`, so none of them is read as an option.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.flows.handlers import is_shared
from bridgehead.assembly.rigs.clones import find_clone
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.contract.words import Intensity
from bridgehead.council.runtimes import runtime_names
from bridgehead.dashboard.background import StartedCommand
from bridgehead.dashboard.page import Form, Page, PageContext, logger
from bridgehead.errors import NotFound, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.rigs.operations.quarantine import show_quarantine
from bridgehead.rigs.operations.thread import thread
from bridgehead.rigs.threads.quarantine import verdict_line

SHORT_SECONDS: Final = 120.0
LONG_SECONDS: Final = 3.0
"""How long a page waits for a long command: enough for an early error to show."""
MOST_SAID: Final = 2000
PAGES: Final = {
    "council": ("/councils", "id"),
    "flow": ("/flows", "id"),
    "rig": ("/threads", "clone"),
    "bus": ("/bus", ""),
}
"""The page of each noun, and the field whose value names one entry of it."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input: an option of the command, or an argument if `option` is empty.

    With `many`, the text is split into words like a shell does.
    """

    name: str
    label: str
    option: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    many: bool = False
    hidden: bool = False
    hint: str = ""

    def words(self, value: str) -> list[str]:
        if self.required and not value:
            raise UserError(
                f"{self.label} is missing", hint="fill in the field and try again"
            )
        if self.choices and value and value not in self.choices:
            raise UserError(
                f"{self.label} cannot be {value!r}",
                hint=f"one of: {', '.join(self.choices)}",
            )
        values = self._values(value)
        if not self.option:
            return values
        return [f"{self.option}={each}" for each in values]

    def _values(self, value: str) -> list[str]:
        if not self.many:
            return [value] if value else []
        try:
            return shlex.split(value)
        except ValueError as error:
            raise UserError(f"{self.label}: a quotation mark is not closed") from error


@dataclass(frozen=True, slots=True)
class WebAction:
    """A command, and the form it is made from."""

    command: str
    title: str
    sentence: str
    fields: tuple[Field, ...]
    preview: str = ""
    """The option that makes the command a dry run, which is done first."""
    is_long: bool = False
    stdin: Callable[[PageContext, Form], tuple[list[str], str]] | None = None
    """More words that need a look, and what the command reads."""

    @property
    def name(self) -> str:
        return "-".join(
            word for word in self.command.lower().split() if not word.startswith("-")
        )

    def words(self, given: Mapping[str, str]) -> list[str]:
        """Return the command, its options, and its arguments after `--`."""
        options = []
        arguments = []
        for field in self.fields:
            words = field.words(given.get(field.name, "").strip())
            if field.option:
                options += words
            else:
                arguments += words
        command = self.command.split()
        # Rig commands do not accept `--`; their fields only choose clone and envelope.
        if self.command.startswith("rig "):
            return command
        if not arguments:
            return [*command, *options]
        return [*command, *options, "--", *arguments]

    def place(self, context: PageContext, given: Mapping[str, str]) -> Path:
        """Return where to run it: the clone or project it is about, or this one."""
        if self.command.startswith("rig "):
            return clone_root(context, given)
        takes_id = any(field.name == "id" for field in self.fields)
        if takes_id and self.command.startswith(("council ", "flow ")):
            return project_of_run(context, given)
        return context.assembly.places.project

    def back(self, given: Mapping[str, str]) -> str:
        """Return the page to show afterwards."""
        noun = self.command.partition(" ")[0]
        page, field = PAGES[noun]
        about = given.get(field, "")
        return f"{page}/{quote(about, safe='')}" if about else page


def project_of_run(context: PageContext, form: Mapping[str, str]) -> Path:
    """Return the project of a council or flow; of a shared record, only this one."""
    run = context.store.find_run(form.get("id", ""))
    refuse_elsewhere(context, run.id, run.project)
    return Path(run.project)


def clone_root(context: PageContext, form: Mapping[str, str]) -> Path:
    """Return the clone of a rig command; with a shared record, only this one."""
    project = context.assembly.places.project
    clone = find_clone(project, context.store, form.get("clone", ""))
    refuse_elsewhere(context, f"the rig of {clone.name}", clone.root)
    return Path(clone.root)


def refuse_elsewhere(context: PageContext, what: str, folder: str) -> None:
    """Raise if the record is shared and the folder is not this project."""
    own = context.assembly.places.project
    if is_shared(context.assembly.record_url) and Path(folder) != own:
        raise UserError(
            f"{what} belongs to {folder}",
            hint="this record is shared: run the command in that project",
        )


def lifting(context: PageContext, form: Form) -> tuple[list[str], str]:
    """Return options and body of the DECISIONS envelope that admits another.

    It answers the last envelope of the thread, and this rig signs it.
    """
    rig = make_rig(str(clone_root(context, form)), logger.warning)
    shown = show_quarantine(rig, form.get("path", ""))
    thread_id = shown.entry.path.partition("/")[0]
    hashes = [
        str(envelope.frontmatter.get("body_hash") or "")
        for envelope in thread(rig, thread_id).envelopes
    ]
    parent = next(filter(None, reversed(hashes)), None)
    if parent is None:
        raise UserError(
            f"thread {thread_id} has no envelope that a decision could answer"
        )
    words = [f"--thread={thread_id}", f"--in-reply-to={parent}", "--body-file=-"]
    reason = form.get("reason", "").strip()
    return words, f"{reason}\n\n{verdict_line(shown.entry, lifts=True)}\n"


_ID: Final = Field("id", "Id", required=True, hidden=True)
_CLONE: Final = Field("clone", "Clone", required=True, hidden=True)
_ALL: Final = (
    WebAction(
        "council review --non-interactive",
        "Start a council",
        "Seats review the scope independently, debate, and write one report. The "
        "estimate comes first.",
        (
            Field("intensity", "Intensity", "--intensity", choices=tuple(Intensity)),
            Field(
                "seats",
                "Seats",
                "--runtime",
                many=True,
                hint=f"empty: all available; {', '.join(runtime_names())}",
            ),
            Field(
                "base",
                "Changes since",
                "--diff",
                hint="a branch or commit; empty: whole files",
            ),
            Field("task", "What to look for", "--task"),
            Field(
                "cost", "Stop at this cost", "--max-cost", hint="USD; empty: no limit"
            ),
            Field(
                "scope",
                "Scope",
                many=True,
                hint="paths; empty: the changes, or the whole project",
            ),
        ),
        preview="--dry-run",
        is_long=True,
    ),
    WebAction(
        "council resume",
        "Resume the council",
        "Adds answers that have arrived and asks the named seats again. Completed "
        "calls are not repeated.",
        (
            Field(
                "retry",
                "Ask again",
                "--retry",
                many=True,
                hint="seats, such as claude; empty: none",
            ),
            _ID,
        ),
        is_long=True,
    ),
    WebAction(
        "council stop",
        "Stop the council",
        "Ends the council as Ctrl-C does: the findings so far are reported, and it "
        "can be resumed.",
        (_ID,),
    ),
    WebAction(
        "council challenge",
        "Challenge a finding",
        "Asks the seat that reported the finding, and the other seats, one more "
        "question about it.",
        (
            Field("id", "Council", "--review", required=True, hidden=True),
            Field("finding", "Finding", required=True),
            Field("question", "Question", required=True),
        ),
        is_long=True,
    ),
    WebAction(
        "flow resume",
        "Resume the flow",
        "Continues the run where it paused, if answered.",
        (_ID,),
        is_long=True,
    ),
    WebAction(
        "flow retry",
        "Retry the flow",
        "Keeps recorded steps and repeats the failed step, or all steps from the one "
        "given.",
        (Field("from", "From step", "--from", hint="empty: the failed step"), _ID),
        is_long=True,
    ),
    WebAction(
        "flow fork",
        "Fork the flow",
        "Starts a second run with the steps this run recorded before the given step.",
        (Field("from", "From step", "--from", required=True), _ID),
        is_long=True,
    ),
    WebAction(
        "flow cancel",
        "Cancel the flow",
        "Withdraws the open requests of the run and keeps its files.",
        (_ID,),
    ),
    WebAction(
        "rig sync --auto",
        "Sync",
        "Fetches and verifies new envelopes; those that fail verification go into "
        "quarantine.",
        (_CLONE,),
    ),
    WebAction(
        "rig relay DECISIONS",
        "Lift a quarantine",
        "Accepts this envelope with a signed DECISIONS envelope, if the key of this "
        "rig belongs to a trusted human.",
        (
            _CLONE,
            Field("path", "Envelope", required=True, hidden=True),
            Field("reason", "Why", required=True),
        ),
        stdin=lifting,
    ),
    WebAction(
        "bus participant add",
        "Enrol a participant",
        "Writes a join file beside the state of the bus. The secret of the "
        "participant appears only there.",
        (Field("id", "Id", required=True),),
    ),
    WebAction(
        "bus participant revoke",
        "Revoke a participant",
        "Ends its credential and grants; a running bus disconnects it at once.",
        (_ID,),
    ),
)
ACTIONS: Final[Mapping[str, WebAction]] = {action.name: action for action in _ALL}


def act(context: PageContext, request: Request, form: Form) -> Response:
    """Run an action, after its preview was shown if it has one.

    If the command fails, the form is shown again as it was typed.
    """
    action = _action(request)
    words = action.words(form)
    place = action.place(context, form)
    if action.preview and form.get("planned") != shlex.join(words):
        command = action.command.split()
        looked = [*command, action.preview, *words[len(command) :]]
        planned = context.commands.run(
            looked, place, wait_seconds=SHORT_SECONDS, looks=True
        )
        is_planned = planned.exit_code == ExitCode.DONE
        return show_action(
            context,
            request,
            form,
            planned,
            planned=shlex.join(words) if is_planned else "",
        )
    more, stdin = action.stdin(context, form) if action.stdin else ([], "")
    seconds = LONG_SECONDS if action.is_long else SHORT_SECONDS
    done = context.commands.run(
        [*words, *more], place, stdin=stdin, wait_seconds=seconds
    )
    context.forget_waiting()
    if done.exit_code not in (None, ExitCode.DONE, ExitCode.WAITING):
        return show_action(context, request, form, done)
    if done.exit_code is None:
        outcome = "runs"
    else:
        printed = (done.out or done.error).splitlines()
        outcome = printed[0] if printed else "done"
    return context.go(request, action.back(form), f"{done.line}: {outcome}")


def _action(request: Request) -> WebAction:
    action = ACTIONS.get(str(request.path_params["name"]))
    if action is None:
        raise NotFound("there is no such action")
    return action


def show_action(
    context: PageContext,
    request: Request,
    given: Form | None = None,
    done: StartedCommand | None = None,
    *,
    planned: str = "",
) -> Response:
    """Show the form of an action, as typed or as the address fills it.

    It also shows what a command printed: its plan, or why it failed.
    """
    action = _action(request)
    given = request.query_params if given is None else given
    status = 200
    line = f"bridgehead {action.command}"
    printed = ""
    if planned:
        line = f"bridgehead {planned}"
        printed = done.out if done else ""
    elif done:
        status = 422
        line = done.line
        printed = done.error or done.out
    return context.show(
        request,
        PAGE,
        "action.html",
        status=status,
        action=action,
        given=given,
        place=action.place(context, given),
        line=line,
        said=printed[-MOST_SAID:],
        planned=planned,
    )


PAGE: Final = Page(
    "Actions",
    "/do",
    views={"/do/{name}": show_action},
    actions={"/do/{name}": act},
    in_navigation=False,
)
