"""Ids that flows give out: request ids are random UUIDs, flow ids sort by time and end in something random."""

from __future__ import annotations

import os
from datetime import datetime


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
