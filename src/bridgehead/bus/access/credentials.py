"""Authenticate participants (bus §10.2): challenges and their answers, tokens, and what
the server keeps of them. Pure.

Keys and tokens are made from randomness that is passed in, compared in constant time,
and never part of a message.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from collections import Counter, deque
from datetime import datetime
from typing import Final

import msgspec

from bridgehead.bus.wire.frames import from_base64

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32
NO_BINDING: Final = bytes(32)
"""The certificate binding of a plain loopback connection."""

_CLIENT: Final = b"bridgehead-v1 client"
_SERVER: Final = b"bridgehead-v1 server"


class Credential(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the server keeps of a participant: its HMAC key or a hash of its token."""

    key: str | None = None
    """Base64. Kept in the clear, because HMAC is symmetric."""
    token_sha256: str | None = None
    expires: str | None = None
    """ISO 8601 in UTC; with None it never expires."""
    revoked: bool = False
    """Kept, so that a client certificate of the same name is refused, too."""

    def __post_init__(self) -> None:
        if self.expires is None:
            return
        if datetime.fromisoformat(self.expires).tzinfo is None:
            raise ValueError(f"{self.expires!r} has no time zone")

    def digest(self, secret: bytes) -> str:
        """Return a digest that is equal for equal credentials and reveals nothing.

        A participant with a client certificate has neither key nor token.
        """
        proof = self.key or self.token_sha256 or "certificate"
        return hmac.new(secret, proof.encode(), hashlib.sha256).hexdigest()[:32]


class Challenge(msgspec.Struct, frozen=True):
    """What both sides of an HMAC handshake sign."""

    participant: str
    server_nonce: bytes
    client_nonce: bytes
    binding: bytes

    def client_mac(self, key: bytes) -> bytes:
        return self._mac(key, _CLIENT)

    def server_mac(self, key: bytes) -> bytes:
        return self._mac(key, _SERVER)

    def _mac(self, key: bytes, who: bytes) -> bytes:
        signed = who + b"\x00" + self.server_nonce + self.client_nonce + self.binding
        signed = signed + self.participant.encode()
        return hmac.new(key, signed, hashlib.sha256).digest()


def certificate_binding(certificate: bytes | None) -> bytes:
    """Return the SHA-256 of a certificate (DER), or 32 zero bytes without one."""
    return NO_BINDING if certificate is None else hashlib.sha256(certificate).digest()


def make_token(participant_id: str, random: bytes) -> str:
    """Return a bearer token.

    It names its participant, so that the server need not try them all.
    """
    secret = base64.urlsafe_b64encode(random).decode("ascii").rstrip("=")
    return f"{participant_id}.{secret}"


def token_participant(token: str) -> str:
    """Return the participant a token claims to belong to."""
    return token.rpartition(".")[0]


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def token_fits(credential: Credential | None, token: str, now: datetime) -> bool:
    """Return whether this is the participant's token and it is still valid.

    Takes the same time for an unknown participant.
    """
    stored = credential.token_sha256 if credential is not None else None
    fits = hmac.compare_digest(stored or "0" * 64, token_hash(token))
    return (
        fits
        and stored is not None
        and credential is not None
        and not is_expired(credential, now)
    )


def mac_fits(credential: Credential | None, challenge: Challenge, mac: bytes) -> bool:
    """Return whether the client proved that it has the participant's key.

    Takes the same time for an unknown participant.
    """
    key = from_base64(credential.key, KEY_BYTES) if credential is not None else None
    fits = hmac.compare_digest(challenge.client_mac(key or NO_BINDING), mac)
    return fits and key is not None


def is_expired(credential: Credential, now: datetime) -> bool:
    return credential.expires is not None and now >= datetime.fromisoformat(
        credential.expires
    )


def bearer_token(authorization: str | None) -> str | None:
    """Return the token of an `Authorization: Bearer` header."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class FailedAttempts:
    """Counts recent failures by address, to refuse addresses that have too many."""

    def __init__(
        self, *, limit: int = 20, window_s: float = 60.0, addresses: int = 10_000
    ) -> None:
        self._limit = limit
        self._window_s = window_s
        self._addresses = addresses
        self._recent: dict[str, deque[float]] = {}

    def too_many(self, address: str, now: float) -> bool:
        recent = self._recent.get(address)
        if recent is None:
            return False
        while recent and now - recent[0] >= self._window_s:
            recent.popleft()
        if not recent:
            del self._recent[address]
        return len(recent) >= self._limit

    def note(self, address: str, now: float) -> None:
        """Count one more failure."""
        recent = self._recent.pop(address, None) or deque(maxlen=self._limit)
        recent.append(now)
        self._recent[address] = recent
        while len(self._recent) > self._addresses:
            del self._recent[next(iter(self._recent))]


class RefusalSummary(msgspec.Struct, frozen=True):
    """Refusals since the last summary."""

    count: int
    reasons: dict[str, int]
    addresses: int
    """How many different addresses there were, up to a limit."""
    address: str
    """The last address, with why it was refused."""
    reason: str


class RefusalCount:
    """Counts refusals: the first is reported at once, then at most one summary in each
    period.

    Strangers decide how often they try, but must not decide how much we log.
    """

    def __init__(self, *, every_s: float = 60.0, addresses: int = 1000) -> None:
        self._every_s = every_s
        self._most_addresses = addresses
        self._reasons: Counter[str] = Counter()
        self._addresses: set[str] = set()
        self._last = ("", "")
        self._reported_at = -math.inf

    def note(self, address: str, reason: str) -> None:
        self._reasons[reason] += 1
        self._last = (address, reason)
        if len(self._addresses) < self._most_addresses:
            self._addresses.add(address)

    def take(self, now: float) -> RefusalSummary | None:
        """Return a summary if one is due, and start counting again."""
        if not self._reasons or now - self._reported_at < self._every_s:
            return None
        self._reported_at = now
        summary = RefusalSummary(
            self._reasons.total(),
            dict(self._reasons),
            len(self._addresses),
            *self._last,
        )
        self._reasons.clear()
        self._addresses.clear()
        return summary
