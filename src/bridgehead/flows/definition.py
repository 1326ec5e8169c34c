"""What a flow is: a function with a name and a version, found again by them when it is resumed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridgehead.flows.documents import Contract
from bridgehead.flows.errors import FlowMistake

OptionReader = Callable[[Sequence[str], Path], tuple[dict[str, Any], dict[str, Any]]]
"""(words, root) -> the settings given, and the defaults of a new run."""
RootReader = Callable[[Sequence[str]], Path | None]
"""(words) -> the root that one of them names."""
Abandon = Callable[[Mapping[str, Any], str], None]
"""(settings, flow id): remove what a run that is given up has half made."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Flow:
    """A function `(ctx, **input)` that may pause for agents. Calling it runs the function in the caller's context."""

    def __init__(
        self,
        name: str,
        version: str,
        function: Callable[..., Any],
        *,
        compatible_with: Sequence[str] = (),
        agents: Sequence[str] = (),
        keeps_state_file: bool = False,
        read_words: OptionReader | None = None,
        root_in: RootReader | None = None,
        describe_options: Callable[[], list[tuple[str, str]]] | None = None,
        operational: Sequence[str] = (),
        abandon: Abandon | None = None,
    ) -> None:
        """`agents`: those it is known to ask, for the message when a handler knows none of that name.

        `keeps_state_file`: keeps `.template-create-state.json` and speaks contract 1.0; see phases.py.
        `read_words`: reads a command line into settings, for options that are more than the function's parameters.
        `root_in`: finds the flow's root among those options, where it has one for that besides --dir.
        `describe_options`: those options for --help, each with what it does.
        `abandon`: cleans up after a run that is given up by `--fresh` or `flow cancel`.
        `operational`: settings that hold for one command and may be given anew on resume; no step's input may use them.
        """
        if not _NAME.fullmatch(name):
            raise FlowMistake(f"{name!r} cannot name a flow: use lower-case letters, digits, '.', '_', '-'")
        self.name = name
        self.version = version
        self.function = function
        self.compatible_with = tuple(compatible_with)
        self.agents = tuple(agents)
        self.keeps_state_file = keeps_state_file
        self.read_words = read_words
        self.root_in = root_in
        self.describe_options = describe_options
        self.operational = frozenset(operational)
        self.abandon = abandon

    def __call__(self, ctx: Any, *arguments: Any, **keywords: Any) -> Any:
        return self.function(ctx, *arguments, **keywords)

    @property
    def contract(self) -> Contract:
        return Contract.SEED if self.keeps_state_file else Contract.OPEN

    def can_resume(self, paused_version: str) -> bool:
        """Whether a run paused by that version may go on as this one (flows §14)."""
        return paused_version == self.version or paused_version in self.compatible_with


def flow(
    name: str,
    *,
    version: str = "1",
    compatible_with: Sequence[str] = (),
    agents: Sequence[str] = (),
    keeps_state_file: bool = False,
    read_words: OptionReader | None = None,
    root_in: RootReader | None = None,
    describe_options: Callable[[], list[tuple[str, str]]] | None = None,
    operational: Sequence[str] = (),
    abandon: Abandon | None = None,
) -> Callable[[Callable[..., Any]], Flow]:
    """Make a flow of a function. Change `version` when its steps change; paused runs of another one are refused."""

    def decorate(function: Callable[..., Any]) -> Flow:
        return Flow(
            name,
            version,
            function,
            compatible_with=compatible_with,
            agents=agents,
            keeps_state_file=keeps_state_file,
            read_words=read_words,
            root_in=root_in,
            describe_options=describe_options,
            operational=operational,
            abandon=abandon,
        )

    return decorate
