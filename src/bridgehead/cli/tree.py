"""The command tree: names and sentences only.

A command's module is imported when it is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from bridgehead import __version__
from bridgehead.cli.click_classes import LazyGroup, shared_options
from bridgehead.cli.output import App
from bridgehead.cli.running import complain
from bridgehead.exit_codes import ExitCode

COMPLETING = "_BRIDGEHEAD_COMPLETE"

COMMANDS = {
    "council": (
        "bridgehead.cli.council.council:council",
        "Review, audit or plan with several AI agents.",
    ),
    "runtimes": (
        "bridgehead.cli.commands.runtimes:runtimes",
        "List the AI runtimes and whether each can be used.",
    ),
    "domains": (
        "bridgehead.cli.commands.runtimes:domains",
        "List the domains a council knows.",
    ),
    "rig": (
        "bridgehead.cli.rigs.group:rig",
        "Exchange signed messages between agents on different machines, over git.",
    ),
    "flow": (
        "bridgehead.cli.flows.flows:flow",
        "Run programs that pause for an agent and resume with its answer.",
    ),
    "worker": (
        "bridgehead.cli.flows.fleet:worker",
        "Run flows of a fleet, taken from a queue in Postgres.",
    ),
    "template": (
        "bridgehead.cli.flows.template:template",
        "Create projects from template packages.",
    ),
    "bus": (
        "bridgehead.cli.bus:bus",
        "Connect a message bus with remote voice and chat participants.",
    ),
    "pending": (
        "bridgehead.cli.commands.record:pending",
        "List what is waiting for an answer, in all projects.",
    ),
    "answer": ("bridgehead.cli.commands.record:answer", "Answer a pending item."),
    "events": ("bridgehead.cli.commands.record:events", "Show the event log."),
    "record": (
        "bridgehead.cli.commands.record:record",
        "Check, back up and export the record.",
    ),
    "web": ("bridgehead.cli.commands.web:web", "Serve the dashboard."),
    "mcp": (
        "bridgehead.cli.commands.mcp:mcp",
        "Serve agents over MCP (Model Context Protocol).",
    ),
    "setup": (
        "bridgehead.cli.commands.setup:setup",
        "Register bridgehead with an agent host or git.",
    ),
    "doctor": (
        "bridgehead.cli.commands.runtimes:doctor",
        "Check this machine and suggest fixes.",
    ),
    "config": (
        "bridgehead.cli.commands.config:config",
        "Show settings and where they come from; trust a project's file.",
    ),
    "completion": (
        "bridgehead.cli.commands.completion:completion",
        "Print a shell completion script.",
    ),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="bridgehead COMMAND --help explains a command and shows examples.",
)
@click.version_option(__version__, "-V", "--version", message="%(version)s")
@click.pass_context
def bridgehead(ctx: click.Context) -> None:
    """The bridge layer for AI agents: one contract, one command, one record."""
    ctx.ensure_object(App)


bridgehead.params += shared_options()


def run_click(arguments: Sequence[str]) -> int:
    """Run the tree.

    Usage errors exit 1 like every other mistake in a request (rigs §13).
    """
    if COMPLETING in os.environ:
        bridgehead.main(
            list(arguments), prog_name="bridgehead", complete_var=COMPLETING
        )
    try:
        # Not `main`, which would turn a reader that leaves early into exit code 1.
        with bridgehead.make_context("bridgehead", list(arguments)) as context:
            result = bridgehead.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        greets = (
            error.ctx is not None and error.ctx.parent is None and sys.stdout.isatty()
        )
        click.echo(_greeting() if greets else error.format_message())
        return ExitCode.DONE
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        complain("bridgehead", message[:1].lower() + message[1:], _usage_hint(error))
        return ExitCode.USER
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else ExitCode.DONE


def _greeting() -> str:
    import shutil

    from bridgehead.host.extras import can_import, missing_extras

    agents = [
        name for name in ("claude", "codex", "gemini", "opencode") if shutil.which(name)
    ]
    found = ", ".join(agents) or "none (a review by static analysis needs none)"
    return greeting(found, [extra.name for extra in missing_extras(can_import)])


def greeting(agents: str, missing: Sequence[str]) -> str:
    """Return what somebody reads who types the bare command: only what works here."""
    optional = ""
    if missing:
        optional = f"\nNot installed: {', '.join(missing)}\n"
    return f"""bridgehead {__version__} connects AI agents across runtimes, machines and processes.

Agents found: {agents}
{optional}
  bridgehead council review   review this project
  bridgehead pending          list what is waiting for an answer
  bridgehead web --open       open the dashboard

`bridgehead --help` lists all commands. `bridgehead doctor` checks this machine
and says what each part that is not installed would add."""


def _usage_hint(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context is not None else None
