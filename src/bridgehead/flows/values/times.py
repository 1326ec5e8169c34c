"""Read and write times as the flow files spell them.

They are RFC 3339 with a mandatory zone (flows §1), written in UTC with `Z` (§7).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def parse_time(text: str) -> datetime | None:
    """Return the moment `text` names.

    Return None if it names none: naive, out of the calendar, or a leap second.
    """
    if not _RFC3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        return None


def utc_text(moment: datetime) -> str:
    """Return a moment as `2025-11-18T10:30:00Z`.

    Microseconds appear only if they are not zero.
    """
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat().replace("+00:00", "Z")


def now_text() -> str:
    """Return this moment, with which the data classes stamp themselves."""
    return utc_text(datetime.now(UTC))


def deadline_after(created_at: str, timeout_seconds: float) -> datetime:
    """Return when, in UTC, an unanswered request has had its time.

    At the end of the calendar that is never.
    """
    created = parse_time(created_at)
    if created is None:
        return NEVER
    try:
        return (created + timedelta(seconds=timeout_seconds)).astimezone(UTC)
    except OverflowError:
        return _LONG_AGO if created.year == _LONG_AGO.year else NEVER
