"""Define the vocabularies, names and limits of the flow files (flows §1–§4, §10)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final

REQUEST_FILE: Final = ".agent-request.json"
RESPONSE_FILE: Final = ".agent-response.json"
STATE_FILE: Final = ".template-create-state.json"
CHECKPOINT_FILES: Final = (REQUEST_FILE, RESPONSE_FILE, STATE_FILE)

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

CONTRACT_VERSION: Final = "1.0"
"""What template-create writes."""

ANSWER_SCHEMA: Final = "answer_schema"
"""The member of a request's context with the JSON Schema of its answer."""

MASK_ANSWERS: Final = "mask_answers"
"""Set in the input of a run whose answers are kept without what looks like a secret."""

FLEET: Final = "fleet:"
"""The prefix of the project of a run on a fleet; the name of its queue follows."""
DEFAULT_TIMEOUT_SECONDS: Final = 120
DEFAULT_MAX_RETRIES: Final = 2


class AgentName(Enum):
    """The agents of the 1.0 contract."""

    ARCHITECTURAL_REVIEWER = "architectural-reviewer"
    AGENT_CONTENT_ENHANCER = "agent-content-enhancer"


class RequestStatus(Enum):
    """How a request ended, according to its handler."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class ErrorType(Enum):
    """Why a call failed; the recovery for each is in engine/settlement.py."""

    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    INVOCATION_FAILED = "INVOCATION_FAILED"
    TIMEOUT = "TIMEOUT"
    PARSE_ERROR = "PARSE_ERROR"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    UNKNOWN = "UNKNOWN"


LOW_CONFIDENCE: Final = "low_confidence"
CANCELLED: Final = "cancelled"
HEURISTICS_ONLY: Final = "heuristics_only"
EXPIRED: Final = "expired"
EXPIRES_AT: Final = "expires_at"
"""The member of a request's context with the time at which its ask expires."""


class DocumentKind(StrEnum):
    """Which of the three files a document is."""

    REQUEST = "request"
    RESPONSE = "response"
    STATE = "state"


class Profile(StrEnum):
    """How much a reader tolerates (flows §3)."""

    STRICT = "strict"
    INTEROP = "interop"
    TOLERANT = "tolerant"


class AttemptStatus(StrEnum):
    """The state of a request (flows §4).

    One that is `queued` waits in the journal for its turn in the file (§14).
    """

    QUEUED = "queued"
    PENDING = "pending"
    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    SUPERSEDED_BY_LATE_ANSWER = "superseded_by_late_answer"
    FALLBACK = "fallback"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RunStatus(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUEUED = "queued"
    """On a fleet: it waits for a worker."""
    INTERRUPTED = "interrupted"
    """Never recorded: shown for a run whose process is gone. It can be resumed."""
    DAMAGED = "damaged"
    """Never recorded: shown for a run of a fleet whose row cannot be read."""

    @property
    def ended(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
