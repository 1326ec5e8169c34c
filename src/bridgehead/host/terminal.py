"""The user's terminal: whether to colour, how wide it is, paging, and foreign text that
must not drive it.

Nothing here reads the environment by itself; it is passed in, and so are the names of
variables that are the caller's own. Widths follow the Unicode tables of the standard
library, which is near enough for aligning columns.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import subprocess

DEFAULT_COLUMNS = 80
DEFAULT_ROWS = 24

RESET = "\x1b[0m"
RED = 31
GREEN = 32
YELLOW = 33
BLUE = 34

# What can move the cursor, hide text or change its order: controls, soft hyphen,
# bidirectional marks and overrides, zero-width characters, line separators, halves of
# surrogate pairs, byte order mark, annotations, tags.
_DRIVING = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f"
)
_WIDTHLESS = frozenset({"Mn", "Me", "Cc", "Cf", "Cs", "Zl", "Zp"})


def use_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Decide about colour."""
    # The presence of NO_COLOR counts, even when it is empty (rigs §11).
    return (
        "NO_COLOR" not in environ and environ.get("TERM") != "dumb" and stream.isatty()
    )


def style(text: str, *codes: int) -> str:
    """Wrap `text` in SGR codes; without codes it stays as it is."""
    if not codes or not text:
        return text
    return f"\x1b[{';'.join(map(str, codes))}m{text}{RESET}"


def width(
    stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> int:
    """Return the columns of the terminal behind `stream` (stdout unless given)."""
    return _size(stream, environ)[0]


def height(
    stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> int:
    """Return the rows of the terminal behind `stream` (stdout unless given)."""
    return _size(stream, environ)[1]


def escape_controls(text: str, *, keep: str = "\n\t") -> str:
    r"""Show every character that could drive the terminal or deceive its reader as an
    escape such as \x1b.
    """
    if text.isascii() and text.isprintable():
        return text  # without the pattern, which takes a while to make
    return _driving_characters().sub(
        lambda found: found[0] if found[0] in keep else _escaped(found[0]), text
    )


def display_width(text: str) -> int:
    """Return how many columns `text` takes; wide characters take two, combining none."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_char_width, text))


def truncate(text: str, columns: int, *, ellipsis: str = "…") -> str:
    """Cut `text` to at most `columns`, saying so with an ellipsis.

    Never cuts a wide character in half.
    """
    if display_width(text) <= columns:
        return text
    room = columns - display_width(ellipsis)
    if room < 0:
        return ""
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > room:
            return text[:position] + ellipsis
    return text


def pad(text: str, columns: int) -> str:
    """Fill `text` with blanks to `columns`; a longer one stays as it is."""
    return text + " " * (columns - display_width(text))


def page(
    text: str, *, stream: TextIO, environ: Mapping[str, str], no_pager_variable: str
) -> None:
    """Show `text`, through the user's pager if it is longer than the terminal (rigs
    §11).
    """
    pager = _pager(environ.get("PAGER"))
    if (
        pager is None
        or environ.get(no_pager_variable) == "1"
        or not stream.isatty()
        or text.count("\n") <= height(stream, environ)
        or not _shown_by(pager, text, stream, environ)
    ):
        stream.write(text)


def _size(stream: TextIO | None, environ: Mapping[str, str] | None) -> tuple[int, int]:
    given = os.environ if environ is None else environ
    try:
        columns, rows = os.get_terminal_size(1 if stream is None else stream.fileno())
    except (
        OSError,
        ValueError,
    ):  # not a terminal, or a stream without a file behind it
        columns = 0
        rows = 0
    return (
        _positive(given.get("COLUMNS")) or columns or DEFAULT_COLUMNS,
        _positive(given.get("LINES")) or rows or DEFAULT_ROWS,
    )


def _positive(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


@cache
def _driving_characters() -> re.Pattern[str]:
    return re.compile(f"[{_DRIVING}]")


def _escaped(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _char_width(char: str) -> int:
    if unicodedata.category(char) in _WIDTHLESS or "\u1160" <= char <= "\u11ff":
        # the last are the vowels and finals of Hangul, drawn into the syllable before
        # them
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _pager(setting: str | None) -> list[str] | None:
    """Return the pager's command line, or None if the user wants none."""
    command = ["less"] if setting is None else setting.split()
    if not command or command == ["cat"]:
        return None
    if len(command) == 1 and command[0].rpartition("/")[2] == "less":
        return [*command, "-FIRX"]
    return command


def _shown_by(
    pager: list[str], text: str, stream: TextIO, environ: Mapping[str, str]
) -> bool:
    """Run the pager; False if it failed, so that the text is not lost with it."""
    import subprocess  # seldom needed, and it would slow the start of every command

    from bridgehead.host.child import SignalsHeld, end_child

    stream.flush()
    process: subprocess.Popen[bytes] | None = None
    try:
        try:
            with SignalsHeld():
                process = subprocess.Popen(
                    pager,
                    stdin=subprocess.PIPE,
                    stdout=stream.fileno(),
                    env=dict(environ),
                )
        except (OSError, ValueError):
            return False
        _feed(process, text.encode("utf-8", "replace"))
    finally:
        if process is not None:
            end_child(process)
    return process.returncode <= 0  # leaving it by a signal is the user's decision


def _feed(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Hand over the text and wait.

    An interrupt reaches the pager too, which decides whether to go.
    """
    unsent: bytes | None = text
    while process.returncode is None:
        try:
            process.communicate(unsent)
        except KeyboardInterrupt:
            unsent = None
