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


def show_what_happens(program: str) -> None:
    """From now on until the process ends; forked children keep it to themselves."""
    begun = time.monotonic()
    ours = os.getpid()
    opened = set[str]()

    def tell(text: str) -> None:
        if os.getpid() == ours:
            line = truncate(
                escape_controls(_CREDENTIALS.sub("", text), keep=""), LONGEST
            )
            sys.stderr.write(f"{program}: {line}\n")
            sys.stderr.flush()

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            tell(
                "starting "
                + _AROUND.sub("", shlex.join(map(os.fsdecode, arguments[1])))
            )
        elif (
            event == "sqlite3.connect"
            and (file := os.fsdecode(arguments[0])) not in opened
        ):
            opened.add(file)
            tell(f"opening {file}")
        elif event == "socket.connect":
            place = arguments[1]
            tell(
                "connecting to "
                + (
                    ":".join(map(str, place[:2]))
                    if isinstance(place, tuple)
                    else os.fsdecode(place)
                )
            )

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{program}: %(message)s"))
    logger = logging.getLogger("bridgehead")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    atexit.register(lambda: tell(f"ended after {time.monotonic() - begun:.2f} s"))
    sys.addaudithook(heard)
