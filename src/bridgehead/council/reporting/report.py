"""The report of a council as data: findings, requirements, comparison, participants; and that of an aborted one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from bridgehead.contract.looks import Look, LookKind, Unlooked
from bridgehead.contract.report import Usage
from bridgehead.contract.words import (
    Confidence,
    ContextPolicy,
    Intensity,
    Mode,
    OutputType,
    Severity,
    TaskType,
    Verdict,
)
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.findings.fingerprint import is_weak
from bridgehead.errors import ProtocolError

STATIC: Final = "static"
INCOMPLETE: Final = "INCOMPLETE"


COUNCIL: Final = "deep-council"
DEBATE: Final = "debate-protocol"
DEBATE_FALLBACK: Final = "debate-protocol-fallback"


class FindingClass(StrEnum):
    MULTI = "multi"
    SINGLE = "single"
    DISPUTED = "disputed"
    INTEGRATION = "integration"
    WITHDRAWN = "withdrawn"


class SourceFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    bridge: str
    finding_id: str
    unverified: bool = False
    """From a rig whose signature is not known: listed, and nobody's confirmation (council §23)."""
    fingerprint: str = ""


class StatedPosition(msgspec.Struct, frozen=True):
    bridge: str
    severity: Severity | None
    position: str


class Confirmation(msgspec.Struct, frozen=True):
    """Agreement by kind: two model families, two seats, or the cited text checked by code (Q4)."""

    model: bool
    runtime: bool
    evidence: bool


class ArgumentStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of the argument about an output: `claim challenge defence ruling unanswered`."""

    step: str
    by: str
    text: str
    round: int | None = None


class CitedLines(msgspec.Struct, frozen=True):
    """Lines of a file as they were when it was reviewed: those that a finding cites, and their neighbours."""

    path: str
    cited: tuple[int, int]
    first: int
    lines: tuple[str, ...]


class FindingEntry(msgspec.Struct, frozen=True, kw_only=True, rename={"cls": "class"}):
    """One finding in any of the report's lists."""

    id: str
    cls: FindingClass
    type: OutputType
    severity: Severity | None
    title: str
    description: str
    evidence: str | None
    remediation: str | None
    domains: tuple[str, ...]
    confirmed_by: tuple[str, ...]
    source_bridge: str | None
    """Set when one seat alone reports it."""
    source_findings: tuple[SourceFinding, ...]
    severity_votes: dict[str, Severity | None]
    confirmation: Confirmation
    confidence: Confidence
    shared_cli_path: bool
    da_challenged: bool
    challenges: int
    """How many challenges were raised against it, inside the seats and in Stage B."""
    fingerprint: str
    fingerprints: tuple[str, ...]
    evidence_check: dict[str, Any]
    anchor: dict[str, Any] | None
    identity: str = "strong"
    """`weak` when it is known by its title alone, which another wording changes (council §25.2)."""
    state: str | None = None
    """`new persistent regressed`, when the run was compared with earlier ones."""
    positions: tuple[StatedPosition, ...] = ()
    disputed_in: tuple[str, ...] = ()
    unverified: bool = False
    requirement_id: str | None = None
    was: str | None = None
    severity_original: Severity | None = None
    lowered: str | None = None
    """`lowered from HIGH by gemini`, for evidence that was found."""
    dismissal_note: str | None = None
    """`dismissed before (…): why`, when an entry of the dismissals file no longer applies."""
    resembles_dismissed: str | None = None
    record: tuple[ArgumentStep, ...] = ()
    """What each seat claims, and every challenge with its answers and rulings."""
    unanswered: int = 0
    """Challenges that nobody answered."""
    cited: tuple[CitedLines, ...] = ()
    probability: float | None = None
    """How likely it is real; older reports say nothing of it."""
    probability_reasons: tuple[str, ...] = ()
    joined_by: tuple[str, ...] = ()
    """What made one finding of several outputs."""
    occurrences: tuple[str, ...] = ()
    """Fingerprints of the places where the same defect is; a dismissal covers these and no other."""

    @property
    def weak_identity(self) -> bool:
        return is_weak(self.fingerprint)


class Downgraded(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    id: str
    from_: Severity | None
    to: Severity | None
    rationale: str


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    reason: str
    finding: FindingEntry


class DismissedFinding(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    severity: Severity | None
    fingerprint: str
    reason: str
    author: str
    date: str
    expires: str | None
    dismissed_in_this_change: bool
    finding: FindingEntry


class ComparedFinding(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None
    fingerprint: str
    title: str
    how: str | None = None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    previous_review_id: str | None = None
    new: tuple[ComparedFinding, ...] = ()
    persistent: tuple[ComparedFinding, ...] = ()
    fixed: tuple[ComparedFinding, ...] = ()
    regressed: tuple[ComparedFinding, ...] = ()
    unknown: tuple[ComparedFinding, ...] = ()


class RequirementEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement of an audit and what the seats say about it."""

    id: str
    level: str
    text: str
    state: str
    """`unmet disputed met not_mentioned`."""
    findings: tuple[str, ...]


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """Who really sat, over which connection, and what it cost where the runtime says so."""

    bridge: str
    status: str
    model_family: str
    connection: str | None
    models: tuple[str, ...] = ()
    outputs: int = 0
    debate_rounds: int | None = None
    verdict: Verdict | None = None
    confidence: Confidence | None = None
    usage: Usage = Usage()
    verified: bool = True
    reason: str | None = None
    coverage: int | None = None
    """How much of the files it could see, in percent; set where that is less than all."""
    remote: dict[str, Any] | None = None
    """What a rig claims about itself (council §23)."""


class CouncilReport(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are always present; lists may be empty."""

    type: str
    review_id: str
    verdict: Verdict | None
    timestamp: str
    mode: Mode | None
    task_type: TaskType
    bridges_invoked: tuple[str, ...]
    bridges_available: tuple[str, ...]
    bridges_skipped: tuple[str, ...]
    bridges_pending: tuple[dict[str, str], ...]
    auto_skipped_halted_bridges: tuple[dict[str, str], ...]
    partial_coverage: bool
    skip_reasons: dict[str, str]
    domains_covered: tuple[str, ...]
    intensity: Intensity
    fallback: bool
    debate_rounds: int
    multi_source_confirmed: tuple[FindingEntry, ...]
    single_source_findings: tuple[FindingEntry, ...]
    disputed_findings: tuple[FindingEntry, ...]
    integration_findings: tuple[FindingEntry, ...]
    downgraded_findings: tuple[Downgraded, ...]
    withdrawn_findings: tuple[Withdrawn, ...]
    dismissed_findings: tuple[DismissedFinding, ...]
    comparison: RunComparison
    challenge_notes: tuple[dict[str, Any], ...]
    synthesis_notes: tuple[str, ...]
    stage_b: str
    warnings: tuple[str, ...]
    council_type: str
    diversity_sources: tuple[str, ...]
    participants: tuple[Participant, ...]
    models_used: tuple[str, ...]
    runtimes_used: tuple[str, ...]
    toolchains_used: tuple[str, ...]
    exchange_modes_used: tuple[str, ...]
    debate_layers: tuple[str, ...]
    context_policy: ContextPolicy
    context_overflow: tuple[dict[str, Any], ...]
    supersedes: str | None
    """The report that this one takes the place of."""
    usage: Usage
    scope: str
    gate_verdict: Verdict | None
    """What a gate judges: findings dismissed by the reviewed change itself count (council §24)."""
    files: int | None = None
    loc: int | None = None
    recommendation: dict[str, Any] | None = None
    """Modes brainstorm and design: what to take instead of a verdict (council §15)."""
    proposals: tuple[dict[str, Any], ...] = ()
    contradictions: tuple[dict[str, Any], ...] = ()
    """Mode research."""
    requirements: tuple[RequirementEntry, ...] = ()
    """Audits."""
    untouched_findings: tuple[FindingEntry, ...] = ()
    """On lines that the reviewed change did not touch; no verdict and no gate counts them."""
    incomplete: bool = False
    """No seat has read everything; what would be a PASS is then no verdict, and no gate opens."""
    unread: tuple[str, ...] = ()
    """What nobody able has looked at to the end; `not_looked_at` says why."""
    not_looked_at: tuple[Look, ...] = ()
    looked: tuple[str, ...] = ()
    """Seats and analysers that looked at all of theirs to the end."""
    required_missing: tuple[str, ...] = ()
    """Those that had to, and did not: nothing passes."""
    domain_reasons: dict[str, str] = {}
    """Why each domain was looked at."""
    commit: str | None = None
    """What was checked out, or the end of the range."""
    base_commit: str | None = None
    """What a change was compared with."""
    scope_paths: tuple[str, ...] = ()
    """Files and folders that were named, `.` for the whole project; empty for a change."""
    removed: tuple[str, ...] = ()
    """Files that the change takes away."""
    envelope_folders: tuple[str, ...] = ()
    """Where envelopes to and from its seats on other machines lie."""
    superseded_by: str | None = None
    reviewed: dict[str, str] = {}
    """Path to digest of what was looked at; empty text for files that were named and kept from the seats."""

    @property
    def verdict_word(self) -> str | None:
        return self.verdict or (INCOMPLETE if self.incomplete else None)

    def refusing_looks(self, *, unread_passes: bool) -> tuple[Look, ...]:
        """Return what was not looked at and keeps a gate shut.

        With `unread_passes` the files that nothing here reads do not.
        """
        if not unread_passes:
            return self.not_looked_at
        return tuple(
            look
            for look in self.not_looked_at
            if look.kind is not LookKind.FILE or look.reason is not Unlooked.NOBODY_ABLE
        )

    def everything(self) -> Iterator[FindingEntry]:
        """What stands, what is listed apart, what was dismissed or withdrawn."""
        yield from (*self.findings(), *self.untouched_findings)
        yield from (one.finding for one in self.dismissed_findings)
        yield from (one.finding for one in self.withdrawn_findings)

    def findings(self) -> Iterator[FindingEntry]:
        """Everything that stands: multi, single, disputed, integration."""
        yield from self.multi_source_confirmed
        yield from self.single_source_findings
        yield from self.disputed_findings
        yield from self.integration_findings


class AbortedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing completed, or the user stopped everything."""

    type: str
    status: str
    review_id: str
    abort_reason: str
    bridges_attempted: tuple[str, ...]
    bridges_skipped: tuple[str, ...]
    bridges_halted: tuple[str, ...]
    skip_reasons: dict[str, str]
    auto_skipped_halted_bridges: tuple[dict[str, str], ...]
    partial_coverage: bool
    timestamp: str


def council_report_from_json(document: bytes | str) -> CouncilReport | AbortedReport:
    """Read a report; the older key `multi_model_confirmed` is understood (K30)."""
    try:
        fields = msgspec.json.decode(document)
        if isinstance(fields, dict):
            old = fields.pop("multi_model_confirmed", None)
            fields.setdefault("multi_source_confirmed", old if old is not None else [])
            kind: Any = (
                AbortedReport if fields.get("status") == "ABORTED" else CouncilReport
            )
            return msgspec.convert(fields, kind)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProtocolError(f"not a council report: {error}") from error
    raise ProtocolError("not a council report: not an object")


def anchor_of(entry: FindingEntry) -> Anchor | None:
    """Where the finding is, as dismissals and history look at it."""
    if entry.anchor is None:
        return None
    first, last = entry.anchor["lines"]
    return Anchor(entry.anchor["path"], (first, last))


def by_class(
    entries: Sequence[FindingEntry], cls: FindingClass
) -> tuple[FindingEntry, ...]:
    return tuple(entry for entry in entries if entry.cls is cls)
