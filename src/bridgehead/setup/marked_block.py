"""A block of ours in a Markdown file of somebody else, between two marker lines. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.errors import UserError

BEGIN: Final = "<!-- bridgehead: begin -->"
END: Final = "<!-- bridgehead: end -->"
_BLOCK: Final = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


class BrokenMarkers(UserError):
    """The markers of our block are not there as a pair."""

    def __init__(self) -> None:
        super().__init__(f"the lines {BEGIN} and {END} are not there once each, in this order")


def with_block(text: str, block: str) -> str:
    """`text` with the block: in its old place, or at the end after an empty line."""
    marked = f"{BEGIN}\n{block.strip()}\n{END}"
    if _has_block(text):
        return _BLOCK.sub(lambda _found: marked, text)
    if not text.strip():
        return f"{text}{marked}\n"
    gap = "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{marked}\n"


def without_block(text: str) -> str:
    """`text` without the block."""
    return _BLOCK.sub("", text).rstrip("\n") + "\n" if _has_block(text) else text


def _has_block(text: str) -> bool:
    counts = text.count(BEGIN), text.count(END)
    if counts == (0, 0):
        return False
    if counts != (1, 1) or text.index(BEGIN) > text.index(END):
        raise BrokenMarkers
    return True
