"""A fence for every call, from one secret of the run: random to whoever writes into a prompt, the same on resume."""

from __future__ import annotations

import hashlib
import hmac

from bridgehead.contract.fencing import Fence
from bridgehead.council.calls import CallKey


def fence_for(secret: bytes, key: CallKey) -> Fence:
    """The fence of one prompt; two calls never share a marker."""
    digest = iter(hmac.new(secret, str(key).encode(), hashlib.sha256).digest())
    return Fence(lambda alphabet: alphabet[next(digest) % len(alphabet)])
