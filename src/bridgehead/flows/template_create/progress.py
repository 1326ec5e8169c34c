"""Tell the user how far a run has come: one line on stderr per finished phase."""

from __future__ import annotations

import sys
from typing import TextIO

from bridgehead.host.terminal import escape_controls, truncate, width

PHASES = 9


class Progress:
    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr

    def finished(self, number: int, name: str, summary: str) -> None:
        line = f"[{number}/{PHASES}] {name.replace('_', ' ')}: {summary}"
        columns = width(self._stream) if self._stream.isatty() else 200
        self._stream.write(truncate(escape_controls(line, keep=""), columns) + "\n")
        self._stream.flush()
