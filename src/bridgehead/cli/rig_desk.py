"""Where a rig command gets its rig and puts its words: stdout is data, stderr conversation (rigs §7, §11)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from bridgehead.cli.rig_arguments import Arguments
from bridgehead.errors import UserError
from bridgehead.host.file_errors import translated
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.terminal import EncodedText, Style, uses_colour

MAX_BODY_BYTES = 50 * 1024 * 1024


class Result(Protocol):
    """What an operation returns when one line says it."""

    def line(self) -> str: ...

    def json_object(self) -> dict[str, object]: ...


class Desk(NamedTuple):
    """Where a command gets its rig and puts its words."""

    arguments: Arguments
    make_rig: Callable[[], Rig]
    tell: Callable[[str], None]
    environ: Mapping[str, str]

    @property
    def as_json(self) -> bool:
        return self.arguments.has("--json")

    def put(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def put_object(self, document: Mapping[str, object]) -> None:
        from json import dumps

        self.put(dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")

    def emit(self, result: Result) -> None:
        if self.as_json:
            self.put_object(result.json_object())
        else:
            self.put(result.line() + "\n")

    def style(self) -> Style:
        terminal = sys.stdout.isatty()
        colour = uses_colour(
            self.environ, is_terminal=terminal, no_color=self.arguments.has("--no-color"), json=self.as_json
        )
        return Style(colour=colour, escape_controls=terminal)

    def page(self, text: Iterable[str]) -> None:
        """Text that may be long: through the pager on a terminal, as it comes otherwise (rigs §11)."""
        if not sys.stdout.isatty():
            _put_out(text)
            return
        from bridgehead.host.terminal import page as show

        show("".join(text), stream=sys.stdout, environ=self.environ, no_pager_variable="RIG_BRIDGE_NO_PAGER")


def _put_out(text: Iterable[str]) -> None:
    if isinstance(text, EncodedText) and (sys.stdout.encoding or "").lower() == "utf-8":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encoded)
    else:
        sys.stdout.writelines(text)
    sys.stdout.flush()


def body_reader(typed: str | None) -> Callable[[], str] | None:
    """Reads the body when its turn in the checks has come; `-` is standard input."""
    if typed is None:
        return None
    return lambda: _read_body(typed)


def _read_body(typed: str) -> str:
    raw = sys.stdin.buffer.read(MAX_BODY_BYTES + 1) if typed == "-" else _read_file(typed)
    if len(raw) > MAX_BODY_BYTES:
        raise UserError(f"--body-file {typed} is larger than the 50 MiB an envelope may have")
    return raw.decode("utf-8", "replace")


def _read_file(typed: str) -> bytes:
    """Read a file, or a pipe with a name, as `<(command)` is."""
    with translated(typed, "read"):
        if not typed or not Path(typed).exists():
            raise UserError(f"--body-file not found: {typed}")
        with Path(typed).open("rb") as file:
            return file.read(MAX_BODY_BYTES + 1)
