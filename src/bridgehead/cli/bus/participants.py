"""`bridgehead bus participant` and `bus policy`: enrol, list, show, revoke.

See, change and try what one may do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from bridgehead.assembly.bus import bus as assembled
from bridgehead.assembly.bus.views import running_status
from bridgehead.bus.access import enrolment
from bridgehead.bus.access.certificates import GatewayCertificate, public_url
from bridgehead.bus.access.enrolment import try_admission
from bridgehead.bus.access.join_file import (
    Pin,
    refuse_work_tree,
    write_join_file,
)
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.gateway.running import running_bridge, running_url
from bridgehead.bus.participants.record import (
    Grant,
    ParticipantRecord,
    Role,
    check_participant_id,
)
from bridgehead.bus.settings import BusSettings
from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.output import App, columns, read_named
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import SystemClock

MAX_MESSAGE_BYTES = 1 << 20
STATES = {
    "connected": "connected",
    "grace": "reconnecting",
    "absent": "offline",
    None: "–",
}
state_option = click.option(
    "--state", metavar="DIR", help="State directory of the bridge."
)


def settings_and_folder(app: App, state: str | None) -> tuple[BusSettings, StateFolder]:
    assembly = app.assembly()
    settings = assembled.bus_settings(assembly, {"state": state})
    return settings, assembled.state_folder(assembly, settings)


def hub_url(settings: BusSettings, folder: StateFolder) -> str:
    """Return the configured hub, else the one of the bus running here."""
    running = running_bridge(folder.path)
    address = "" if running is None else running.hub_address
    return settings.serving.hub or f"ws://{address or settings.serving.hub_listen}/core"


@click.group(cls=Group)
def participant() -> None:
    """Manage participants."""


@participant.command(
    "add",
    cls=Command,
    examples=(
        "bridgehead bus participant add kitchen",
        "bridgehead bus participant add phone --grant notices --grant approve",
        "bridgehead bus participant add bot --token --expires 90d --mode manage",
    ),
)
@click.argument("participant_id", metavar="ID")
@click.option(
    "--role",
    type=click.Choice([str(role) for role in Role]),
    help="Default: satellite.",
)
@click.option(
    "--mode",
    type=click.Choice(["relay", "manage"]),
    help="manage: for channels without sessions.",
)
@click.option(
    "--names",
    type=click.Choice(["spec", "legacy"]),
    help="legacy: for programs with the old topics.",
)
@click.option(
    "--grant",
    "grants",
    type=click.Choice([str(grant) for grant in Grant]),
    multiple=True,
    help="Grant an extra right; repeatable.",
)
@click.option(
    "--token", is_flag=True, help="Issue a bearer token instead of a device key."
)
@click.option("--expires", metavar="D", help="Token lifetime, such as 90d.")
@click.option(
    "--join",
    "path",
    type=click.Path(path_type=Path),
    help="Join file; default: ID.join.json in the state directory.",
)
@click.option(
    "--url",
    "urls",
    metavar="U",
    multiple=True,
    help="URL for the join file; repeatable, for fallbacks.",
)
@state_option
@click.pass_obj
def add_participant(
    app: App,
    /,
    participant_id: str,
    grants: tuple[str, ...],
    token: bool,
    expires: str | None,
    path: Path | None,
    urls: tuple[str, ...],
    state: str | None,
    **record: str | None,
) -> None:
    """Enrol a participant and write its join file, the only place its secret appears."""
    settings, folder = settings_and_folder(app, state)
    folder.prepare()
    table: dict[str, Any] = {
        key: value for key, value in record.items() if value is not None
    }
    if grants:
        table["grants"] = dict.fromkeys(grants, True)
    request = enrolment.Enrolment(
        participant_id,
        table,
        next(iter(urls), None)
        or settings.serving.public_url
        or running_url(folder.path)
        or public_url(settings),
        _pin(settings, folder),
        token,
        None if expires is None else enrolment.parse_duration(expires),
        urls[1:],
    )
    target = path or folder.join_file(participant_id)
    enrolment.enrol(folder, request, SystemClock(), target)
    app.emit(
        {"participant": participant_id, "join_file": str(target), "url": request.url},
        lambda: (
            f"{participant_id} enrolled; its join file is {target}\n"
            f"on the device: bridgehead bus chat --join {target.name}"
        ),
    )


def _pin(settings: BusSettings, folder: StateFolder) -> Pin:
    """Of the bridge that runs, which may have been started with other settings.

    Else of the next one.
    """
    running = running_bridge(folder.path)
    if running is not None:
        return running.pin
    certificate = GatewayCertificate.prepare(settings, folder)
    return Pin() if certificate is None else certificate.pin


@participant.command(
    "pair",
    cls=Command,
    examples=("bridgehead bus participant pair wss://hub.local:8182 --id den",),
)
@click.argument("url", metavar="URL")
@click.option(
    "--id",
    "participant_id",
    required=True,
    metavar="ID",
    help="The ID this device asks for.",
)
@click.option(
    "--join",
    "path",
    type=click.Path(path_type=Path),
    help="Join file; default: ID.join.json in the state directory.",
)
@click.pass_obj
def pair(app: App, url: str, participant_id: str, path: Path | None) -> None:
    """Request pairing with a bridge that runs with --pairing; an operator there
    compares six digits.
    """
    from bridgehead.bus.gateway.pairing import pair as pair_with
    from bridgehead.bus.sockets.event_loop import run

    check_participant_id(participant_id)
    folder = settings_and_folder(app, None)[1]
    target = path or folder.join_file(participant_id)
    if path is not None:
        refuse_work_tree(path)  # before a person is asked

    def show(code: str) -> None:
        app.insist(
            f"this device shows {code}\nwaiting for approval on the machine of the "
            "bus (bridgehead pending)"
        )

    join = run(pair_with(f"{url.rstrip('/')}/pair", participant_id, show))
    folder.prepare_join_file(target)
    write_join_file(target, join)
    app.emit(
        {"participant": participant_id, "join_file": str(target)},
        lambda: f"paired; the join file is {target}",
    )


@participant.command(
    "list", cls=Command, examples=("bridgehead bus participant list --json",)
)
@state_option
@click.pass_obj
def list_participants(app: App, state: str | None) -> None:
    """List enrolled participants, and whether each is connected to the bus running
    here.
    """
    _settings, folder = settings_and_folder(app, state)
    status = running_status(folder)
    listed = enrolment.listing(folder, SystemClock().now())
    states = {} if status is None else {p.id: p.state for p in status.participants}
    rows = [("id", "role", "mode", "credential", "expires", "state")]
    rows += [
        (p.id, p.role, p.mode, p.credential, p.expires or "–", STATES[states.get(p.id)])
        for p in listed
    ]
    app.emit(
        {
            "participants": [
                msgspec.to_builtins(p) | {"state": states.get(p.id)} for p in listed
            ]
        },
        lambda: (
            columns(rows, width=120, flexible=0) if listed else "no participants yet\n"
        ),
    )


@participant.command(
    "revoke", cls=Command, examples=("bridgehead bus participant revoke kitchen",)
)
@click.argument("participant_id", metavar="ID")
@state_option
@click.pass_obj
def revoke_participant(app: App, participant_id: str, state: str | None) -> None:
    """Revoke a participant's credential and grants; a running bridge disconnects it at
    once.
    """
    enrolment.revoke(settings_and_folder(app, state)[1], participant_id)
    app.emit({"revoked": participant_id}, lambda: f"{participant_id} is revoked")


def show_record(app: App, record: ParticipantRecord) -> None:
    """The effective record of a participant."""
    effective = record.effective()
    rows = [(key, _cell(value)) for key, value in effective.items()]
    app.emit(
        {"participant": effective}, lambda: columns(rows, width=app.width, flexible=1)
    )


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(inner)}" for key, inner in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "–"
    return "–" if value is None else str(value)


@click.group(cls=Group)
def policy() -> None:
    """Show, change and test participants' rights."""


def _show(group: click.Group) -> None:
    @group.command(
        "show", cls=Command, examples=(f"bridgehead bus {group.name} show kitchen",)
    )
    @click.argument("participant_id", metavar="ID")
    @state_option
    @click.pass_obj
    def show(app: App, participant_id: str, state: str | None) -> None:
        """Show one participant's record, including defaults."""
        show_record(
            app,
            enrolment.find_record(settings_and_folder(app, state)[1], participant_id),
        )


_show(participant)
_show(policy)


@policy.command(
    "set",
    cls=Command,
    examples=(
        "bridgehead bus policy set kitchen grants.notices true",
        (
            "bridgehead bus policy set kitchen policy.blacklisted_skills "
            "'[\"shell.skill\"]'"
        ),
        "bridgehead bus policy set kitchen assistant.tools '[\"clock\"]'",
    ),
)
@click.argument("participant_id", metavar="ID")
@click.argument("key")
@click.argument("value")
@state_option
@click.pass_obj
def set_policy(
    app: App, participant_id: str, key: str, value: str, state: str | None
) -> None:
    """Set one key of a participant's record; a running bridge applies it to the next
    message.
    """
    show_record(
        app,
        enrolment.set_key(
            settings_and_folder(app, state)[1], participant_id, key, value
        ),
    )


@policy.command(
    "test", cls=Command, examples=("bridgehead bus policy test kitchen message.json",)
)
@click.argument("participant_id", metavar="ID")
@click.argument("file", type=click.Path(path_type=Path))
@state_option
@click.pass_obj
def test_policy(app: App, participant_id: str, file: Path, state: str | None) -> int:
    """Show how the policy would treat a message from this participant. Nothing is sent."""
    settings, folder = settings_and_folder(app, state)
    record = enrolment.find_record(folder, participant_id)
    result = try_admission(
        settings.bridge, record, read_named(file, MAX_MESSAGE_BYTES), folder.secret()
    )
    app.emit(msgspec.to_builtins(result), result.sentence)
    return ExitCode.DONE if result.admitted else ExitCode.USER
