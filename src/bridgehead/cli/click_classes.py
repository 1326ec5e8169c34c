"""click classes of ours: groups that import a command when it is run, commands that show examples in their help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click

from bridgehead.cli.output import App

UNSHORTENED: Final = 1000


class Command(click.Command):
    """A command with --json and --debug, and examples at the end of its help."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.examples = tuple(examples)
        self.params += [
            click.Option(
                ["--json"], is_flag=True, expose_value=False, callback=_choose_json, help="Print one JSON object."
            ),
            click.Option(["--debug"], is_flag=True, expose_value=False, help="Show tracebacks."),
        ]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl([(example, "") for example in self.examples])


class Group(click.Group):
    """A group whose subcommands are `Command`s."""

    command_class = Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with its whole first sentence."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(UNSHORTENED)) for name, command in commands if command]
            )


class LazyGroup(Group):
    """A group that knows its commands by name and sentence, and imports one when it is wanted."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **keywords: Any) -> None:
        """`lazy`: command name -> ("module:attribute", one sentence for the list)."""
        super().__init__(*arguments, **keywords)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *(name for name in super().list_commands(ctx) if name not in self._lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self._lazy.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = " or ".join(f"'{words}'" for words in self._meant(ctx, args[0]))
            raise click.UsageError(f"{error.message} Did you mean {meant}?", error.ctx) if meant else error from None

    def _meant(self, ctx: click.Context, given: str) -> list[str]:
        """What an unknown name may stand for: one of ours, one in a group of ours, one whose sentence has the word."""
        from difflib import get_close_matches

        if close := get_close_matches(given, self.list_commands(ctx), n=1):
            return close
        groups = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        inside = [name for name, one in groups if isinstance(one, click.Group) and given in one.list_commands(ctx)]
        spoken = [name for name, (_, sentence) in self._lazy.items() if given in sentence.lower().rstrip(".").split()]
        return [f"{name} {given}" for name in inside] or spoken


def _choose_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(App).as_json = True
