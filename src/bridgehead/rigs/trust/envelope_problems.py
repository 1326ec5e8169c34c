"""Find what is wrong with an envelope, in a fixed order (rigs §3.2, §3.3).

check_envelope(parse_envelope(raw))   the verdict on a file
schema_faults(frontmatter)            the schema alone, for a draft
"""

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.rigs.envelope.body_hash import body_hash
from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.fields import TLDR_SOFT_CAP
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.names import is_rig_id, suggestion
from bridgehead.rigs.envelope.schema import SchemaFault, schema_faults
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.verification_kinds import Kind


class BadRigId(NamedTuple):
    """A sender or recipient that no rig can be called."""

    field: str
    value: str
    suggestion: str | None


class EnvelopeVerdict(NamedTuple):
    """Everything that is wrong, and what is merely worth a warning."""

    parse_failure: ParseFailure | None = None
    schema_faults: tuple[SchemaFault, ...] = ()
    hash_mismatch: tuple[str, str] | None = None  # the claimed hash, and the body's
    bad_rig_ids: tuple[BadRigId, ...] = ()
    body_hash_absent: bool = False
    long_tldr: bool = False  # beyond the soft cap, in code points

    @property
    def valid(self) -> bool:
        return not self.error_kinds

    @property
    def error_kinds(self) -> tuple[Kind, ...]:
        """The errors in the order they are reported; a bad rig id counts each time."""
        kinds = [Kind.RIG_ID_INVALID for _ in self.bad_rig_ids]
        if self.hash_mismatch:
            kinds.insert(0, Kind.BODY_HASH_MISMATCH)
        if self.schema_faults:
            kinds.insert(0, Kind.SCHEMA_INVALID)
        if self.parse_failure:
            kinds.insert(0, Kind.PARSE_FAILED)
        return tuple(kinds)


def check_envelope(parsed: Envelope | ParseFailure) -> EnvelopeVerdict:
    """Judge a file that was read; one that does not parse is judged by that alone."""
    if isinstance(parsed, ParseFailure):
        return EnvelopeVerdict(parse_failure=parsed)
    frontmatter = parsed.frontmatter
    claimed = frontmatter.get("body_hash")
    hashed = isinstance(claimed, str) and claimed != ""
    actual = body_hash(parsed.body) if hashed else None
    tldr = frontmatter.get("tldr")
    faults = schema_faults(frontmatter)
    return EnvelopeVerdict(
        schema_faults=faults,
        hash_mismatch=(str(claimed), actual) if actual and actual != claimed else None,
        # The schema finds every bad rig id as well.
        bad_rig_ids=_bad_rig_ids(frontmatter) if faults else (),
        body_hash_absent=not hashed,
        long_tldr=isinstance(tldr, str) and len(tldr) > TLDR_SOFT_CAP,
    )


def file_findings(
    parsed: Envelope | ParseFailure, verdict: EnvelopeVerdict, directory: str
) -> tuple[Kind, ...]:
    """Return the findings of rigs §9.4 that a file in a thread directory shows."""
    kinds = dict.fromkeys(verdict.error_kinds)
    if verdict.body_hash_absent:
        kinds[Kind.BODY_HASH_ABSENT] = None
    thread = parsed.frontmatter.get("thread") if isinstance(parsed, Envelope) else None
    if isinstance(thread, str) and thread != directory:
        kinds[Kind.THREAD_MISMATCH] = None
    return tuple(kinds)


def _bad_rig_ids(frontmatter: Mapping[str, Value]) -> tuple[BadRigId, ...]:
    to = frontmatter.get("to")
    recipients = to if isinstance(to, list) else [to]
    named = [("from", frontmatter.get("from"))]
    named += [("to", rig) for rig in recipients]
    bad = [
        (field, rig)
        for field, rig in named
        if isinstance(rig, str) and not is_rig_id(rig)
    ]
    return tuple(BadRigId(field, rig, suggestion(rig)) for field, rig in bad)
