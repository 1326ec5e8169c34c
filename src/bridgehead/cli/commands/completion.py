"""`bridgehead completion SHELL`: the script that lets a shell complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App

SHELLS = ("bash", "zsh", "fish")
# A script says for which command it is (`bh` is the same command); for fish click cuts
# descriptions at the first comma.
CHANGES = (
    ("-F _bridgehead_completion bridgehead", "-F _bridgehead_completion bridgehead bh"),
    ("#compdef bridgehead", "#compdef bridgehead bh"),
    (
        "compdef _bridgehead_completion bridgehead",
        "compdef _bridgehead_completion bridgehead bh",
    ),
    ("--command bridgehead", "--command bridgehead --command bh"),
    ('string split "," $completion', 'string split --max 1 "," $completion'),
)


@click.command(
    cls=Command,
    examples=(
        'eval "$(bridgehead completion bash)"',
        "bridgehead completion fish > ~/.config/fish/completions/bridgehead.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL; evaluate it in your shell's startup file."""
    completer = get_completion_class(shell)
    assert completer is not None
    source = completer(
        ctx.find_root().command, {}, "bridgehead", "_BRIDGEHEAD_COMPLETE"
    ).source()
    for old, new in CHANGES:
        source = source.replace(old, new)
    ctx.ensure_object(App).emit({"shell": shell, "script": source}, lambda: source)
