"""Status markers, and the closed set of classes derived from them (rigs §5)."""

from __future__ import annotations

from enum import StrEnum

from bridgehead.errors import UserError
from bridgehead.rigs.ecmascript import WHITESPACE, trim

_EMOJI_PRESENTATION = "\ufe0f"


class StatusClass(StrEnum):
    """What a marker says about the work; never stored in an envelope."""

    ACTIVE = "active"
    PENDING = "pending"
    TARGETED = "targeted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


CLASS_OF_MARKER = {
    "▶": StatusClass.ACTIVE,
    "⏸": StatusClass.PENDING,
    "🎯": StatusClass.TARGETED,
    "✅": StatusClass.COMPLETED,
    "❌": StatusClass.CANCELLED,
}
MARKERS = tuple(CLASS_OF_MARKER)


def status_class(status: object) -> StatusClass | None:
    """Return the class of the first visible character, or None where it is no marker."""
    if not isinstance(status, str):
        return None
    return CLASS_OF_MARKER.get(status.lstrip(WHITESPACE)[:1])


def listed_status_class(status: object) -> StatusClass:
    """Return the class a listing shows: old files without a marker count as active."""
    return status_class(status) or StatusClass.ACTIVE


def tidy_status(typed: str) -> str:
    """Trim a status given by a user, and drop the U+FE0F that keyboards put after a marker: no file may carry it."""
    status = trim(typed)
    if status[:1] in CLASS_OF_MARKER and status[1:2] == _EMOJI_PRESENTATION:
        return status[0] + status[2:]
    return status


def parse_status(typed: str) -> str:
    """Tidy a status given by a user, or raise MarkerUnrecognised."""
    status = tidy_status(typed)
    if status_class(status) is None:
        raise MarkerUnrecognised(status)
    return status


class MarkerUnrecognised(UserError):
    """A status does not begin with one of the five markers."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f'unrecognized status marker "{status[:1]}" at the start of "{status}"; '
            f"expected one of {' '.join(MARKERS)}"
        )
