"""Colours, and text of others that must not drive the terminal."""

from __future__ import annotations

import pytest

from bridgehead.host.terminal import escape_controls
from bridgehead.rigs.views.terminal import PLAIN, Style, uses_colour

COLOUR = Style(colour=True)


@pytest.mark.parametrize(
    ("status_class", "code"),
    [
        ("completed", 32),
        ("cancelled", 31),
        ("pending", 33),
        ("active", 34),
        ("targeted", 34),
    ],
)
def test_status_classes_have_their_colours(status_class: str, code: int) -> None:
    assert COLOUR.status_class(status_class) == f"\x1b[{code}m{status_class}\x1b[0m"
    assert PLAIN.status_class(status_class) == status_class


@pytest.mark.parametrize(
    ("message_type", "code"),
    [
        ("REQUEST", 34),
        ("HANDOFF", 34),
        ("RESPONSE", 32),
        ("ACK", 32),
        ("RESOLUTION", 32),
        ("RECOVERY", 33),
        ("VERIFY", 31),
        ("DECISIONS", 31),
        ("STATE", None),
        ("RESULT", None),
        ("anything", None),
    ],
)
def test_message_types_have_their_colours(message_type: str, code: int | None) -> None:
    painted = f"\x1b[{code}m{message_type}\x1b[0m" if code else message_type
    assert COLOUR.message_type(message_type) == painted


def test_peer_text_cannot_drive_the_terminal() -> None:
    hostile = "a\x1b[2Jb\x9bc\rd\n\te"
    assert Style(escape_controls=True).text(hostile) == "a\\x1b[2Jb\\x9bc\\x0dd\n\te"
    assert PLAIN.text(hostile) == hostile


def test_what_cannot_be_seen_is_shown() -> None:
    hidden = "pay\u202elacol\u202c \u200binvisible \U000e0041tag \u2066isolated\ufeff"
    shown = Style(escape_controls=True).text(hidden)
    assert (
        shown.isprintable()
        and "\\u202e" in shown
        and "\\U000e0041" in shown
        and "\\u200b" in shown
    )
    assert PLAIN.text(hidden) == hidden
    everything = "".join(map(chr, range(0x10FFFF + 1)))
    assert Style(escape_controls=True).text(everything) == escape_controls(everything)


def test_a_value_never_breaks_its_row() -> None:
    assert PLAIN.value("ACK\nthread=evil\r") == "ACK\\x0athread=evil\\x0d"
    assert PLAIN.message_type("ACK\nthread=evil") == "ACK\\x0athread=evil"


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        ({}, {"is_terminal": True}, True),
        ({}, {"is_terminal": False}, False),
        ({"NO_COLOR": ""}, {"is_terminal": True}, False),
        ({}, {"is_terminal": True, "no_color": True}, False),
        ({}, {"is_terminal": True, "json": True}, False),
    ],
)
def test_when_colour_is_used(
    environment: dict[str, str], options: dict[str, bool], expected: bool
) -> None:
    assert uses_colour(environment, **options) is expected
