"""`bridgehead bus policy`: see, change and try out what a participant may do."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from bridgehead.bus import enrolment
from bridgehead.bus.policy_trial import judge
from bridgehead.cli.bus_participants import at_home, placed, show_record
from bridgehead.cli.lazy import Command, Group
from bridgehead.cli.named_file import read_named
from bridgehead.cli.output import App
from bridgehead.exit_codes import ExitCode

MAX_MESSAGE_BYTES = 1 << 20


@click.group(cls=Group)
def policy() -> None:
    """What a participant may do."""


@policy.command("show", cls=Command, examples=("bridgehead bus policy show kitchen",))
@click.argument("participant_id", metavar="ID")
@placed
@click.pass_obj
def show_policy(app: App, participant_id: str, state: str | None) -> None:
    """The effective record: what was written and what it defaults to."""
    _settings, folder = at_home(app, state)
    show_record(app, enrolment.find_record(folder, participant_id))


@policy.command(
    "set",
    cls=Command,
    examples=(
        "bridgehead bus policy set kitchen grants.notices true",
        "bridgehead bus policy set kitchen policy.blacklisted_skills '[\"shell.skill\"]'",
    ),
)
@click.argument("participant_id", metavar="ID")
@click.argument("key")
@click.argument("value")
@placed
@click.pass_obj
def set_policy(app: App, participant_id: str, key: str, value: str, state: str | None) -> None:
    """Change one key of a record; a running bridge applies it to the next message."""
    _settings, folder = at_home(app, state)
    show_record(app, enrolment.set_key(folder, participant_id, key, value))


@policy.command("test", cls=Command, examples=("bridgehead bus policy test kitchen message.json",))
@click.argument("participant_id", metavar="ID")
@click.argument("file", type=click.Path(path_type=Path))
@placed
@click.pass_obj
def test_policy(app: App, participant_id: str, file: Path, state: str | None) -> int:
    """What the gate would do with this message if the participant sent it. Nothing is sent."""
    settings, folder = at_home(app, state)
    record = enrolment.find_record(folder, participant_id)
    verdict = judge(settings.bridge, record, read_named(file, MAX_MESSAGE_BYTES), folder.secret())
    app.emit(msgspec.to_builtins(verdict), verdict.sentence)
    return ExitCode.DONE if verdict.admitted else ExitCode.USER
