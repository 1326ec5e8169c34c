"""`council show`, `list`, `gate`, `dismiss`, `split` and `baseline`: what earlier councils came to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App, ago, columns, one_line
from bridgehead.errors import UserError, plural
from bridgehead.host.terminal import escape_controls

if TYPE_CHECKING:
    from bridgehead.assembly.council.reports import Reports
    from bridgehead.assembly.council.views import CouncilLine
    from bridgehead.council.reporting.gate import GateDecision

FORMATS = ("text", "md", "html", "json", "sarif")
WIDTH_WITH_REPORTS = 120
"""Columns of a terminal that shows a whole line of the list with the path of its
report.
"""


@click.command(
    cls=Command,
    examples=(
        "bridgehead council show",
        "bridgehead council show k3v9qa MMC001",
        "bridgehead council show k3v9qa --format sarif > findings.sarif",
    ),
)
@click.argument("review_id", required=False)
@click.argument("finding", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--why",
    is_flag=True,
    help="With FINDING: what made its probability, and what joined its sources.",
)
@click.pass_obj
def show(
    app: App, review_id: str | None, finding: str | None, form: str, why: bool
) -> None:
    """Show a report (default: the newest of this project), or one FINDING with its debate."""
    stored = _reports(app).find(review_id)
    if finding is not None:
        from bridgehead.council.reporting.render.text import Screen, render_finding

        entry = stored.finding(finding)
        screen = Screen(width=min(app.width, 120), colour=app.color)
        app.as_json = app.as_json or form == "json"
        app.emit(
            {"review_id": stored.review_id, **msgspec.to_builtins(entry)},
            lambda: render_finding(entry, screen, why=why),
        )
        return
    if app.as_json or form == "json":
        app.as_json = True
        app.emit(stored.document(), lambda: "")
        return
    app.emit(
        {}, lambda: stored.render(form, width=min(app.width, 120), colour=app.color)
    )


@click.command(
    "list",
    cls=Command,
    examples=("bridgehead council list", "bridgehead council list --json --limit 5"),
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="At most N.",
)
@click.option("--everywhere", is_flag=True, help="Include all projects.")
@click.pass_obj
def list_(app: App, limit: int, everywhere: bool) -> None:
    """List the councils of this project, newest first."""
    from bridgehead.assembly.council.views import list_councils
    from bridgehead.host.clock import SystemClock

    assembly = app.assembly()
    found = list_councils(
        assembly, limit=limit, project=None if everywhere else assembly.project
    ).councils
    now = SystemClock().now()
    app.emit(
        {"councils": [_listed(one) for one in found]},
        lambda: _table(found, now, app.width),
    )


@click.command(
    cls=Command,
    examples=(
        "bridgehead council gate",
        "bridgehead council gate k3v9qa --level concerns",
    ),
)
@click.argument("review_id", required=False)
@click.option(
    "--level",
    type=click.Choice(("fail", "concerns")),
    default="fail",
    show_default=True,
    help="Verdict to refuse.",
)
@click.option(
    "--commit", metavar="REV", help="The commit to judge; default: the working tree."
)
@click.option(
    "--require-seats",
    type=click.IntRange(min=0),
    default=0,
    help="Completed seats required.",
)
@click.option(
    "--require-runtime",
    multiple=True,
    metavar="NAME",
    help="Runtime that must complete; repeatable.",
)
@click.option(
    "--require",
    multiple=True,
    metavar="NAME",
    help="Seat or analyser that must have looked to the end; repeatable.",
)
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Refuse for the verdict only if a finding at least this likely stands behind it.",
)
@click.option(
    "--allow-incomplete",
    default="",
    metavar="REASON",
    help="Pass although something was not looked at; the reason is in the output.",
)
@click.pass_obj
def gate(
    app: App,
    review_id: str | None,
    level: str,
    commit: str | None,
    require_seats: int,
    require_runtime: tuple[str, ...],
    require: tuple[str, ...],
    min_probability: float,
    allow_incomplete: str,
) -> int:
    """Check a council: exits 0 if it passes, 3 if it is refused, 1 if it has no
    verdict.

    It speaks for the council that was begun last, and for the working tree or the
    index, or for --commit. It refuses for the verdict, if a file was changed, added or
    removed that the council did not see, if the council broke off, has not ended or was
    interrupted, if its report was edited, if something was not looked at, and if a
    required seat is missing.
    """
    from bridgehead.assembly.council.gate import check_gate
    from bridgehead.council.reporting.gate import Gate, GateDemands
    from bridgehead.exit_codes import ExitCode

    demands = GateDemands(
        Gate(level),
        require_seats,
        require_runtime,
        min_probability,
        allow_incomplete,
        require,
    )
    decision = check_gate(app.assembly(), review_id, demands, commit)
    app.emit(_decided(decision), lambda: _decision_text(decision))
    return ExitCode.DONE if decision.passed else ExitCode.GATE


def _decided(decision: GateDecision) -> dict[str, Any]:
    return {
        "review_id": decision.review_id,
        "verdict": decision.verdict,
        "level": decision.level,
        "passed": decision.passed,
        "refused_because": list(decision.refusals),
        "state": decision.state,
        "commit": decision.commit,
        "scope": decision.scope,
        "next_step": decision.next_step,
        "allowed_incomplete": decision.allowed_incomplete or None,
        "not_looked_at": list(decision.not_looked_at),
    }


def _decision_text(decision: GateDecision) -> str:
    word = "passed" if decision.passed else "refused"
    verdict = decision.verdict or "no verdict"
    lines = [
        f"{word}   {verdict}   council {decision.review_id}, gate {decision.level}"
    ]
    place = decision.state
    if decision.commit is not None:
        place += f" at {decision.commit[:12]}"
    details = [f"for {place}; reviewed: {decision.scope or 'nothing'}"]
    details += [
        reason
        for reason in decision.refusals
        if not reason.startswith("the verdict is")
    ]
    if decision.passed:
        details += decision.not_looked_at
    if decision.allowed_incomplete:
        details.append(f"allowed: {decision.allowed_incomplete}")
    if decision.next_step is not None:
        details.append(f"next: {decision.next_step}")
    lines += [f"  {escape_controls(one_line(detail))}" for detail in details]
    return "\n".join(lines)


@click.command(
    cls=Command,
    examples=(
        'bridgehead council dismiss SS001 --reason "generated file, checked by hand"',
        (
            'bridgehead council dismiss MMC002 --reason "accepted until the rewrite" '
            "--until 2027-03-01"
        ),
    ),
)
@click.argument("finding_id")
@click.option(
    "--reason", required=True, help="Why the finding is accepted; committed with it."
)
@click.option("--until", metavar="DATE", help="Expires after this day (YYYY-MM-DD).")
@click.option(
    "--paths",
    multiple=True,
    metavar="GLOB",
    help="Paths it applies to; default: the finding's file.",
)
@click.option("--accept-critical", is_flag=True, help="Needed for a CRITICAL finding.")
@click.option(
    "--review",
    "review_id",
    metavar="REVIEW_ID",
    help="The council it comes from; default: the newest.",
)
@click.pass_obj
def dismiss(
    app: App,
    finding_id: str,
    reason: str,
    until: str | None,
    paths: tuple[str, ...],
    accept_critical: bool,
    review_id: str | None,
) -> None:
    """Dismiss a finding by adding it to .bridgehead/dismissals.toml, which you commit.

    An entry suppresses one finding, and only as long as the code it cites is unchanged.
    """
    from bridgehead.assembly.council.reports import DismissRequest

    request = DismissRequest(finding_id, reason, _date(until), paths, accept_critical)
    dismissed = _reports(app).dismiss(review_id, request)
    app.emit(
        {"dismissed": dismissed.entry, "file": str(dismissed.path)},
        lambda: (
            f"dismissed {finding_id}: "
            f"{one_line(escape_controls(dismissed.entry['title']))}   in "
            f"{dismissed.path}"
        ),
    )


@click.command(
    cls=Command,
    examples=(
        "bridgehead council split MMC002 G003",
        "bridgehead council show k3v9qa MMC002 --why",
    ),
)
@click.argument("finding_id")
@click.argument("source_ids", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--review",
    "review_id",
    metavar="REVIEW_ID",
    help="The council it comes from; default: the newest.",
)
@click.pass_obj
def split(
    app: App, finding_id: str, source_ids: tuple[str, ...], review_id: str | None
) -> None:
    """Undo a join: take sources out of a finding by adding them to .bridgehead/splits.toml, which you commit.

    Later councils keep them apart; the report at hand is not changed. `council show FINDING --why` names the sources.
    """
    entries = _reports(app).split(review_id, finding_id, source_ids)
    app.emit(
        {"split": entries, "file": ".bridgehead/splits.toml"},
        lambda: (
            f"split {finding_id}: {', '.join(source_ids)}   in .bridgehead/splits.toml"
        ),
    )


@click.command(
    cls=Command,
    examples=(
        "bridgehead council baseline",
        (
            'bridgehead council baseline --reason "before the rewrite" && git add '
            ".bridgehead/baseline.toml"
        ),
    ),
)
@click.argument("review_id", required=False)
@click.option("--reason", help="Why they are accepted; default: today's date.")
@click.option("--accept-critical", is_flag=True, help="Include CRITICAL findings.")
@click.pass_obj
def baseline(
    app: App, review_id: str | None, reason: str | None, accept_critical: bool
) -> None:
    """Accept the current findings so that only new ones are reported; writes
    .bridgehead/baseline.toml for you to commit.

    A finding stays accepted as long as the code it cites is unchanged, even if it
    moves. Run it again to drop entries whose code is gone.
    """
    done = _reports(app).accept(review_id, reason, accept_critical=accept_critical)
    left = f"; left out, CRITICAL: {', '.join(done.left_out)}" if done.left_out else ""
    app.emit(
        {
            "accepted": done.new,
            "kept": done.kept,
            "left_out": list(done.left_out),
            "file": done.path,
        },
        lambda: (
            f"accepted {plural(done.new, 'finding')}, kept {done.kept}{left}   in "
            f"{done.path}"
        ),
    )


def _reports(app: App) -> Reports:
    from bridgehead.assembly.council.reports import Reports

    return Reports(app.assembly())


def _date(text: str | None) -> dt.date | None:
    if text is None:
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise UserError(
            f"--until {text!r} is not a date", hint="write it as 2027-03-01"
        ) from error


def _listed(council: CouncilLine) -> dict[str, Any]:
    return {
        "review_id": council.id,
        "verb": council.verb,
        "title": council.title,
        "state": council.status.value,
        "started_at": council.started_at,
        "seconds": round(council.seconds, 3),
        "verdict": council.verdict,
        "findings": council.counts,
        "seats": list(council.seats),
        "waiting_for": list(council.waiting_for),
        "cost_usd": council.cost_usd,
        "report": council.report,
        "project": council.project,
    }


def _table(councils: Sequence[CouncilLine], now: dt.datetime, width: int) -> str:
    if not councils:
        return "no council was held here yet; begin with: bridgehead council review\n"
    from bridgehead.host.clock import parse_iso

    head = ("id", "since", "verdict", "state", "what", "report")
    rows = [head, *(_row(one, ago(parse_iso(one.started_at), now)) for one in councils)]
    if width < WIDTH_WITH_REPORTS:  # `council show` names the report too
        rows = [row[:-1] for row in rows]
    return columns(rows, width=width, flexible=4)


def _row(council: CouncilLine, since: str) -> tuple[str, ...]:
    return (
        council.id,
        since,
        council.verdict or "–",
        council.status.value,
        escape_controls(one_line(council.title)),
        (council.report or {}).get("markdown", ""),
    )
