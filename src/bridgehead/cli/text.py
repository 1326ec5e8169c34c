"""How lists, ages and moments are written for people. Pure: the time and the width come in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bridgehead.host.terminal import display_width, pad, truncate

GAP = "  "


def ago(then: datetime, now: datetime) -> str:
    """`2 min`, `1 h`, `3 d`: how long ago, in the largest unit that says it."""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def columns(rows: Sequence[Sequence[str]], *, width: int, flexible: int) -> str:
    """Rows as aligned columns; the `flexible` one is cut so that lines fit `width`, the last is never padded."""
    if not rows:
        return ""
    widths = [max(display_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if excess > 0:
        widths[flexible] = max(12, widths[flexible] - excess)
    return "\n".join(_line(row, widths) for row in rows) + "\n"


def one_line(text: str) -> str:
    """`text` on one line, for a cell of a table."""
    return " ".join(text.split())


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [pad(truncate(cell, width), width) for cell, width in zip(row, widths, strict=True)]
    return GAP.join(cells).rstrip()
