"""Make the ids, digests and call paths of flows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import datetime


def sha256_hex(data: bytes) -> str:
    """Return the digest of `data` in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def new_request_id() -> str:
    """Return a random UUID of version 4, as `uuid.uuid4` does, without that import."""
    return uuid_text(os.urandom(16))


def uuid_text(random_bytes: bytes) -> str:
    """Return sixteen random bytes as a UUID of version 4."""
    octets = bytearray(random_bytes)
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    digits = octets.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def free_flow_id(at: datetime, is_taken: Callable[[str], bool]) -> str:
    """Return a new id that no other run has; two of one second may draw the same."""
    while True:
        flow_id = new_flow_id(at)
        if not is_taken(flow_id):
            return flow_id


def new_flow_id(at: datetime) -> str:
    """Return an id such as `flow-20251118-103000-4f2a`.

    It is readable, sorted by time, and distinct for two flows of the same second.
    """
    return f"flow-{at:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def parents_of(path: str) -> list[str]:
    """Return the paths of everything a call stands in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]
