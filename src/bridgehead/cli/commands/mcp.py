"""`bridgehead mcp`: the tools of bridgehead for an agent, over standard input and
output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App
from bridgehead.errors import UserError


@click.command(
    cls=Command,
    examples=(
        "bridgehead mcp",
        "bridgehead mcp --dir ~/src/orders",
        "bridgehead mcp --list-tools --json",
        "claude mcp add bridgehead -- bridgehead mcp",
    ),
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Project directory; default: the current one.",
)
@click.option("--list-tools", is_flag=True, help="List the offered tools and exit.")
@click.pass_obj
def mcp(app: App, directory: Path | None, list_tools: bool) -> None:
    """Serve agents over MCP: councils, pending items, rigs, flows.

    The agent's host starts this; register it with `bridgehead setup
    claude|codex|gemini|opencode`. Supports protocol versions 2024-11-05 to 2026-07-28.
    Closing stdin stops all work.
    """
    if list_tools:
        _list_tools(app)
        return
    project = (app.cwd / directory).resolve() if directory else app.cwd
    if not project.is_dir():
        raise UserError(f"--dir {directory}: there is no such directory")
    from bridgehead.mcp_server.transports.stdio import serve

    if sys.stdin.isatty():
        app.say(
            "this command is meant to be started by an agent host; register it with "
            "`bridgehead setup` (Ctrl-C to stop)"
        )
    serve(lambda: App(cwd=project, environ=app.environ).assembly(warns=False))


def _list_tools(app: App) -> None:
    from bridgehead.mcp_server.tools.catalogue import TOOLS

    app.emit(
        {"tools": [tool.listed() for tool in TOOLS]},
        lambda: "".join(f"{tool.name:<16}{tool.description}\n" for tool in TOOLS),
    )
