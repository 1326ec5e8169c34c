"""Text as ECMAScript reads it (rigs §3.2), times as the wire spells them (§1, §3.4)."""

from __future__ import annotations

import re

# Not str.isspace(): U+001C-1F and U+0085 do not count, U+FEFF does.
WHITESPACE = (
    "\t\n\v\f\r "
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
LINE_TERMINATORS = "\n\r\u2028\u2029"
NONCE_TIME_CHARACTERS = 10
"""How many characters of a nonce are its time, which names the file (rigs §10)."""


def trim(text: str) -> str:
    """Drop whitespace from both ends, as String.prototype.trim does."""
    return text.strip(WHITESPACE)


def headline(text: str) -> str:
    """Return the first line that is not blank, empty if there is none."""
    lines = re.split(f"[{LINE_TERMINATORS}]", text)
    return next((line for line in lines if trim(line)), "")


def without_lone_surrogates(text: str) -> str:
    """Return text that UTF-8 can carry: pairs are joined, lone halves replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf8(text: str) -> bytes:
    """Encode as Node does: a lone surrogate becomes U+FFFD instead of an exception."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(text).encode()


def timestamp_ms(text: str) -> int | None:
    """Return the Unix time in ms, by default in UTC; None for what no clock shows."""
    # Imported late: most commands never look at a time.
    from datetime import (
        UTC,
        datetime,
        timedelta,
    )

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
