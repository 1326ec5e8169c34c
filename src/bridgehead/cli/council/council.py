"""`bridgehead council`: call several agents together, take a council up again, look at
what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bridgehead.assembly.council.request import VERBS
from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.council import options
from bridgehead.cli.council.reports import (
    baseline,
    dismiss,
    gate,
    list_,
    show,
    split,
)
from bridgehead.cli.output import SCHEMA_VERSION, App
from bridgehead.contract.words import TaskType
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.files import write_atomic

if TYPE_CHECKING:
    from bridgehead.assembly.council.councils import Councils
    from bridgehead.assembly.council.reports import Written
    from bridgehead.assembly.council.request import CouncilRequest
    from bridgehead.assembly.council.run import Audience, Finished

EXAMPLES = {
    "review": (
        "bridgehead council review src/",
        "bridgehead council review --diff main --gate fail --sarif findings.sarif",
        (
            'bridgehead council review src/auth.py --task "is the session handling '
            'safe?" '
            "--intensity thorough"
        ),
        "bridgehead council review --staged --runtime codex --runtime claude",
    ),
    "audit": ("bridgehead council audit src/ --requirements requirements.yaml",),
    "implement": (
        'bridgehead council implement --runtime codex --task "bind the order id"',
    ),
    "ask": (
        (
            'bridgehead council ask "careful look at src/orders.py before we go to '
            'production"'
        ),
    ),
}


@click.group(cls=Group)
def council() -> None:
    """Review, audit or plan with several AI agents that debate and end in one report.

    Any verdict exits 0 unless --gate is given. Without an AI agent installed, the
    static seat (ruff, ast-grep, oxlint and others) reports alone and says so.
    """


def _convene(app: App, /, verb: str, scope: tuple[str, ...], **given: Any) -> int:
    """Hold one council, from what was typed to the exit code."""
    import msgspec

    from bridgehead.assembly.council.request import ASK, CouncilRequest
    from bridgehead.council.reporting.gate import Gate
    from bridgehead.council.request.plan import CouncilOptions
    from bridgehead.council.scope.scope import ScopeRequest

    task = given["task"]
    watch = given["watch"]
    seeds = given.pop("seed_findings")
    if verb == ASK:
        task = " ".join([*scope, *filter(None, [task])])
        scope = ()
        if not task.strip():
            raise UserError(
                "ask needs a request",
                hint='bridgehead council ask "is src/auth.py safe?"',
            )
    request = CouncilRequest(
        verb=verb,
        task_type=TaskType(given["task_type"]) if given.get("task_type") else None,
        scope=ScopeRequest(
            scope,
            given["diff_base"],
            given["staged"],
            given["commit_range"],
            options.read_patch(given["patch"]),
        ),
        task=task,
        context_summary=options.read_text(given["context_file"]),
        domains=given["domains"],
        add_domains=given["add_domains"],
        requirements=options.read_requirements(given["requirements"]),
        review_id=given["review_id"],
        options=msgspec.structs.replace(
            # An argument named like an option is that option.
            msgspec.convert(
                {
                    name: value
                    for name, value in given.items()
                    if value not in (None, ())
                },
                CouncilOptions,
            ),
            seed_findings=options.read_seeds(seeds),
            interactive=options.is_interactive(
                app, watch=watch, non_interactive=given["non_interactive"]
            ),
        ),
    )
    if given["dry_run"]:
        return _show_calls(app, request)
    gate = Gate(given["gate"]) if given["gate"] else None
    with _watching(app, request, watch=watch) as audience:
        finished = _councils(app).call(request, audience, gate=gate)
    if request.options.rewrites_settings:
        app.say("wrote .bridge-settings.json")
    return _ended(
        app,
        finished,
        gate=gate,
        allow_incomplete=given["allow_incomplete"],
        sarif=given["sarif"],
        watch=watch,
    )


def _show_calls(app: App, request: CouncilRequest) -> int:
    """Show every call that would be made, and make none."""
    from bridgehead.cli.council.display import calls_document, calls_text

    planned = _councils(app).dry_run(request, _audience(app, request))
    app.emit(calls_document(planned), lambda: calls_text(planned))
    return ExitCode.DONE


def _verb_command(verb: str) -> click.Command:
    function: Callable[..., Any] = options.council_options(
        click.pass_obj(partial(_convene, verb=verb))
    )
    if verb == "debate":
        function = click.option(
            "--task-type",
            type=click.Choice([str(one) for one in TaskType]),
            help="Default: review.",
        )(function)
        function = click.option(
            "--preset",
            type=click.Choice(("default", "security-elevated")),
            help="How much weight the sceptic has.",
        )(function)
    metavar = "REQUEST" if verb == "ask" else "[SCOPE]..."
    kind = None if verb == "ask" else click.Path(readable=False)  # a shell completes it
    function = click.argument("scope", nargs=-1, metavar=metavar, type=kind)(function)
    command = click.command(
        verb,
        cls=Command,
        help=VERBS[verb].sentence,
        examples=EXAMPLES.get(verb, (f"bridgehead council {verb} src/",)),
    )
    return command(function)


for _verb in VERBS:
    council.add_command(_verb_command(_verb))
for _command in (show, list_, gate, dismiss, split, baseline):
    council.add_command(_command)


@council.command(
    examples=(
        "bridgehead council resume",
        "bridgehead council resume k3v9qa --retry codex",
        "bridgehead council resume --close --gate fail",
    )
)
@click.argument("review_id", required=False)
@click.option(
    "--retry", multiple=True, metavar="SEAT", help="Ask this seat again; repeatable."
)
@click.option("--close", is_flag=True, help="Stop waiting and write the report.")
@options.gate_option
@options.allow_incomplete_option
@options.sarif_option
@options.watch_option
@click.pass_obj
def resume(
    app: App,
    review_id: str | None,
    retry: tuple[str, ...],
    close: bool,
    gate: str | None,
    allow_incomplete: str,
    sarif: Path | None,
    watch: bool,
) -> int:
    """Resume a council: add answers that have arrived, ask a runtime again, or stop
    waiting.

    REVIEW_ID defaults to the newest open council. Completed calls are never repeated.
    """
    from bridgehead.council.reporting.gate import Gate

    wanted = Gate(gate) if gate else None
    with _watching(app, None, watch=watch) as audience:
        finished = _councils(app).resume(
            review_id, audience, retry=retry, close=close, gate=wanted
        )
    return _ended(
        app,
        finished,
        gate=wanted,
        allow_incomplete=allow_incomplete,
        sarif=sarif,
        watch=watch,
    )


@council.command(examples=("bridgehead council stop", "bridgehead council stop k3v9qa"))
@click.argument("review_id", required=False)
@click.pass_obj
def stop(app: App, review_id: str | None) -> None:
    """Stop a running council, as Ctrl-C in its terminal does. What it has found is
    reported.

    REVIEW_ID defaults to the newest open council. `council resume` continues it.
    """
    stopped = _councils(app).stop(review_id)
    app.emit(
        {"stopping": stopped},
        lambda: (
            f"council {stopped} is stopping; bridgehead council show has its report"
        ),
    )


@council.command(
    examples=(
        (
            'bridgehead council challenge MMC001 "the id is checked in middleware.py, '
            "is "
            'it not?"'
        ),
    )
)
@click.argument("finding")
@click.argument("question")
@click.option(
    "--review",
    "review_id",
    metavar="REVIEW_ID",
    help="The council it comes from; default: the newest.",
)
@options.gate_option
@options.allow_incomplete_option
@options.sarif_option
@options.watch_option
@click.pass_obj
def challenge(
    app: App,
    finding: str,
    question: str,
    review_id: str | None,
    gate: str | None,
    allow_incomplete: str,
    sarif: Path | None,
    watch: bool,
) -> int:
    """Ask the seat that reported FINDING, and the others, one more question about it.

    The answers may lower, dispute or withdraw the finding, never raise it. The new
    report replaces the old one.
    """
    from bridgehead.council.reporting.gate import Gate

    wanted = Gate(gate) if gate else None
    with _watching(app, None, watch=watch) as audience:
        finished = _councils(app).challenge(
            review_id, finding, question, audience, gate=wanted
        )
    return _ended(
        app,
        finished,
        gate=wanted,
        allow_incomplete=allow_incomplete,
        sarif=sarif,
        watch=watch,
        about=finding,
    )


def _councils(app: App) -> Councils:
    from bridgehead.assembly.council.councils import Councils

    return Councils(app.assembly())


# -- who is with a running council


@contextmanager
def _watching(
    app: App, request: CouncilRequest | None, *, watch: bool
) -> Iterator[Audience]:
    """The observers of a run: NDJSON, a live table on a terminal, or lines that stay."""
    from dataclasses import replace

    from bridgehead.cli.council.display import LiveDisplay, SpokenWarnings, WatchLines
    from bridgehead.cli.council.questions import ask_beside

    audience = replace(_audience(app, request), handle_signals=True)
    if watch:
        yield replace(audience, watchers=(WatchLines(app),))
    elif app.quiet or app.verbose or not app.stderr.isatty():
        yield replace(audience, watchers=(SpokenWarnings(app),))
    else:
        from bridgehead.assembly.council.views import council_now

        verb = request.verb if request is not None else "resumed:"
        with LiveDisplay(
            verb,
            lambda review_id: council_now(app.assembly(warns=False), review_id).live,
        ) as display:
            ask = ask_beside(display, audience.ask_user) if audience.ask_user else None
            yield replace(audience, ask_user=ask, watchers=(display,))


def _audience(app: App, request: CouncilRequest | None) -> Audience:
    from bridgehead.assembly.council.run import Audience
    from bridgehead.cli.council.questions import ask_about_halted, ask_before

    if request is None or not request.options.interactive:
        return Audience()
    return Audience(
        ask=lambda question: ask_before(app, question),
        ask_user=lambda question, cancel: ask_about_halted(app, question, cancel),
    )


# -- how it ended


def _ended(
    app: App,
    finished: Finished,
    *,
    gate: Any,
    allow_incomplete: str,
    sarif: Path | None,
    watch: bool,
    about: str = "",
) -> int:
    """Print and judge it.

    After a challenge what was answered `about` that finding, because the rest is as it
    was.
    """
    from bridgehead.council.reporting.report import CouncilReport
    from bridgehead.exit_codes import ExitCode

    if allow_incomplete.strip() and gate is None:
        app.say("--allow-incomplete has no effect without --gate")
    report = finished.report
    if sarif is not None and isinstance(report, CouncilReport):
        _write_sarif(app, sarif, report)
    document = _document(finished)
    if watch:
        from bridgehead.cli.council.display import WatchLines

        WatchLines(app).write(
            {"event": "report", "schema_version": SCHEMA_VERSION, **document}
        )
    else:
        app.emit(document, lambda: _text(app, finished, about))
    if finished.pause is not None:
        app.insist(finished.pause.line())
    reason = allow_incomplete.strip()
    is_allowed = gate is not None and bool(reason)
    code = finished.exit_code(gate, allow_incomplete=reason)
    is_opened_by_it = is_allowed and finished.is_incomplete and code is ExitCode.DONE
    if is_opened_by_it and isinstance(report, CouncilReport):
        from bridgehead.assembly.council.gate import record_allowed

        record_allowed(app.assembly(), report, reason)
    return code


def _document(finished: Finished) -> dict[str, Any]:
    import msgspec

    if finished.report is None:
        return {
            "type": "deep-council",
            "status": "PENDING",
            "review_id": finished.council.review_id,
            "waiting_for": list(finished.waiting_for),
            "outstanding": finished.pause.outstanding if finished.pause else 0,
        }
    files = finished.written.files if finished.written else {}
    return {**msgspec.to_builtins(finished.report), "report_files": files}


def _text(app: App, finished: Finished, about: str) -> str:
    from bridgehead.council.reporting.render.text import Screen, render_text

    if finished.report is None:
        waiting = ", ".join(finished.waiting_for)
        how = f"bridgehead council resume {finished.council.review_id}"
        return (
            f"WAITING   council {finished.council.review_id} waits for {waiting}; "
            f"answer, then: {how}"
        )
    saved = finished.written.markdown if finished.written else None
    screen = Screen(width=min(app.width, 120), colour=app.color, saved_at=saved)
    text = render_text(finished.report, screen, about)
    if finished.council.task.task_type is TaskType.IMPLEMENTATION and finished.written:
        text += _change(finished.written)
    return text


def _change(written: Written) -> str:
    """Return where an implementation is, and how to look at it and take it."""
    if written.branch is None:
        return "change  none: no file was changed\n"
    branch = written.branch
    return (
        f"change  branch {branch}      git diff HEAD...{branch}      git merge "
        f"{branch}\npatch   {written.patch}\n"
    )


def _write_sarif(app: App, path: Path, report: Any) -> None:
    import json

    from bridgehead.council.reporting.sarif import sarif_of

    log = sarif_of(report)
    write_atomic(path, json.dumps(log.log, ensure_ascii=False, indent=1) + "\n")
    for warning in log.warnings:
        app.warn(warning)
