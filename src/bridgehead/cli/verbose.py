"""What --verbose adds on stderr: each program started, each record opened, each
connection made, the log, the end.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import sys
import time
from typing import Any, Final

from bridgehead.host.terminal import escape_controls, truncate

LONGEST: Final = 200
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/@\s]+@")
_AROUND: Final = re.compile(
    r"^(\S+(bwrap| -I -S \S+confinement\.py) .*? -- )+|(?<=^git )(-c \S+ )+"
)


class _Reporter:
    """Write what this process does to stderr; forked children say nothing."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._begun = time.monotonic()
        self._pid = os.getpid()
        self._opened: set[str] = set()

    def write(self, text: str) -> None:
        if os.getpid() != self._pid:
            return
        shown = escape_controls(_CREDENTIALS.sub("", text), keep="")
        sys.stderr.write(f"{self._program}: {truncate(shown, LONGEST)}\n")
        sys.stderr.flush()

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Report an event of the interpreter, as `sys.addaudithook` hands it over."""
        if event == "subprocess.Popen":
            command = shlex.join(map(os.fsdecode, arguments[1]))
            self.write(f"starting {_AROUND.sub('', command)}")
        elif event == "sqlite3.connect":
            file = os.fsdecode(arguments[0])
            if file not in self._opened:
                self._opened.add(file)
                self.write(f"opening {file}")
        elif event == "socket.connect":
            self.write(f"connecting to {_address(arguments[1])}")

    def end(self) -> None:
        self.write(f"ended after {time.monotonic() - self._begun:.2f} s")


def _address(address: Any) -> str:
    if isinstance(address, tuple):
        return ":".join(map(str, address[:2]))
    return os.fsdecode(address)


def show_what_happens(program: str) -> None:
    """Report what this process does from now on until it ends."""
    reporter = _Reporter(program)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{program}: %(message)s"))
    logger = logging.getLogger("bridgehead")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    atexit.register(reporter.end)
    sys.addaudithook(reporter.audit)
