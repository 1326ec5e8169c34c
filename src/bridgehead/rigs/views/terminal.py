"""Decide on colour, and keep peer text from driving the terminal (rigs §11).

These are decisions only: the caller says whether stdout is a terminal.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.rigs.envelope.fields import StatusClass

RED = 31
GREEN = 32
YELLOW = 33
BLUE = 34
_CLASS_COLOURS: dict[str, int] = {
    StatusClass.COMPLETED: GREEN,
    StatusClass.CANCELLED: RED,
    StatusClass.PENDING: YELLOW,
    StatusClass.ACTIVE: BLUE,
    StatusClass.TARGETED: BLUE,
}
_TYPE_COLOURS = {
    "REQUEST": BLUE,
    "HANDOFF": BLUE,
    "RESPONSE": GREEN,
    "ACK": GREEN,
    "RESOLUTION": GREEN,
    "RECOVERY": YELLOW,
    "VERIFY": RED,
    "DECISIONS": RED,
}
# What could drive a terminal or deceive its reader; host/terminal.py has the same list
# for everything else.
_CONTROLS = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_LINE_BREAKS = re.compile("[\r\n]")


class Style(NamedTuple):
    """How to write text that holds words of other rigs."""

    colour: bool = False
    escape_controls: bool = False  # true on a terminal; piped output stays raw

    def paint(self, text: str, colour: int | None) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour and colour else text

    def status_class(self, status_class: str) -> str:
        return self.paint(status_class, _CLASS_COLOURS.get(status_class))

    def message_type(self, message_type: str) -> str:
        return self.paint(self.value(message_type), _TYPE_COLOURS.get(message_type))

    def text(self, text: str) -> str:
        """Return text of several lines with its control characters made visible."""
        return re.sub(_CONTROLS, _escaped, text) if self.escape_controls else text

    def value(self, text: str) -> str:
        """Return a value for a row: one line, whatever an envelope says."""
        return self.text(_LINE_BREAKS.sub(_escaped, text))


PLAIN = Style()


def _escaped(character: re.Match[str]) -> str:
    code = ord(character[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def uses_colour(
    environment: Mapping[str, str],
    *,
    is_terminal: bool,
    no_color: bool = False,
    json: bool = False,
) -> bool:
    """Return whether to use colour; NO_COLOR forbids it even if empty."""
    return is_terminal and "NO_COLOR" not in environment and not no_color and not json
