"""Name the findings about envelopes, and what they mean for a pull (rigs §9.4)."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """One finding about one envelope, by its name on the wire."""

    PARSE_FAILED = "parse_failed"
    SCHEMA_INVALID = "schema_invalid"
    BODY_HASH_MISMATCH = "body_hash_mismatch"
    RIG_ID_INVALID = "rig_id_invalid"
    BODY_HASH_ABSENT = "body_hash_absent"
    THREAD_MISMATCH = "thread_mismatch"
    SYMLINK = "symlink"
    REWRITTEN = "rewritten"
    RELAY_FIELDS_MISSING = "relay_fields_missing"
    RELAY_FROM_NOT_RELAY = "relay_from_not_relay"
    RELAY_UNSIGNED = "relay_unsigned"
    SIGNATURE_BAD = "signature_bad"
    SIGNER_UNKNOWN = "signer_unknown"
    ATTESTER_MISMATCH = "attester_mismatch"
    PARENT_UNKNOWN = "parent_unknown"
    NONCE_REPLAYED = "nonce_replayed"
    ATTESTED_TIME_SKEW = "attested_time_skew"
    # The key that signed does not fit the name in `from` (rigs §9.4, §10).
    SIGNATURE_MISSING = "signature_missing"
    IDENTITY_MISMATCH = "identity_mismatch"
    KEY_RETIRED = "key_retired"
    SIGNER_UNBOUND = "signer_unbound"
    RELAY_UNATTESTED = "relay_unattested"
    MEMBERSHIP_REFUSED = "membership_refused"
    # Only where reviewed hand-offs are demanded (design §1).
    COUNCIL_ABSENT = "council_absent"
    COUNCIL_UNREADABLE = "council_unreadable"
    COUNCIL_MISMATCH = "council_mismatch"
    COUNCIL_UNCONFIRMED = "council_unconfirmed"


REFUSES_PULL = frozenset({Kind.REWRITTEN})
OF_COUNCILS = frozenset(
    {
        Kind.COUNCIL_ABSENT,
        Kind.COUNCIL_UNREADABLE,
        Kind.COUNCIL_MISMATCH,
        Kind.COUNCIL_UNCONFIRMED,
    }
)
ONLY_WARN = {
    Kind.BODY_HASH_ABSENT,
    Kind.SIGNER_UNKNOWN,
    Kind.PARENT_UNKNOWN,
    Kind.ATTESTED_TIME_SKEW,
    Kind.SIGNER_UNBOUND,
    Kind.RELAY_UNATTESTED,
}
# So does any kind that is still to come.
QUARANTINES = frozenset(Kind) - REFUSES_PULL - ONLY_WARN


class VerificationState(StrEnum):
    """What a reader may think of an envelope."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    BROKEN = "broken"


class Verification(NamedTuple):
    """The findings about one envelope, summed up."""

    state: VerificationState
    kinds: tuple[Kind, ...] = ()

    def json_object(self) -> dict[str, object]:
        return {"state": str(self.state), "kinds": [str(kind) for kind in self.kinds]}


def sum_up(kinds: Iterable[Kind], *, known_signer: bool) -> Verification:
    """Return the verdict on an envelope.

    `known_signer` means that it has a good signature by a key of its sender.
    """
    found = tuple(kinds)
    if is_broken(found):
        return Verification(VerificationState.BROKEN, found)
    if known_signer and not found:
        return Verification(VerificationState.VERIFIED)
    return Verification(VerificationState.UNVERIFIED, found)


def refuses_pull(kinds: Collection[Kind]) -> bool:
    """Return whether these findings stop a pull: history was changed."""
    return not REFUSES_PULL.isdisjoint(kinds)


def quarantines(kinds: Collection[Kind]) -> bool:
    """Return whether an envelope with these findings belongs in quarantine.

    The rest of a pull is taken in.
    """
    return not QUARANTINES.isdisjoint(kinds)


def is_broken(kinds: Collection[Kind]) -> bool:
    """Return whether nothing in an envelope with these findings can be believed."""
    return refuses_pull(kinds) or quarantines(kinds)


class PathFindings(NamedTuple):
    """An envelope, by its path in the repository, and what was found about it."""

    path: str
    kinds: tuple[Kind, ...]

    def json_object(self) -> dict[str, object]:
        return {"path": self.path, "kinds": [str(kind) for kind in self.kinds]}


class VerificationReport(NamedTuple):
    """Counts over many envelopes: checked = ok + warned + failed."""

    checked: int
    ok: int
    warned: int
    failed: int
    items: tuple[PathFindings, ...]  # only those with findings

    def json_object(self) -> dict[str, object]:
        return {**self._asdict(), "items": [item.json_object() for item in self.items]}


def report_on(
    envelopes: Iterable[PathFindings], settled: Collection[str] = frozenset()
) -> VerificationReport:
    """Count what was checked.

    At paths that are `settled`, which are in quarantine, only a changed history fails.
    """
    checked = tuple(envelopes)
    items = tuple(envelope for envelope in checked if envelope.kinds)
    failed = [item for item in items if _fails(item, settled)]
    return VerificationReport(
        checked=len(checked),
        ok=len(checked) - len(items),
        warned=len(items) - len(failed),
        failed=len(failed),
        items=items,
    )


def _fails(item: PathFindings, settled: Collection[str]) -> bool:
    if refuses_pull(item.kinds):
        return True
    return quarantines(item.kinds) and item.path not in settled
