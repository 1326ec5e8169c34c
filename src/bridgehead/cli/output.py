"""What a command says: data once on stdout (text, or one JSON object), conversation on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from bridgehead.host.terminal import escape_controls, use_color, width

SCHEMA_VERSION: Final = "1.0"
UNLIMITED: Final = 100_000


class App:
    """What every command is handed: where it runs and how it speaks."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        program: str = "bridgehead",
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        """Without arguments: the process's own directory, environment and streams."""
        self.as_json = as_json
        self.program = program
        self.cwd = cwd or Path.cwd()
        self.environ = os.environ if environ is None else environ
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr

    def emit(self, document: Mapping[str, Any], text: Callable[[], str]) -> None:
        """Print the result: `document` with its schema version under --json, else `text()` as it is."""
        self.stdout.write(json_line(document) if self.as_json else _closed(text()))
        self.stdout.flush()

    def emit_line(self, document: Mapping[str, Any], text: Callable[[], str]) -> None:
        """One of many results of a followed command: a line each, flushed at once."""
        self.emit(document, text)

    def say(self, message: str) -> None:
        """Conversation: progress, warnings, hints. Never data."""
        self.stderr.write(escape_controls(message) + "\n")
        self.stderr.flush()

    def warn(self, message: str) -> None:
        self.say(f"{self.program}: warning: {message}")

    @property
    def width(self) -> int:
        """Columns a line may take: the terminal's, and as many as it needs when somebody else reads."""
        return width(self.stdout, self.environ) if self.stdout.isatty() else UNLIMITED

    @property
    def color(self) -> bool:
        """Whether stdout may be coloured."""
        return not self.as_json and use_color(self.stdout, self.environ)


def json_line(document: Mapping[str, Any]) -> str:
    """One compact JSON object that carries its schema version."""
    return (
        json.dumps({"schema_version": SCHEMA_VERSION, **document}, ensure_ascii=False, separators=(",", ":"))
        + "\n"
    )


def _closed(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
