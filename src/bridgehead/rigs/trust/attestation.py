"""What a relay turn carries to show who stands behind it, and what speaks against it (rigs §9.4, §10)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from bridgehead.rigs.envelope.names import RELAY_SUFFIX
from bridgehead.rigs.envelope.text import NONCE_TIME_CHARACTERS, timestamp_ms
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.verification_kinds import Kind

RANDOM_BITS = 50
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SHAPE = f"[{_CROCKFORD}]{{10}}-[{_CROCKFORD}]{{10}}"
COMMIT_TOLERANCE_MS = 10 * 60 * 1000
NONCE_TOLERANCE_MS = 5 * 1000
_ATTESTED = ("attested_by", "attested_at", "nonce")


class Attestation(NamedTuple):
    """The three fields that make an envelope a relay turn."""

    attested_by: str
    attested_at: str
    nonce: str


class Signature(Enum):
    """What is known about the signature of the commit that added an envelope."""

    NONE = "none"
    BAD = "bad"
    STRANGER = "stranger"  # good or not checkable, but by nobody the allowed-signers file names
    KNOWN = "known"


class Witness(NamedTuple):
    """What the repository says about a relay turn, beyond the turn's own words."""

    signature: Signature
    fingerprint: str | None  # of the signing key
    signed_by_author: bool  # the signer's principal is the commit author's e-mail
    committed_at_ms: int
    parent_known: bool
    nonce_seen_before: bool


def is_relay_turn(frontmatter: Mapping[str, Value]) -> bool:
    """Tell whether an envelope speaks for a human, by its sender or by what it claims."""
    return _from_relay(frontmatter) or any(name in frontmatter for name in _ATTESTED)


def signature_findings(signature: Signature, *, relay: bool, signers_known: bool) -> Iterator[Kind]:
    """Yield what a signature, or its absence, says; `signers_known` means an allowed-signers file exists."""
    if signature is Signature.NONE:
        if relay:
            yield Kind.RELAY_UNSIGNED
    elif not signers_known:
        if relay:
            yield Kind.SIGNER_UNKNOWN
    elif signature is Signature.BAD:
        yield Kind.SIGNATURE_BAD
    elif signature is Signature.STRANGER:
        yield Kind.SIGNER_UNKNOWN


def relay_findings(
    frontmatter: Mapping[str, Value], witness: Witness, *, signers_known: bool
) -> Iterator[Kind]:
    """Yield everything that speaks against a relay turn, in the order of the list in rigs §9.4."""
    if any(name not in frontmatter for name in (*_ATTESTED, "in_reply_to")):
        yield Kind.RELAY_FIELDS_MISSING
    if not _from_relay(frontmatter):
        yield Kind.RELAY_FROM_NOT_RELAY
    yield from signature_findings(witness.signature, relay=True, signers_known=signers_known)
    if signers_known and witness.signature is Signature.KNOWN and not _attester_signed(frontmatter, witness):
        yield Kind.ATTESTER_MISMATCH
    if "in_reply_to" in frontmatter and not witness.parent_known:
        yield Kind.PARENT_UNKNOWN
    if witness.nonce_seen_before:
        yield Kind.NONCE_REPLAYED
    if not _times_agree(frontmatter, witness.committed_at_ms):
        yield Kind.ATTESTED_TIME_SKEW


def _from_relay(frontmatter: Mapping[str, Value]) -> bool:
    sender = frontmatter.get("from")
    return isinstance(sender, str) and sender.endswith(RELAY_SUFFIX)


def _attester_signed(frontmatter: Mapping[str, Value], witness: Witness) -> bool:
    return witness.signed_by_author and frontmatter.get("attested_by") == witness.fingerprint


def _times_agree(frontmatter: Mapping[str, Value], committed_at_ms: int) -> bool:
    attested_at, nonce = frontmatter.get("attested_at"), frontmatter.get("nonce")
    if attested_at is None and nonce is None:
        return True  # nothing is claimed; the fields are reported as missing
    attested_ms = timestamp_ms(attested_at) if isinstance(attested_at, str) else None
    nonce_ms = nonce_time_ms(nonce) if isinstance(nonce, str) else None
    if attested_ms is None or nonce_ms is None:
        return False
    return (
        abs(committed_at_ms - attested_ms) <= COMMIT_TOLERANCE_MS
        and abs(nonce_ms - attested_ms) <= NONCE_TOLERANCE_MS
    )


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
