"""Ids and call paths of flows, and SHA-256 without OpenSSL, whose loading would cost a pause too much (design §8)."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

sha256: Callable[[bytes], Any]
try:
    from _sha256 import sha256  # type: ignore[import-not-found, no-redef]
except (
    ImportError
):  # CPython 3.12 gave the module another name; other implementations have neither
    try:
        from _sha2 import sha256  # type: ignore[import-not-found, no-redef]
    except ImportError:
        from hashlib import sha256


def sha256_hex(data: bytes) -> str:
    """The digest of `data` in lower-case hexadecimal."""
    digest: str = sha256(data).hexdigest()
    return digest


def new_request_id() -> str:
    """A random UUID of version 4, as `uuid.uuid4` makes it, without the import of that module."""
    return uuid_text(os.urandom(16))


def uuid_text(random_bytes: bytes) -> str:
    """Sixteen random bytes as a UUID of version 4."""
    octets = bytearray(random_bytes)
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    digits = octets.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_flow_id(at: datetime) -> str:
    """`flow-20251118-103000-4f2a`: readable, sorted by time, and distinct for two flows of the same second."""
    return f"flow-{at:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def parents_of(path: str) -> list[str]:
    """The paths of everything a call stands in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]
