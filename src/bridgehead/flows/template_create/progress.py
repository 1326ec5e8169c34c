"""Show on a terminal how far a run has come: one line on stderr, in place, gone when the run pauses or ends."""

from __future__ import annotations

import logging
import os
import sys
import time
from types import TracebackType
from typing import Final, Self, TextIO

from bridgehead.host.terminal import escape_controls, truncate, width

PHASES: Final = 9
_CLEAR_LINE: Final = "\r\x1b[K"
_log: Final = logging.getLogger("bridgehead.flows")


class _AboveTheLine(logging.Handler):
    """Writes warnings where the line was; the next phase draws it again below."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        self._stream.write(f"{_CLEAR_LINE}{escape_controls(record.getMessage())}\n")
        self._stream.flush()


class Progress:
    """The line. Where nobody watches (a pipe, a file, a dumb terminal) nothing is written at all."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._watched = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._above = _AboveTheLine(self._stream)

    def entered(self, number: int, name: str) -> None:
        """Phase `number` has begun."""
        self._show(number - 1, f"{number}/{PHASES} {_words(name)}")

    def finished(self, number: int, name: str, summary: str) -> None:
        """Phase `number` has ended, with this result."""
        self._show(number, f"{number}/{PHASES} {_words(name)}: {summary}")

    def __enter__(self) -> Self:
        if self._watched:
            _log.addHandler(self._above)
            _log.propagate = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watched:
            _log.removeHandler(self._above)
            _log.propagate = True
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()

    def _show(self, done: int, text: str) -> None:
        if not self._watched:
            return
        dots = "●" * done + "○" * (PHASES - done)
        took = f"{time.monotonic() - self._began:.1f} s"
        line = f"template-create  {dots}  {took}  {escape_controls(text, keep='')}"
        self._stream.write(_CLEAR_LINE + truncate(line, width(self._stream) - 1))
        self._stream.flush()


def _words(name: str) -> str:
    return name.replace("_", " ")
