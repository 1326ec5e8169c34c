"""`.agent-request.json` as a data class (flows §2, §7): what an orchestrator asks an outside agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridgehead.flows import documents
from bridgehead.flows.ids import new_request_id
from bridgehead.flows.moments import now_text
from bridgehead.flows.schema_check import Problem
from bridgehead.flows.words import CONTRACT_VERSION, DEFAULT_TIMEOUT_SECONDS, DocumentKind, Profile


@dataclass
class AgentRequest:
    """Request for an agent invocation. The fields hold plain strings, not enum members."""

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
        """All ten keys, in the order of the file."""
        return {
            "request_id": self.request_id,
            "version": self.version,
            "phase": self.phase,
            "phase_name": self.phase_name,
            "agent_name": self.agent_name,
            "prompt": self.prompt,
            "context": self.context,
            "timeout_seconds": self.timeout_seconds,
            "created_at": self.created_at,
            "retry_count": self.retry_count,
        }

    def to_file_dict(self) -> dict[str, Any]:
        """What is written: `to_dict` without None."""
        return {key: value for key, value in self.to_dict().items() if value is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentRequest:
        """Read without validating; a missing required key other than `version` is a KeyError."""
        return cls(
            request_id=data["request_id"],
            version=data.get("version", CONTRACT_VERSION),
            phase=data["phase"],
            phase_name=data["phase_name"],
            agent_name=data["agent_name"],
            prompt=data["prompt"],
            context=data.get("context", {}),
            timeout_seconds=data.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS),
            created_at=data["created_at"],
            retry_count=data.get("retry_count", 0),
        )

    @staticmethod
    def validate(document: Any, profile: Profile = Profile.STRICT) -> list[Problem]:
        """Every problem of `document` as a request of the 1.0 contract."""
        return documents.validate(document, DocumentKind.REQUEST, profile)

    @classmethod
    def loads(cls, data: bytes, profile: Profile = Profile.STRICT) -> AgentRequest:
        """Read a file's bytes; Unreadable or InvalidDocument (both ValueErrors) when they hold no valid request."""
        return cls.from_dict(documents.load_document(data, DocumentKind.REQUEST, profile))
