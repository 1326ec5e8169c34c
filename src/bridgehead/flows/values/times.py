"""Times as the flow files spell them: RFC 3339 with a mandatory zone (flows §1), written in UTC with `Z` (§7)."""

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
    """The moment `text` names, or None when it is not one: naive, out of the calendar, or a leap second."""
    try:
        return (
            datetime.fromisoformat(text.upper()) if _RFC3339.fullmatch(text) else None
        )
    except ValueError:
        return None


def utc_text(moment: datetime) -> str:
    """`2025-11-18T10:30:00Z`; microseconds appear only when they are not zero."""
    return (
        (moment if moment.tzinfo is UTC else moment.astimezone(UTC))
        .isoformat()
        .replace("+00:00", "Z")
    )


def now_text() -> str:
    """This moment, as the data classes stamp themselves when nobody passes one in."""
    return utc_text(datetime.now(UTC))


def deadline_after(created_at: str, timeout_seconds: float) -> datetime:
    """When, in UTC, an unanswered request has had its time; at the end of the calendar that is never."""
    created = parse_time(created_at)
    if created is None:
        return NEVER
    try:
        return (created + timedelta(seconds=timeout_seconds)).astimezone(UTC)
    except OverflowError:
        return _LONG_AGO if created.year == _LONG_AGO.year else NEVER
