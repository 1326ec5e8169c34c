"""Represent the request and response files as data classes (flows §2, §3, §7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bridgehead.flows.files import documents
from bridgehead.flows.files.documents import Problem
from bridgehead.flows.values.ids import new_request_id
from bridgehead.flows.values.times import now_text
from bridgehead.flows.words import (
    CONTRACT_VERSION,
    DEFAULT_TIMEOUT_SECONDS,
    DocumentKind,
    Profile,
    RequestStatus,
)

REQUEST_KEYS: Final = [
    "request_id",
    "version",
    "phase",
    "phase_name",
    "agent_name",
    "prompt",
    "context",
    "timeout_seconds",
    "created_at",
    "retry_count",
]


@dataclass
class AgentRequest:
    """Request for an agent invocation.

    The fields hold plain strings, not enum members.
    """

    phase: int
    phase_name: str
    agent_name: str
    prompt: str
    request_id: str = field(default_factory=new_request_id)
    version: str = CONTRACT_VERSION
    context: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    created_at: str = field(default_factory=now_text)
    retry_count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return all ten keys, in the order of the file."""
        return {key: getattr(self, key) for key in REQUEST_KEYS}

    def to_file_dict(self) -> dict[str, Any]:
        """Return what is written to the file: `to_dict` without None."""
        return {
            key: value for key, value in self.to_dict().items() if value is not None
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentRequest:
        """Make a request from a document, without validating it.

        Raise KeyError if a required key other than `version` is missing.
        """
        optional = ("version", "context", "timeout_seconds", "retry_count")
        keys = [key for key in REQUEST_KEYS if key in data or key not in optional]
        return cls(**{key: data[key] for key in keys})

    @staticmethod
    def validate(document: Any, profile: Profile = Profile.STRICT) -> list[Problem]:
        """Return every problem of `document` as a request of the 1.0 contract."""
        return documents.validate(document, DocumentKind.REQUEST, profile)

    @classmethod
    def loads(cls, data: bytes, profile: Profile = Profile.STRICT) -> AgentRequest:
        """Read a request from the bytes of a file.

        Raise Unreadable or InvalidDocument (both ValueErrors) if it is not valid.
        """
        return cls.from_dict(
            documents.load_document(data, DocumentKind.REQUEST, profile)
        )


@dataclass
class ResponseMetadata:
    """What the handler reports about the invocation."""

    model: str | None = None
    tokens_used: int | None = None
    confidence: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the members that are set.

        An empty model and zero tokens count as not set.
        """
        members = self.to_file_dict()
        return {
            key: value for key, value in members.items() if value or key == "confidence"
        }

    def to_file_dict(self) -> dict[str, Any]:
        """Return the members that are not None, zero and empty included."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass
class AgentResponse:
    """Response from an agent invocation."""

    request_id: str
    status: str
    version: str = CONTRACT_VERSION
    response: str | None = None
    error_message: str | None = None
    error_type: str | None = None
    created_at: str = field(default_factory=now_text)
    duration_seconds: float | None = None
    metadata: ResponseMetadata = field(default_factory=ResponseMetadata)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, without empty texts.

        `metadata` is always included unless it is None.
        """
        document = self.to_file_dict()
        for key in ("response", "error_message"):
            if key in document and not document[key]:
                del document[key]
        if self.metadata:
            document["metadata"] = self.metadata.to_dict()
        return document

    def to_file_dict(self) -> dict[str, Any]:
        """Return what is written to the file.

        Unlike `to_dict`, it leaves out only what is None, and an empty error type.
        """
        document: dict[str, Any] = {
            "request_id": self.request_id,
            "version": self.version,
            "status": self.status,
            "created_at": self.created_at,
        }
        optional = {
            "response": self.response,
            "error_message": self.error_message,
            "error_type": self.error_type or None,
            "duration_seconds": self.duration_seconds,
            "metadata": self.metadata.to_file_dict() if self.metadata else None,
        }
        for key, value in optional.items():
            if value is not None:
                document[key] = value
        return document

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentResponse:
        """Make a response from a document, without validating it.

        Unknown members of the metadata are dropped.
        """
        metadata = data.get("metadata", {})
        members = {
            name: metadata.get(name) for name in ("model", "tokens_used", "confidence")
        }
        names = ("response", "error_message", "error_type", "duration_seconds")
        return cls(
            request_id=data["request_id"],
            version=data.get("version", CONTRACT_VERSION),
            status=data["status"],
            created_at=data["created_at"],
            metadata=ResponseMetadata(**members),
            **{name: data.get(name) for name in names},
        )

    def is_success(self) -> bool:
        return self.status == RequestStatus.SUCCESS.value

    def get_confidence(self) -> float:
        """Return the confidence of the metadata, 0.0 if there is none."""
        return self.metadata.confidence if self.metadata.confidence else 0.0

    @staticmethod
    def validate(document: Any, profile: Profile = Profile.STRICT) -> list[Problem]:
        """Return every problem of `document` as a response."""
        return documents.validate(document, DocumentKind.RESPONSE, profile)

    @classmethod
    def loads(cls, data: bytes, profile: Profile = Profile.INTEROP) -> AgentResponse:
        """Read a response from the bytes of a file.

        Raise Unreadable or InvalidDocument (both ValueErrors) if it is not valid.
        """
        return cls.from_dict(
            documents.load_document(data, DocumentKind.RESPONSE, profile)
        )
