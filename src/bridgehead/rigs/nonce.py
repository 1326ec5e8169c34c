"""Nonces of relay turns: the time in ms, a hyphen, 50 random bits, in Crockford's base 32 (rigs §10).

They sort by time, and their time part names the file. Clock and randomness are the caller's.
"""

from __future__ import annotations

import re

from bridgehead.rigs.timestamps import NONCE_TIME_CHARACTERS

RANDOM_BITS = 50

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SHAPE = f"[{_CROCKFORD}]{{10}}-[{_CROCKFORD}]{{10}}"


def make_nonce(unix_ms: int, random_bits: int) -> str:
    """Return the nonce for a time and RANDOM_BITS of randomness."""
    return f"{_base32(unix_ms)}-{_base32(random_bits)}"


def nonce_time_ms(nonce: str) -> int | None:
    """Return the Unix time in ms that a nonce begins with, None if it has another shape."""
    if not re.fullmatch(_SHAPE, nonce):
        return None
    unix_ms = 0
    for digit in nonce[:NONCE_TIME_CHARACTERS]:
        unix_ms = unix_ms * 32 + _CROCKFORD.index(digit)
    return unix_ms


def _base32(number: int) -> str:
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(45, -1, -5))
