"""`bridgehead bus check`: what is wrong with the hub one points it at."""

from __future__ import annotations

from typing import Any

import click

from bridgehead.bus.hub.check import CheckOptions, Finding, check_hub
from bridgehead.bus.sockets.libraries import run
from bridgehead.cli.bus.participants import settings_and_folder
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App
from bridgehead.exit_codes import ExitCode
from bridgehead.host.terminal import escape_controls

MARKS = {"fine": "✓", "look": "!", "broken": "✗"}


@click.command(
    cls=Command, examples=("bridgehead bus check", "bridgehead bus check --hub ws://127.0.0.1:8181/core")
)
@click.option("--hub", metavar="URL", help="The hub to look at; default the configured or the embedded one.")
@click.option("--hub-token", metavar="TOKEN", help="Bearer token of the hub.")
@click.option(
    "--seconds", type=float, default=1.0, show_default=True, help="How long to listen to its traffic."
)
@click.pass_obj
def check(app: App, hub: str | None, hub_token: str | None, seconds: float) -> int:
    """Look at a hub the way a bridge would use it and say what is wrong. Exits 1 if something is."""
    settings, _folder = settings_and_folder(app, None)
    serving = settings.serving
    options = CheckOptions(
        hub or serving.hub or f"ws://{serving.hub_listen}/core",
        hub_token or serving.hub_token,
        seconds,
        assistant=serving.assistant is not None,
    )
    findings = run(check_hub(options))
    app.emit({"checks": [_document(found) for found in findings]}, lambda: _findings(findings))
    return ExitCode.USER if any(found.state == "broken" for found in findings) else ExitCode.DONE


def _document(found: Finding) -> dict[str, Any]:
    return {"class": found.kind, "state": found.state, "message": found.sentence, "fix": found.fix}


def _findings(findings: list[Finding]) -> str:
    lines = [
        f"{MARKS[found.state]} {found.sentence}" + (f"   → {found.fix}" if found.fix else "")
        for found in findings
    ]
    return escape_controls("\n".join(lines)) + "\n"
