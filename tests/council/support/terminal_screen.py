"""A terminal for tests: a command run on a pseudo-terminal, and what a person would see of what it wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTROL = re.compile(
    r"\x1b\[(?P<numbers>[?0-9;]*)(?P<letter>[A-Za-z])|\r|\n|[^\x1b\r\n]+"
)
ROWS = 30


class Screen:
    """What is left on the screen and in scrollback; knows the few controls that a table in place needs."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self._row = self._column = 0

    @classmethod
    def after(cls, written: str) -> Screen:
        screen = cls()
        for control in _CONTROL.finditer(written):
            screen._take(control)
        return screen

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def _take(self, control: re.Match[str]) -> None:
        number = int(control["numbers"]) if (control["numbers"] or "").isdigit() else 1
        match control["letter"] or control[0]:
            case "\r":
                self._column = 0
            case "\n":
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            case "A":
                self._row = max(0, self._row - number)
            case "K":
                self.lines[self._row] = ""
            case letter if control["letter"]:
                assert letter in "mhl", (
                    f"a control this screen does not know: {control[0]!r}"
                )
            case words:
                line = self.lines[self._row].ljust(self._column)
                self.lines[self._row] = (
                    line[: self._column] + words + line[self._column + len(words) :]
                )
                self._column += len(words)


class Terminal:
    """A command on a pseudo-terminal: read until it says something, type, look at what is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 100,
    ) -> None:
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(command[0], list(command), {**environ, "TERM": "xterm-256color"})
        fcntl.ioctl(
            self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0)
        )
        self.written = ""
        self._asked_for = 0

    def wait_for(self, text: str) -> None:
        """Read on until `text` stands in what was written since the last time."""
        while text not in self.written[self._asked_for :]:
            assert self._read(), f"{text!r} did not come:\n{self.written}"
        self._asked_for = len(self.written)

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def finish(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def screen(self) -> Screen:
        return Screen.after(self.written)

    def _read(self) -> bool:
        try:
            content = os.read(self._handle, 65536)
        except OSError:  # the other side has closed
            return False
        self.written += content.decode("utf-8", "replace")
        return bool(content)
