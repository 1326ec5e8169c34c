"""The command tree: names and sentences only; a command's module is imported when it is run."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from bridgehead import __version__
from bridgehead.cli.click_classes import LazyGroup
from bridgehead.cli.output import App
from bridgehead.cli.running import complain
from bridgehead.exit_codes import ExitCode

COMPLETING = "_BRIDGEHEAD_COMPLETE"

COMMANDS = {
    "council": ("bridgehead.cli.council.council:council", "Several agents look at the same thing, argue, and report."),
    "runtimes": ("bridgehead.cli.commands.runtimes:runtimes", "Who could sit in a council, and why not."),
    "domains": ("bridgehead.cli.commands.runtimes:domains", "Points of view a council knows."),
    "rig": ("bridgehead.cli.rigs.group:rig", "Messages between agents on different machines, with git as the queue."),
    "flow": ("bridgehead.cli.flows.flows:flow", "Programs that pause for an agent and go on when it has answered."),
    "template": (
        "bridgehead.cli.flows.template:template",
        "Projects made from the packages of the flow template-create.",
    ),
    "bus": ("bridgehead.cli.bus:bus", "A live bridge between a message bus and remote participants."),
    "pending": ("bridgehead.cli.commands.pending:pending", "What waits for someone, over all projects."),
    "answer": ("bridgehead.cli.commands.pending:answer", "Answer a pending item, once."),
    "events": ("bridgehead.cli.commands.record:events", "What happened, in order."),
    "record": ("bridgehead.cli.commands.record:record", "Check, copy and export what was recorded."),
    "web": ("bridgehead.cli.commands.web:web", "The dashboard, in your browser."),
    "mcp": ("bridgehead.cli.commands.mcp:mcp", "Serve agents over the Model Context Protocol."),
    "setup": ("bridgehead.cli.commands.setup:setup", "Make bridgehead known to an agent's host, or to git."),
    "doctor": ("bridgehead.cli.commands.doctor:doctor", "Check this machine and say what to do about it."),
    "config": (
        "bridgehead.cli.commands.config:config",
        "Show settings and where they come from; trust a project's file.",
    ),
    "completion": ("bridgehead.cli.commands.completion:completion", "Print a shell completion script."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="bridgehead COMMAND --help explains a command and shows examples.",
)
@click.version_option(__version__, "-V", "--version", message="%(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.pass_context
def bridgehead(ctx: click.Context) -> None:
    """The bridge layer for AI agents: one contract, one command, one record."""
    ctx.ensure_object(App)


def run_click(arguments: Sequence[str]) -> int:
    """Run the tree; usage errors exit 1 like every other mistake in a request (rigs §13)."""
    if COMPLETING in os.environ:
        bridgehead.main(list(arguments), prog_name="bridgehead", complete_var=COMPLETING)
    try:
        # Not `main`, which would turn a reader that leaves early into exit code 1.
        with bridgehead.make_context("bridgehead", list(arguments)) as context:
            result = bridgehead.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.DONE
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        complain("bridgehead", _sentence(error), _usage_hint(error))
        return ExitCode.USER
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else ExitCode.DONE


def _sentence(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    return message[:1].lower() + message[1:]


def _usage_hint(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context is not None else None
