"""Lines of standard input for a program that listens to something else meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Final

PIECE_BYTES: Final = 64 * 1024
MOST_WAITING: Final = 64


class TypedLines:
    """Reads in a thread of its own, which is left behind at the end: nobody has to press Enter for that."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        threading.Thread(target=self._read, name="typed-lines", daemon=True).start()

    async def next(self) -> str:
        """The next line with its line feed; empty at the end, as `readline` has it."""
        return await self._lines.get()

    def _read(self) -> None:
        # Not through sys.stdin: a thread inside its buffer when the process ends brings the interpreter down.
        begun = b""
        while piece := os.read(sys.stdin.fileno(), PIECE_BYTES):
            *whole, begun = (begun + piece).split(b"\n")
            for line in whole:
                self._hand_over(line + b"\n")
        if begun:
            self._hand_over(begun)
        self._hand_over(b"")

    def _hand_over(self, line: bytes) -> None:
        putting = self._lines.put(line.decode("utf-8", "replace"))
        try:
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()
        except RuntimeError:  # the loop is closed: nobody listens any more
            putting.close()
