"""`bridgehead web`: the dashboard in the user's own browser."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import webbrowser
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridgehead.assembly.application import Assembly
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App, user_name
from bridgehead.dashboard.serving import (
    Address,
    WebRequest,
    choose_token,
    forget_address,
    note_address,
    running_dashboard,
)
from bridgehead.errors import FileError, UserError
from bridgehead.exit_codes import ExitCode

if TYPE_CHECKING:
    from bridgehead.dashboard.app import Dashboard

BY_SIGNAL = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


@click.command(
    cls=Command,
    examples=(
        "bridgehead web",
        "bridgehead web --open",
        "bridgehead web --host 0.0.0.0 --token-file web-token",
    ),
)
@click.option(
    "--host",
    metavar="NAME",
    help="Address to listen on; beyond loopback, --token-file is required.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--open",
    "open_browser",
    is_flag=True,
    help="Open the dashboard in a browser; reuses a running server.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the token from this private file.",
)
@click.option(
    "--no-auto",
    is_flag=True,
    help="Do not resume flows when their answers have arrived.",
)
@click.pass_obj
def web(
    app: App,
    host: str | None,
    port: int | None,
    open_browser: bool,
    token_file: Path | None,
    no_auto: bool,
) -> int:
    """Serve the dashboard: pending items, councils, threads, flows, the bus and the
    event log.

    Prints a link and serves until Ctrl-C. Anyone with the link has access. Your paused
    flows resume when their answers arrive.
    """
    assembly = app.assembly()
    if open_browser and (running := running_dashboard(assembly.places)) is not None:
        _show_address(app, running.address)
        webbrowser.open(running.link)
        return ExitCode.DONE
    settings = assembly.settings
    chosen_file = token_file or (
        Path(text) if (text := settings.text("web.token_file")) else None
    )
    request = WebRequest(
        host=host or settings.text("web.host") or "127.0.0.1",
        port=port if port is not None else int(settings.number("web.port") or 0),
        token_file=None if chosen_file is None else app.cwd / chosen_file.expanduser(),
        hosts=settings.texts("web.hosts"),
        open_browser=open_browser,
    )
    return _serve(app, assembly, request, auto=not no_auto)


def _serve(app: App, assembly: Assembly, request: WebRequest, *, auto: bool) -> int:
    token = _chosen_token(request)
    from bridgehead.assembly.event_writer import prune_beside
    from bridgehead.assembly.flows.handlers import watching_beside
    from bridgehead.dashboard.app import Dashboard
    from bridgehead.dashboard.serving import bind, serve
    from bridgehead.mcp_server.transports.http import HttpApp

    with assembly.store() as store, bind(request) as listening:
        port = int(listening.getsockname()[1])
        # These listen everywhere.
        reached_at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(
            request.host, request.host
        )
        address = Address(host=reached_at, port=port, token=token, pid=os.getpid())
        dashboard = Dashboard(
            assembly,
            store,
            token=token,
            port=port,
            user=f"{name} (web)" if (name := user_name("")) else "web",
            hosts=request.names(socket.gethostname()),
            mcp=HttpApp(lambda: app.assembly(warns=False), token=token),
        )
        resuming = (
            watching_beside(app.assembly(warns=False), app.say)
            if auto
            else nullcontext()
        )
        threading.Thread(
            target=prune_beside,
            args=(assembly, logging.getLogger("bridgehead.web")),
            daemon=True,
        ).start()
        try:
            with resuming:
                ended_by = serve(
                    dashboard,
                    listening,
                    lambda: _started(app, request, address, dashboard),
                )
        finally:
            forget_address(assembly.places, address)
    app.say("stopped")
    return ExitCode.DONE if ended_by is None else BY_SIGNAL[ended_by]


def _chosen_token(request: WebRequest) -> str:
    try:
        return choose_token(request)
    except FileError as error:
        made = f"umask 077; openssl rand -hex 32 > {request.token_file}"
        raise UserError(error.message, hint=error.hint or made) from error


def _started(
    app: App, request: WebRequest, address: Address, dashboard: Dashboard
) -> None:
    """Pages are answered: say where."""
    note_address(dashboard.context.assembly.places, address)
    _show_address(app, address)
    if not request.is_loopback:
        app.warn(
            f"{request.host} is reachable from other machines, and HTTP is not "
            "encrypted; use a TLS proxy"
        )
    app.say("Ctrl-C stops")
    if request.open_browser:
        # Not the token: the whole machine sees what a program is started with. Some
        # browsers end only with their page.
        link = address.base + dashboard.access.new_link()
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()


def _show_address(app: App, address: Address) -> None:
    app.emit(
        {
            "url": address.url,
            "host": address.host,
            "port": address.port,
            "pid": address.pid,
        },
        lambda: address.url,
    )
