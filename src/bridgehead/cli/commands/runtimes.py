"""`bridgehead runtimes`, `domains` and `doctor`: who could sit in a council, for what,
and what is missing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import UNLIMITED, App, columns
from bridgehead.contract.task import normalise_domain
from bridgehead.council.reporting.render.sentences import reason_in_words
from bridgehead.errors import UserError
from bridgehead.host.terminal import escape_controls

if TYPE_CHECKING:
    from bridgehead.assembly.council.seats import Availability
    from bridgehead.council.request.domains import Expert

MARK = {True: "✓", False: "–"}


@click.command(
    cls=Command, examples=("bridgehead runtimes", "bridgehead runtimes --json")
)
@click.pass_obj
def runtimes(app: App) -> None:
    """List the AI runtimes, how each is connected, and why one cannot be used.

    Checks programs, logins and settings only. No model is called.
    """
    from bridgehead.assembly.council.seats import list_availability

    seats = list_availability(app.assembly())
    app.emit({"runtimes": [seat.document() for seat in seats]}, lambda: _table(seats))


@click.command(
    cls=Command,
    examples=(
        "bridgehead doctor",
        "bridgehead doctor --fix",
        "bridgehead doctor --json",
    ),
)
@click.option("--fix", is_flag=True, help="Apply the safe fixes.")
@click.pass_obj
def doctor(app: App, fix: bool) -> int:
    """Check this machine: programs, AI runtimes, settings, permissions, the record.

    Exits 1 if something is broken. Without --fix, it changes nothing except adding one
    event to the record.
    """
    from bridgehead.cli.commands.doctor import run_doctor

    return run_doctor(app, fix=fix)


@click.command(
    cls=Command,
    examples=(
        "bridgehead domains",
        "bridgehead domains security",
        "bridgehead domains gdpr",
    ),
)
@click.argument("domain", metavar="[NAME]", required=False)
@click.pass_obj
def domains(app: App, domain: str | None) -> None:
    """List the domains a council knows, or show the expert for NAME."""
    from bridgehead.assembly.council.files import read_own_domains
    from bridgehead.assembly.council.journal import registry_with
    from bridgehead.council.reporting.render.sentences import notes

    own, warnings = read_own_domains(app.assembly())
    registry = registry_with(own)
    for note in notes(warnings):
        app.warn(note)
    if domain is None:
        known = registry.domains
        listed = [
            {
                "id": one.id,
                "category": one.category,
                "role": one.role,
                "aliases": list(one.aliases),
            }
            for one in known
        ]
        rows = [
            ("domain", "category", "expert"),
            *((one.id, one.category, one.role) for one in known),
        ]
        app.emit(
            {"domains": listed}, lambda: columns(rows, width=app.width, flexible=2)
        )
        return
    if not normalise_domain(domain):
        raise UserError(
            f"{domain!r} is not a domain name",
            hint="`bridgehead domains` lists the known ones",
        )
    expert = registry.expert(domain)
    app.emit({"expert": _expert_document(expert)}, lambda: _expert(expert))


def _table(seats: list[Availability]) -> str:
    rows = [
        (
            MARK[seat.can_sit],
            seat.bridge,
            seat.connection or "",
            seat.version or "",
            _remark(seat),
        )
        for seat in seats
    ]
    ready = sum(seat.can_sit for seat in seats)
    # Half a command is of no use: what to do is never cut, however narrow the terminal
    # is.
    return (
        columns(rows, width=UNLIMITED, flexible=4)
        + f"\n{ready} of {len(seats)} available\n"
    )


def _remark(seat: Availability) -> str:
    refused = f"(last call refused: {seat.last_refusal})" if seat.last_refusal else ""
    held = f"(sees its private copy only: {seat.held_by})" if seat.held_by else ""
    advice = f"→ {seat.advice}" if seat.advice else ""
    remark = " ".join(
        filter(None, [reason_in_words(seat.reason), held, refused, advice])
    )
    return escape_controls(" ".join(remark.split()))


def _expert_document(expert: Expert) -> dict[str, Any]:
    return {
        "domain": expert.domain,
        "role": expert.role,
        "lens": expert.lens,
        "focus_areas": list(expert.focus_areas),
        "standards": list(expert.standards),
        "origin": expert.origin,
        "synthesized_from": list(expert.synthesized_from),
    }


def _expert(expert: Expert) -> str:
    lines = [f"{expert.domain}   {expert.role}   ({expert.origin})"]
    lines += [f"  {expert.lens}"] if expert.lens else []
    lines += [f"  - {area}" for area in expert.focus_areas]
    lines += [f"  standards: {', '.join(expert.standards)}"] if expert.standards else []
    return "\n".join(lines) + "\n"
