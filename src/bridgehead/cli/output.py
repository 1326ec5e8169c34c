"""What a command prints: data once on stdout (text, or one JSON object), conversation
on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from bridgehead.errors import FileError, UserError
from bridgehead.host.clock import rough
from bridgehead.host.files import read_bounded
from bridgehead.host.terminal import (
    display_width,
    escape_controls,
    pad,
    truncate,
    use_color,
    width,
)

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly

PROGRAM: Final = "bridgehead"
SCHEMA_VERSION: Final = "1.0"
UNLIMITED: Final = 100_000
GAP = "  "


class App:
    """What every command is handed: where it runs and how it speaks."""

    quiet = verbose = False  # told once for the whole process, by --quiet and --verbose

    def __init__(
        self,
        *,
        as_json: bool = False,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        """Without arguments: the process's own directory, environment and streams."""
        self.as_json = as_json
        self.cwd = cwd or Path.cwd()
        self.environ = os.environ if environ is None else environ
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr

    def assembly(self, *, warns: bool = True) -> Assembly:
        """Return what there is to work with here.

        Warnings about settings are said unless somebody else says them.
        """
        from bridgehead.assembly.application import Assembly

        return Assembly(self.cwd, self.environ, warn=self.warn if warns else None)

    def emit(self, document: Mapping[str, Any], text: Callable[[], str]) -> None:
        """Print the result: `document` with its schema version under --json, else
        `text()` as it is.
        """
        self.stdout.write(json_line(document) if self.as_json else _closed(text()))
        self.stdout.flush()

    def say(self, message: str) -> None:
        """Progress and notes, which --quiet leaves out."""
        if not self.quiet:
            self.insist(message)

    def insist(self, message: str) -> None:
        """What must be read even then: warnings, refusals, questions. Never data."""
        self.stderr.write(escape_controls(message) + "\n")
        self.stderr.flush()

    def warn(self, message: str) -> None:
        self.insist(f"{PROGRAM}: warning: {message}")

    @property
    def width(self) -> int:
        """Columns a line may take: the terminal's, and as many as it needs when
        somebody else reads.
        """
        return width(self.stdout, self.environ) if self.stdout.isatty() else UNLIMITED

    @property
    def color(self) -> bool:
        """Whether stdout may be coloured."""
        return not self.as_json and use_color(self.stdout, self.environ)


def json_line(document: Mapping[str, Any]) -> str:
    """Return one compact JSON object that carries its schema version."""
    return (
        json.dumps(
            {"schema_version": SCHEMA_VERSION, **document},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        + "\n"
    )


def _closed(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago: `2 min`, `1 h`, `3 d`."""
    return rough((now - then).total_seconds())


def columns(rows: Sequence[Sequence[str]], *, width: int, flexible: int) -> str:
    """Rows as aligned columns.

    The `flexible` one is cut so that lines fit `width`, the last is never padded.
    """
    if not rows:
        return ""
    widths = [
        max(display_width(row[column]) for row in rows)
        for column in range(len(rows[0]))
    ]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if excess > 0:
        widths[flexible] = max(12, widths[flexible] - excess)
    return "\n".join(_line(row, widths) for row in rows) + "\n"


def one_line(text: str) -> str:
    """Return `text` on one line, for a cell of a table."""
    return " ".join(text.split())


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        pad(truncate(cell, width), width)
        for cell, width in zip(row, widths, strict=True)
    ]
    return GAP.join(cells).rstrip()


def read_named(path: Path, most_bytes: int, *, hint: str | None = None) -> bytes:
    """Return its content.

    One that cannot be read makes the request mistaken (council §20).
    """
    try:
        return read_bounded(path, most_bytes)
    except FileError as error:
        raise UserError(error.message, hint=error.hint or hint) from error


def read_text(path: Path | str, most_bytes: int, *, hint: str | None = None) -> str:
    """Return a text that was named on the command line; `-` is standard input."""
    if str(path) == "-":
        content = sys.stdin.buffer.read(most_bytes + 1)
    else:
        content = read_named(Path(path), most_bytes, hint=hint)
    source = "standard input" if str(path) == "-" else path
    if len(content) > most_bytes:
        raise UserError(
            f"{source} is larger than {most_bytes / (1 << 20):g} MiB", hint=hint
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source} is not UTF-8 text: {error}") from error


def user_name(unknown: str = "unknown") -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return unknown
