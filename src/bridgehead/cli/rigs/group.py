"""The rig commands as click sees them: for the command list, shell completion and the
reference pages.

They are run by cli/rigs/run.py, before click is even imported.
"""

from __future__ import annotations

import click

from bridgehead.cli.click_classes import SHARED, offer_values
from bridgehead.cli.rigs.commands import COMMANDS, explain, overview

PROGRAM = "bridgehead rig"


class _Described(click.Command):
    """A command whose help is our own and whose flags are known to completion."""

    def __init__(self, name: str) -> None:
        flags = COMMANDS[name].flags
        switches = [
            click.Option([flag], is_flag=True)
            for flag in sorted({*flags.booleans, *SHARED, "--json"})
        ]
        values = [
            click.Option([flag]) for flag in sorted(flags.values | flags.repeatable)
        ]
        threads = (
            [click.Argument(["thread"], required=False)]
            if "<thread-id>" in COMMANDS[name].usage
            else []
        )
        super().__init__(
            name, params=[*threads, *values, *switches], help=COMMANDS[name].summary
        )
        offer_values(one for one in self.params if one.name == "thread")

    def get_help(self, ctx: click.Context) -> str:
        return explain(PROGRAM, str(self.name)).rstrip("\n")


class _Rig(click.Group):
    def get_help(self, ctx: click.Context) -> str:
        return overview(PROGRAM).rstrip("\n")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


rig = _Rig(
    "rig",
    commands={name: _Described(name) for name in COMMANDS},
    help="Exchange signed messages between agents on different machines, over git.",
)
