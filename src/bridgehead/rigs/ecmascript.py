"""Where ECMAScript's idea of text differs from Python's; the wire format was fixed with the former (rigs §3.2)."""

from __future__ import annotations

import re

# Not str.isspace(): U+001C-1F and U+0085 do not count, U+FEFF does.
WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
LINE_TERMINATORS = "\n\r\u2028\u2029"


def trim(text: str) -> str:
    """Drop whitespace from both ends, as String.prototype.trim does."""
    return text.strip(WHITESPACE)


def headline(text: str) -> str:
    """Return the first line that is not blank, empty if there is none."""
    lines = re.split(f"[{LINE_TERMINATORS}]", text)
    return next((line for line in lines if trim(line)), "")


def without_lone_surrogates(text: str) -> str:
    """Join surrogate pairs and replace halves without a partner: what is left can be written as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf8(text: str) -> bytes:
    """Encode as Node does: a lone surrogate becomes U+FFFD instead of an exception."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(text).encode()
