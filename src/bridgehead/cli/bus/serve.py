"""`bridgehead bus serve` and `bus bridge`, which stay until told to stop, and
`bus check` of a hub.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus import bus as assembled
from bridgehead.assembly.bus.assistants import UnknownAssistant
from bridgehead.assembly.bus.views import new_chat_link
from bridgehead.bus.access.join_file import JoinFile, read_join_file
from bridgehead.bus.client.loopback_hub import LoopbackHub
from bridgehead.bus.hub.check import CheckOptions, Finding, check_hub
from bridgehead.bus.participants.record import Grant
from bridgehead.bus.serve import BusServer
from bridgehead.bus.settings import (
    HUB_ADDRESS,
    Address,
    ServingSettings,
    check_bridge_url,
)
from bridgehead.bus.sockets.event_loop import run, settle_memory
from bridgehead.bus.sockets.listen import listen as open_listener
from bridgehead.cli.bus.participants import hub_url, settings_and_folder
from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.output import App, columns
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.terminal import escape_controls

MARKS = {"fine": "✓", "look": "!", "broken": "✗"}

FORGETS: Final = (
    "the assistant keeps conversations in memory: they end when the bus stops, or after "
    "10 idle minutes"
)


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus check",
        "bridgehead bus check --hub ws://127.0.0.1:8181/core",
    ),
)
@click.option(
    "--hub", metavar="URL", help="Hub URL; default: the configured or embedded hub."
)
@click.option("--hub-token", metavar="TOKEN", help="Bearer token for the hub.")
@click.option(
    "--seconds",
    type=float,
    default=1.0,
    show_default=True,
    help="Seconds to listen to traffic.",
)
@click.pass_obj
def check(app: App, hub: str | None, hub_token: str | None, seconds: float) -> int:
    """Check a hub as a bridge would use it. Exits 1 if there is a problem."""
    settings, folder = settings_and_folder(app, None)
    serving = settings.serving
    options = CheckOptions(
        hub or hub_url(settings, folder),
        hub_token or serving.hub_token,
        seconds,
        assistant=serving.assistant is not None,
        profile=settings.bridge.profile,
        foreign=(hub or serving.hub) is not None,
    )
    findings = run(check_hub(options))
    checks = [
        {"class": one.kind, "state": one.state, "message": one.sentence, "fix": one.fix}
        for one in findings
    ]
    app.emit({"checks": checks}, lambda: _findings(findings))
    return (
        ExitCode.USER
        if any(found.state == "broken" for found in findings)
        else ExitCode.DONE
    )


@click.group(cls=Group)
def link() -> None:
    """Print links to a running bus."""


@link.command("chat", cls=Command, examples=("bridgehead bus link chat",))
@click.option("--state", metavar="DIR", help="State directory of the bridge.")
@click.pass_obj
def link_chat(app: App, state: str | None) -> None:
    """Print a new one-time link to the chat page of the bus running here, valid for ten
    minutes.
    """
    url = new_chat_link(settings_and_folder(app, state)[1])
    app.emit({"chat": url}, lambda: url)


def _findings(findings: list[Finding]) -> str:
    lines = [
        f"{MARKS[one.state]} {one.sentence}" + (f"   → {one.fix}" if one.fix else "")
        for one in findings
    ]
    return escape_controls("\n".join(lines)) + "\n"


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus serve --assistant scripted",
        "bridgehead bus serve --assistant claude",
        "bridgehead bus serve --listen 0.0.0.0:8182 --pairing",
    ),
)
@click.option(
    "--listen",
    metavar="ADDR",
    help="Address for participants; TLS is required beyond loopback.",
)
@click.option(
    "--hub-listen", metavar="ADDR", help="Address of the embedded hub; loopback only."
)
@click.option(
    "--assistant",
    metavar="NAME",
    help="Who answers: openai (a chat endpoint), a runtime such as claude, council, "
    "flow:FILE, cmd:COMMAND, rig:ID, "
    "or scripted (an echo); an OVOS core connects to the hub instead.",
)
@click.option(
    "--matrix-appservice",
    metavar="FILE",
    help=(
        "Run as an application service of the Matrix server; a missing registration "
        "is created."
    ),
)
@click.option(
    "--pairing",
    is_flag=True,
    default=None,
    help="Allow unknown devices to request pairing.",
)
@click.option(
    "--chat-grant",
    "chat_grants",
    multiple=True,
    type=click.Choice([str(Grant.NOTICES), str(Grant.APPROVE)]),
    help="Grant for the chat page; repeatable.",
)
@click.option("--public-url", metavar="URL", help="Public URL for join files.")
@click.option("--state", metavar="DIR", help="State directory of this bridge.")
@click.option(
    "--upstream",
    type=click.Path(path_type=Path),
    metavar="JOINFILE",
    help="Forward utterances that are not understood to this bridge.",
)
@click.pass_obj
def serve(app: App, /, upstream: Path | None, **flags: Any) -> int:
    """Serve a bus: embedded hub, gateway for participants, chat page, and an assistant
    if one is configured.
    """
    flags["chat_grants"] = list(flags["chat_grants"]) or None
    return _serve(app, flags, upstream)


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus bridge --hub ws://127.0.0.1:8181/core",
        "bridgehead bus bridge --sidecar --join den.join.json",
    ),
)
@click.option("--hub", metavar="URL", help="URL of a running hub (ws, wss or nats).")
@click.option("--hub-token", metavar="TOKEN", help="Bearer token for the hub.")
@click.option(
    "--listen",
    metavar="ADDR",
    help="Address for participants (for programs, with --sidecar).",
)
@click.option("--public-url", metavar="URL", help="Public URL for join files.")
@click.option("--state", metavar="DIR", help="State directory of this bridge.")
@click.option(
    "--upstream",
    metavar="URL",
    help="Forward utterances that are not understood to this bridge (with --join).",
)
@click.option(
    "--sidecar",
    is_flag=True,
    help="Serve a loopback hub for a program that cannot authenticate.",
)
@click.option(
    "--join",
    type=click.Path(path_type=Path),
    help="Join file for --upstream or --sidecar.",
)
@click.pass_obj
def bridge(
    app: App, /, upstream: str | None, sidecar: bool, join: Path | None, **flags: Any
) -> int:
    """Run a gateway in front of an existing hub, or connect a plain program to a
    bridge.
    """
    if sidecar:
        if join is None:
            raise UserError(
                "--sidecar needs --join FILE",
                hint="create one with `bridgehead bus participant add ID`",
            )
        folder = settings_and_folder(app, flags.get("state"))[1]
        found = read_join_file(folder.find_join_file(join))
        return _run_sidecar(app, found, flags["listen"] or HUB_ADDRESS)
    if flags["hub"] is None:
        raise UserError(
            "bus bridge needs --hub URL", hint="`bridgehead bus serve` has its own hub"
        )
    if (upstream is None) != (join is None):
        raise UserError("--upstream URL and --join FILE must be given together")
    if upstream is not None:
        check_bridge_url(upstream)
    return _serve(app, flags, join, upstream_url=upstream)


def _serve(
    app: App,
    flags: dict[str, Any],
    upstream: Path | None,
    upstream_url: str | None = None,
) -> int:
    assembly = app.assembly()
    settings = assembled.bus_settings(assembly, flags)
    folder = assembled.state_folder(assembly, settings)
    join = None
    if upstream is not None:
        join = read_join_file(folder.find_join_file(upstream))
    if join is not None and upstream_url is not None:
        join = msgspec.structs.replace(join, url=upstream_url)
    lent, give_back = assembled.outside(assembly, settings)
    server = BusServer(
        settings, assembled.state_folder(assembly, settings), lent, upstream=join
    )
    try:
        if settings.serving.hub is None:
            _look_for_assistant(app, assembly, settings.serving, is_alone=join is None)
        return run(_until_stopped(app, server))
    finally:
        give_back()


def _look_for_assistant(
    app: App, assembly: Assembly, serving: ServingSettings, *, is_alone: bool
) -> None:
    """Refuse a command that does not exist, and say if nothing will answer.

    Say as well what an assistant with a memory forgets.
    """
    name = serving.assistant
    if name not in (None, "scripted"):
        app.say(FORGETS)
    if name is None:
        if is_alone and serving.nats is None:
            app.say(
                "no assistant: questions are answered once an OVOS core is on the "
                "hub, or with --assistant NAME"
            )
    elif name.startswith("cmd:"):
        program = shlex.split(name.removeprefix("cmd:"))[0]
        if (
            shutil.which(
                assembly.places.project / program if "/" in program else program
            )
            is None
        ):
            raise UnknownAssistant(name, f"there is no program {program}")
    elif name != "scripted" and (":" not in name or name.startswith("acp:")):
        # Programs take seconds to say their version, and the bus is served meanwhile.
        threading.Thread(
            target=_warn_unavailable, args=(app, assembly, name), daemon=True
        ).start()


def _warn_unavailable(app: App, assembly: Assembly, name: str) -> None:
    from bridgehead.assembly.council.seats import list_availability, seat_of
    from bridgehead.council.reporting.render.sentences import reason_in_words
    from bridgehead.council.seating.preflight import Ready

    if name == "council":
        if not any(
            seat.can_sit and seat.bridge != "static"
            for seat in list_availability(assembly)
        ):
            app.warn(
                "the council cannot answer yet: no AI runtime is available; see "
                "`bridgehead runtimes`"
            )
    elif not isinstance(seat := seat_of(assembly, name), Ready):
        app.warn(
            f"{name} cannot answer yet: {reason_in_words(seat.reason)}. {seat.message}".rstrip(
                ". "
            )
        )


async def _until_stopped(app: App, server: BusServer) -> int:
    await server.start()
    settle_memory()
    try:
        app.emit(_served(server), lambda: _served_lines(server))
        _offer_links(app, server)
        await _signalled()
        app.say("stopping")
    finally:
        await server.stop()
    return ExitCode.DONE


def _served(server: BusServer) -> dict[str, Any]:
    return {
        "hub": server.hub_url,
        "gateway": server.join_url,
        "chat": server.chat_url,
        "state": str(server.folder.path),
    }


def _served_lines(server: BusServer) -> str:
    facts = _served(server)
    rows = [
        ("hub", facts["hub"]),
        ("participants", facts["gateway"]),
        ("chat (opens once)", facts["chat"]),
    ]
    if not server.folder.credentials():
        rows.append(("first satellite", "bridgehead bus participant add kitchen"))
    return columns(rows, width=200, flexible=1)


def _offer_links(app: App, server: BusServer) -> None:
    """Enter in the terminal prints another chat link."""
    if not sys.stdin.isatty():
        return

    def entered() -> None:
        if not sys.stdin.readline():
            asyncio.get_running_loop().remove_reader(sys.stdin)
        else:
            app.insist(f"chat (opens once)  {server.chat_url}")

    asyncio.get_running_loop().add_reader(sys.stdin, entered)


async def _signalled() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()


def _run_sidecar(app: App, join: JoinFile, address: str) -> int:
    where = Address.parse(address)
    if not where.is_loopback:
        raise UserError("a side-car listens on loopback only", hint="omit --listen")

    async def main() -> int:
        sidecar = LoopbackHub(join)
        listener = await open_listener(sidecar, where.host, where.port)
        url = f"ws://{listener.address}/core"
        app.emit(
            {"sidecar": url, "participant": join.participant},
            lambda: f"side-car  {url}",
        )
        try:
            await _signalled()
        finally:
            await listener.close()
            await sidecar.close()
        return ExitCode.DONE

    return run(main())
