"""Judge what a turn carries to show who stands behind it (rigs §9.4, §10)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.envelope.names import RELAY_SUFFIX
from bridgehead.rigs.envelope.text import NONCE_TIME_CHARACTERS, timestamp_ms
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.verification_kinds import Kind

if TYPE_CHECKING:
    from bridgehead.rigs.config import MustSign
    from bridgehead.rigs.trust.membership import Standing

RANDOM_BITS = 50
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SHAPE = f"[{_CROCKFORD}]{{10}}-[{_CROCKFORD}]{{10}}"
COMMIT_TOLERANCE_MS = 10 * 60 * 1000
NONCE_TOLERANCE_MS = 5 * 1000
_KEY_ID = re.compile("(?:0x)?[0-9A-Fa-f]{8,64}")  # OpenPGP and X.509
_ATTESTED = frozenset({"attested_by", "attested_at", "nonce"})
_RELAY_FIELDS = _ATTESTED | {"in_reply_to"}


class Attestation(NamedTuple):
    """The three fields that make an envelope a relay turn."""

    attested_by: str
    attested_at: str
    nonce: str


class Signature(Enum):
    """What is known about the signature of the commit that added an envelope."""

    NONE = "none"
    BAD = "bad"
    STRANGER = "stranger"  # good or not checkable, but by nobody this clone knows
    KNOWN = "known"


class Witness(NamedTuple):
    """What the repository says about a turn, beyond the turn's own words."""

    signature: Signature
    # Fingerprint of the signing key first, then other spellings.
    key_names: Sequence[str]
    standing: "Standing"
    committed_at_ms: int = 0
    parent_known: bool = True
    nonce_seen_before: bool = False

    @property
    def is_signed_by_sender(self) -> bool:
        return self.signature is Signature.KNOWN and self.standing.owns


def is_relay_turn(frontmatter: Mapping[str, Value]) -> bool:
    """Return whether an envelope speaks for a human, by its sender or its claims."""
    return _from_relay(frontmatter) or not _ATTESTED.isdisjoint(frontmatter)


def signature_findings(
    witness: Witness, *, relay: bool, signers_known: bool, must_sign: "MustSign"
) -> Iterator[Kind]:
    """Yield what a signature, or its absence, says about who an envelope is from.

    `signers_known` means that this clone trusts anybody at all.
    """
    signature = witness.signature
    standing = witness.standing
    if signature is Signature.NONE:
        yield from _unsigned_findings(standing, relay=relay, must_sign=must_sign)
    elif not signers_known:
        if relay:
            yield Kind.SIGNER_UNKNOWN
    elif signature is Signature.BAD:
        yield Kind.SIGNATURE_BAD
    elif standing.retired:
        yield Kind.KEY_RETIRED
    elif signature is Signature.STRANGER or not standing.is_known:
        yield Kind.IDENTITY_MISMATCH if standing.on_record else Kind.SIGNER_UNKNOWN
    elif not standing.owns:
        strict = relay or standing.on_record or standing.of_another
        yield Kind.IDENTITY_MISMATCH if strict else Kind.SIGNER_UNBOUND


def _unsigned_findings(
    standing: "Standing", *, relay: bool, must_sign: "MustSign"
) -> Iterator[Kind]:
    if relay:
        yield Kind.RELAY_UNATTESTED if must_sign == "none" else Kind.RELAY_UNSIGNED
    elif must_sign == "all" or (must_sign == "members" and standing.must_sign):
        yield Kind.SIGNATURE_MISSING


def relay_findings(
    frontmatter: Mapping[str, Value],
    witness: Witness,
    *,
    signers_known: bool,
    must_sign: "MustSign",
) -> Iterator[Kind]:
    """Yield what speaks against a relay turn, in the order of rigs §9.4."""
    is_signed = witness.signature is not Signature.NONE
    must_attest = is_signed or must_sign != "none"
    if must_attest and not frontmatter.keys() >= _RELAY_FIELDS:
        yield Kind.RELAY_FIELDS_MISSING
    if not _from_relay(frontmatter):
        yield Kind.RELAY_FROM_NOT_RELAY
    yield from signature_findings(
        witness, relay=True, signers_known=signers_known, must_sign=must_sign
    )
    signer_is_known = signers_known and witness.signature is Signature.KNOWN
    if signer_is_known and not _attester_signed(frontmatter, witness):
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
    """Return whether the key that is named signed, on a commit by its owner.

    The reference names the key by what `user.signingkey` holds, as a rule a path. That
    names no key at all, so the signature alone shows who it was.
    """
    if witness.standing.wrong_author:
        return False
    attested_by = frontmatter.get("attested_by")
    return not isinstance(attested_by, str) or names_key(attested_by, witness.key_names)


def names_key(attested_by: str, key_names: Sequence[str]) -> bool:
    """Return whether a text names one of these keys, or none at all."""
    text = attested_by.removeprefix("key::")
    if text.startswith(("ssh-", "ecdsa-", "sk-")):
        from bridgehead.rigs.trust.membership import fingerprint_of

        return fingerprint_of(text) in key_names
    if text.startswith("SHA256:"):
        return text in key_names
    key_id = text.rstrip("!")
    if not _KEY_ID.fullmatch(key_id):
        return True
    digits = key_id.lower().removeprefix("0x")
    return any(name.lower().endswith(digits) for name in key_names)


def _times_agree(frontmatter: Mapping[str, Value], committed_at_ms: int) -> bool:
    attested_at = frontmatter.get("attested_at")
    nonce = frontmatter.get("nonce")
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
    """Return the Unix time in ms that a nonce begins with; None if it is no nonce."""
    if not re.fullmatch(_SHAPE, nonce):
        return None
    unix_ms = 0
    for digit in nonce[:NONCE_TIME_CHARACTERS]:
        unix_ms = unix_ms * 32 + _CROCKFORD.index(digit)
    return unix_ms


def _base32(number: int) -> str:
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(45, -1, -5))
