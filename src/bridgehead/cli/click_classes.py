"""click classes of ours: groups that import a command when it is run, commands that
show examples in their help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from bridgehead.cli.output import App
from bridgehead.errors import BridgeheadError, UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from bridgehead.assembly.application import Assembly

UNSHORTENED: Final = 1000
MOST_OFFERED: Final = 50
SYNONYMS: Final = dict.fromkeys(
    (
        "--agent",
        "--agents",
        "--bridge",
        "--bridges",
        "--model",
        "--models",
        "--seat",
        "--seats",
    ),
    "--runtime",
)
"""What else people call an option."""
SHARED: Final = {
    "--quiet": "Print no progress and no notes.",
    "--verbose": "Show programs started and connections made.",
    "--no-color": "Print without colors.",
    "--debug": "Show tracebacks.",
}


def _pending(assembly: Assembly) -> list[str]:
    with assembly.store(read_only=True) as store:
        return [item.id for item in store.pending(limit=MOST_OFFERED)]


def _runs(assembly: Assembly, *parts: str) -> list[str]:
    from bridgehead.contract.record_words import Part
    from bridgehead.control_plane.records import RunFilter

    with assembly.store(read_only=True) as store:
        return [
            run.id
            for run in store.runs(
                RunFilter(parts=tuple(map(Part, parts))), limit=MOST_OFFERED
            )
        ]


def _runtimes(_assembly: Assembly) -> Iterable[str]:
    from bridgehead.council.runtimes import BUILT_IN

    return BUILT_IN


def _domains(assembly: Assembly) -> list[str]:
    from bridgehead.assembly.council.files import read_own_domains
    from bridgehead.assembly.council.journal import registry_with

    return [
        domain.id for domain in registry_with(read_own_domains(assembly)[0]).domains
    ]


def _participants(assembly: Assembly) -> Iterable[str]:
    from bridgehead.assembly.bus.bus import bus_settings, state_folder

    return state_folder(assembly, bus_settings(assembly, {})).records()


def _record_keys(_assembly: Assembly) -> Iterable[str]:
    from bridgehead.bus.participants.record import RECORD_KEYS

    return RECORD_KEYS


def _threads(assembly: Assembly) -> list[str]:
    from bridgehead.rigs.envelope.fields import is_thread_id

    found = []
    for folder in (assembly.cwd, *assembly.cwd.parents):
        if not (folder / ".bridge").is_dir():
            continue
        for entry in folder.iterdir():
            if is_thread_id(entry.name) and any(entry.glob("*.md")):
                found.append(entry.name)
    return found


VALUES: Final[Mapping[str, Callable[[Assembly], Iterable[str]]]] = {
    "item_id": _pending,
    "review_id": lambda assembly: _runs(assembly, "council"),
    "flow_id": lambda assembly: _runs(assembly, "flows"),
    "run_id": _runs,
    **dict.fromkeys(("runtimes", "retry", "require_runtime"), _runtimes),
    **dict.fromkeys(("domains", "add_domains", "domain"), _domains),
    **dict.fromkeys(("participant_id", "participant", "to"), _participants),
    "key": _record_keys,
    "thread": _threads,
}
"""What a shell offers for a parameter of this name: read from files and the record, no
program is started for it.
"""


class KnownValue(click.types.StringParamType):
    """Any text; a shell offers what there is."""

    def __init__(self, values: Callable[[Assembly], Iterable[str]]) -> None:
        self._values = values

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with suppress(BridgeheadError, OSError):
            known = self._values(App().assembly(warns=False))
            return [
                CompletionItem(value)
                for value in sorted(known)
                if value.startswith(incomplete)
            ]
        return []


def offer_values(params: Iterable[click.Parameter]) -> None:
    """Let a shell complete those whose values we know."""
    for param in params:
        if param.type is click.STRING and param.name in VALUES:
            param.type = KnownValue(VALUES[param.name])


def shared_options() -> list[click.Parameter]:
    """For the help and for shells: what every command takes has been heeded before
    click is asked.
    """
    return [
        click.Option([flag], is_flag=True, expose_value=False, help=text)
        for flag, text in SHARED.items()
    ]


class Command(click.Command):
    """A command with --json and the shared options, and examples at the end of its
    help.
    """

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.examples = tuple(examples)
        offer_values(self.params)
        self.params += [
            click.Option(
                ["--json"],
                is_flag=True,
                expose_value=False,
                callback=_choose_json,
                help="Print one JSON object.",
            ),
            *shared_options(),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ours = SYNONYMS.get(error.option_name)
            if not any(ours in one.opts for one in self.params):
                raise
            raise click.UsageError(
                f"{error.message} Did you mean '{ours}'?", error.ctx
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            error.hint = error.hint or f"{ctx.command_path} --help"
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl([(example, "") for example in self.examples])


class Group(click.Group):
    """A group whose subcommands are `Command`s."""

    command_class = Command
    group_class = type

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands, each with its whole first sentence."""
        commands = [
            (name, self.get_command(ctx, name)) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(UNSHORTENED))
                    for name, command in commands
                    if command
                ]
            )


class LazyGroup(Group):
    """A group that knows its commands by name and sentence, and imports one when it is
    wanted.
    """

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, tuple[str, str]] | None = None,
        **keywords: Any,
    ) -> None:
        """`lazy`: command name -> ("module:attribute", one sentence for the list)."""
        super().__init__(*arguments, **keywords)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [
            *self._lazy,
            *(name for name in super().list_commands(ctx) if name not in self._lazy),
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, sentence) for name, (_, sentence) in self._lazy.items()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = " or ".join(f"'{words}'" for words in self._meant(ctx, args[0]))
            if not meant:
                raise error from None
            message = f"{error.message} Did you mean {meant}?"
            raise click.UsageError(message, error.ctx) from None

    def _meant(self, ctx: click.Context, given: str) -> list[str]:
        """Return what an unknown name may stand for.

        That is one of our commands, one in a group of ours, or one whose sentence has
        the word.
        """
        from difflib import get_close_matches

        close = get_close_matches(given, self.list_commands(ctx), n=1)
        if close:
            return close
        in_groups = []
        similar_in_groups = []
        for name in self.list_commands(ctx):
            group = self.get_command(ctx, name)
            if not isinstance(group, click.Group):
                continue
            below = group.list_commands(ctx)
            if given in below:
                in_groups.append(f"{name} {given}")
            for match in get_close_matches(given, below, 1, 0.7):
                similar_in_groups.append(f"{name} {match}")
        described = [
            name
            for name, (_, sentence) in self._lazy.items()
            if given in sentence.lower().rstrip(".").split()
        ]
        return in_groups or described or similar_in_groups


def _choose_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(App).as_json = True
