"""Every choice that the reference of the commands offers is taken by the command it stands at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bridgehead.cli.tree import bridgehead

REFERENCE = (
    Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "cli.md"
)


def options(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[str, str, click.Choice[str]]]:
    """Command, option and choices of everything below `command`."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from options(below, (*path, name))
    for parameter in command.params:
        if isinstance(parameter, click.Option) and isinstance(
            parameter.type, click.Choice
        ):
            yield " ".join(path), parameter.opts[0], parameter.type


CHOICES = list(options(bridgehead, ("bridgehead",)))


@pytest.mark.parametrize(
    ("command", "option", "choice"), CHOICES, ids=lambda value: str(value)
)
def test_a_documented_choice_is_taken(
    command: str, option: str, choice: click.Choice[str]
) -> None:
    shown = re.findall(
        rf"{re.escape(option)}\b[^\[\n]*\[([^\]]+)\]",
        REFERENCE.read_text(encoding="utf-8"),
    )
    words = {word for group in shown for word in group.split("|")}
    for word in choice.choices:
        assert word in words, f"{command} {option} {word} is not in the reference"
        assert choice.convert(word, None, None) == word
