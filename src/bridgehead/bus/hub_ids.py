"""The session id a participant's local session has on the hub (B-24). Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

_LENGTH: Final = 26


def hub_session_id(secret: bytes, participant_id: str, local_id: str) -> str:
    """One hub id per participant and local id, the same after every restart with the same secret."""
    name = participant_id.encode() + b"\x00" + local_id.encode("utf-8", "surrogatepass")
    digest = hmac.new(secret, name, hashlib.sha256).digest()
    return "b" + base64.b32encode(digest).decode("ascii").lower()[:_LENGTH]
