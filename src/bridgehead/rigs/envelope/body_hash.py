"""Bring bodies into canonical form and hash them (rigs §4).

`normalise_body` removes one byte order mark per pass, so it is not idempotent: a reader
normalises once when it splits the file and once more when it hashes. Writers call
`clean_body` first, after which both passes agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from bridgehead.rigs.envelope.text import utf8

if TYPE_CHECKING:
    import hashlib

BOM = "\ufeff"


def unify_line_ends(text: str) -> str:
    """Turn CRLF and lone CR into LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def normalise_body(text: str) -> str:
    """Return the body with LF line ends, of which exactly one ends it.

    Blanks before line ends and one leading byte order mark are dropped.
    """
    lines = unify_line_ends(text)
    if " \n" in lines or "\t\n" in lines or lines.endswith((" ", "\t")):
        lines = "\n".join(line.rstrip(" \t") for line in lines.split("\n"))
    return (lines.rstrip("\n") + "\n").removeprefix(BOM)


def body_hash(text: str) -> str:
    """Return the lowercase hex SHA-256 of the normalised body."""
    return _sha256()(utf8(normalise_body(text))).hexdigest()


@cache
def _sha256() -> Callable[[bytes], hashlib._Hash]:
    import hashlib  # late: listing threads hashes nothing

    return hashlib.sha256


def clean_body(text: str) -> str:
    """Return the body to write: normalised, and writable as UTF-8 without a mark."""
    return normalise_body(utf8(text).decode().lstrip(BOM))
