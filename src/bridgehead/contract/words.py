"""Every closed vocabulary of the contract, each defined once.

Wire values are the enum values. Open vocabularies (bridge names, connections, event
kinds of plug-ins) stay strings, because readers of foreign reports must tolerate values
they do not know (council §23). The five words of the record are declared in
record_words.py, for commands that need no others.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How one bridge ended (council §3)."""

    COMPLETED = "COMPLETED"
    SKIPPED = "SKIPPED"
    HALTED = "HALTED"
    ABORTED = "ABORTED"


class TaskType(StrEnum):
    REVIEW = "review"
    PLANNING = "planning"
    IMPLEMENTATION = "implementation"
    ANALYSIS = "analysis"
    RESEARCH = "research"
    AUDIT = "audit"


class Mode(StrEnum):
    REVIEW = "review"
    AUDIT = "audit"
    RESEARCH = "research"
    BRAINSTORM = "brainstorm"
    DESIGN = "design"
    SYNTHESIS = "synthesis"


class Intensity(StrEnum):
    QUICK = "quick"
    STANDARD = "standard"
    THOROUGH = "thorough"


class CouncilProtocol(StrEnum):
    """How many roles of a council share a call (council §9.10)."""

    SHARED = "shared"
    FULL = "full"


class ContextPolicy(StrEnum):
    MINIMAL_NON_LEADING = "minimal-non-leading"
    PACKETIZED_SUMMARY = "packetized-summary"
    FULL_CONTEXT = "full-context"
    TARGETED_CHALLENGE = "targeted-challenge"


class CapabilityProfile(StrEnum):
    """What a runtime may do to the tree: look at it, or change it."""

    INSPECT = "inspect"
    MODIFY = "modify"


class RequirementLevel(StrEnum):
    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class OutputType(StrEnum):
    FINDING = "finding"
    RECOMMENDATION = "recommendation"
    PLAN_ITEM = "plan-item"
    IMPLEMENTATION_NOTE = "implementation-note"
    OBSERVATION = "observation"
    COMPLIANCE_GAP = "compliance-gap"
    # Modes brainstorm and design (council §6, §15)
    PROPOSAL = "proposal"
    QUESTION = "question"
    CONSTRAINT = "constraint"
    ASSUMPTION = "assumption"
    RISK = "risk"
    EXPERIMENT = "experiment"


class OutputState(StrEnum):
    """What debate made of an output.

    None on the wire means it never met a challenge round.
    """

    CONFIRMED = "confirmed"
    REVISED = "revised"
    WITHDRAWN = "withdrawn"
    DISPUTED = "disputed"
    DISCOVERED = "discovered"


class Severity(StrEnum):
    """Ordered by `rank`; a missing severity ranks below INFO (council §7)."""

    INFO = "INFO"
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"

    @property
    def rank(self) -> int:
        return list(Severity).index(self) + 1


def severity_rank(severity: Severity | None) -> int:
    """Rank for sorting, with None below INFO."""
    return 0 if severity is None else severity.rank


class Verdict(StrEnum):
    """Ordered PASS < CONCERNS < FAIL by `rank`."""

    PASS = "PASS"
    CONCERNS = "CONCERNS"
    FAIL = "FAIL"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class LocalCouncilType(StrEnum):
    AGENT_COUNCIL = "agent-council"
    MODEL_COUNCIL = "model-council"
    RUNTIME_NATIVE_REVIEW = "runtime-native-review"
    NONE = "none"


class ErrorClass(StrEnum):
    """Why one runtime call failed (council §19)."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    RETIRED = "retired"
    UNKNOWN_MODEL = "unknown_model"
    TOO_LONG = "too_long"
    CUT = "cut"
    CONTENT_FILTER = "content_filter"
    ACCOUNT = "account"
    SPEND_LIMIT = "spend_limit"
    UPGRADE = "upgrade"
    REGION = "region"
    SANDBOX = "sandbox"
    MACHINE = "machine"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    EMPTY = "empty"
    BAD_USAGE = "bad_usage"
    NO_PROMPT = "no_prompt"
    UNKNOWN_SESSION = "unknown_session"
    UNTRUSTED_FOLDER = "untrusted_folder"
    TIMEOUT = "timeout"
    OTHER = "other"


class Trust(StrEnum):
    """How far a text from elsewhere is to be believed, said to the model that reads it."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    UNTRUSTED = "untrusted"
