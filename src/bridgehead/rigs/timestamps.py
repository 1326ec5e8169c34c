"""Times as the wire spells them: ISO 8601 in UTC with milliseconds; readers accept any zone (rigs §1, §3.4)."""

from __future__ import annotations

NONCE_TIME_CHARACTERS = 10
"""The time at the beginning of a nonce, which names the file of a relay turn (rigs §10)."""


def timestamp_ms(text: str) -> int | None:
    """Return the Unix time in ms, UTC where no zone is named; None for what no clock shows."""
    from datetime import UTC, datetime, timedelta  # imported late: most commands never look at a time

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def iso_timestamp(unix_ms: int) -> str:
    """Return the text of a time, such as 2026-05-15T10:30:00.000Z."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=unix_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{unix_ms % 1000:03d}Z"
