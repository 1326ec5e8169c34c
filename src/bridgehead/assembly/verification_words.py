"""What was found about an envelope, as sentences for people (rigs §9.4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridgehead.rigs.verification_kinds import Kind, Verification, VerificationState

SENTENCES: Final = {
    Kind.PARSE_FAILED: "the file is no envelope",
    Kind.SCHEMA_INVALID: "its fields are not what an envelope must have",
    Kind.BODY_HASH_MISMATCH: "the body was changed after it was sealed",
    Kind.RIG_ID_INVALID: "a rig is named in a way no rig can be named",
    Kind.BODY_HASH_ABSENT: "it carries no hash of its body",
    Kind.THREAD_MISMATCH: "it says it belongs to another thread",
    Kind.SYMLINK: "the file is a link, which is never followed",
    Kind.REWRITTEN: "it was changed after it was committed",
    Kind.RELAY_FIELDS_MISSING: "it speaks for a person but lacks the fields that say who and when",
    Kind.RELAY_FROM_NOT_RELAY: "it claims to speak for a person but comes from a rig that does not",
    Kind.RELAY_UNSIGNED: "it speaks for a person but its commit is not signed",
    Kind.SIGNATURE_BAD: "the signature of its commit does not hold",
    Kind.SIGNER_UNKNOWN: "it is signed by a key that nobody here vouches for",
    Kind.ATTESTER_MISMATCH: "the key that signed it is not the one it names",
    Kind.PARENT_UNKNOWN: "what it answers is not in this thread",
    Kind.NONCE_REPLAYED: "its nonce was used before: it may be a replay",
    Kind.ATTESTED_TIME_SKEW: "the time it names is not the time it was made",
}


def reasons_for(verification: Verification, *, committed: bool, signed: bool) -> Sequence[str]:
    """Why an envelope stands as it does, at least one sentence."""
    if verification.state is VerificationState.VERIFIED:
        return ("signed by a key this clone vouches for; the body is the one that was sealed",)
    if verification.kinds:
        return tuple(SENTENCES[kind] for kind in verification.kinds)
    if not committed:
        return ("not committed yet",)
    if not signed:
        return ("its commit is not signed",)
    return ("signed, but this clone keeps no list of allowed signers",)
