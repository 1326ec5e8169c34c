"""`.template-create-state.json` as data classes (flows §4, §7): where a paused template-create stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridgehead.flows import documents
from bridgehead.flows.moments import now_text
from bridgehead.flows.schema_check import Problem
from bridgehead.flows.words import CONTRACT_VERSION, DocumentKind, Profile


@dataclass
class CompletedPhase:
    """Record of a completed phase."""

    phase: int
    phase_name: str
    completed_at: str
    result_summary: str


@dataclass
class TemplateCreateState:
    """Checkpoint state for template creation."""

    phase: int
    phase_name: str
    checkpoint_name: str
    output_path: str
    version: str = CONTRACT_VERSION
    created_at: str = field(default_factory=now_text)
    project_path: str | None = None
    template_name: str | None = None
    phase_data: dict[str, Any] = field(default_factory=dict)
    completed_phases: list[CompletedPhase] = field(default_factory=list)
    agent_requests: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All eleven keys in the order of the file; an unset path or name is None, which the schema refuses."""
        return {
            "version": self.version,
            "phase": self.phase,
            "phase_name": self.phase_name,
            "checkpoint_name": self.checkpoint_name,
            "created_at": self.created_at,
            "output_path": self.output_path,
            "project_path": self.project_path,
            "template_name": self.template_name,
            "phase_data": self.phase_data,
            "completed_phases": [
                {
                    "phase": done.phase,
                    "phase_name": done.phase_name,
                    "completed_at": done.completed_at,
                    "result_summary": done.result_summary,
                }
                for done in self.completed_phases
            ],
            "agent_requests": self.agent_requests,
        }

    def to_file_dict(self) -> dict[str, Any]:
        """What is written: `to_dict` without None, so that the file always validates."""
        return {key: value for key, value in self.to_dict().items() if value is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TemplateCreateState:
        """Read without validating; a completed phase without one of its four keys is a KeyError."""
        completed = [
            CompletedPhase(
                phase=done["phase"],
                phase_name=done["phase_name"],
                completed_at=done["completed_at"],
                result_summary=done["result_summary"],
            )
            for done in data.get("completed_phases", [])
        ]
        return cls(
            version=data.get("version", CONTRACT_VERSION),
            phase=data["phase"],
            phase_name=data["phase_name"],
            checkpoint_name=data["checkpoint_name"],
            created_at=data["created_at"],
            output_path=data["output_path"],
            project_path=data.get("project_path"),
            template_name=data.get("template_name"),
            phase_data=data.get("phase_data", {}),
            completed_phases=completed,
            agent_requests=data.get("agent_requests", []),
        )

    @staticmethod
    def validate(document: Any, profile: Profile = Profile.STRICT) -> list[Problem]:
        """Every problem of `document` as a state."""
        return documents.validate(document, DocumentKind.STATE, profile)

    @classmethod
    def loads(cls, data: bytes, profile: Profile = Profile.INTEROP) -> TemplateCreateState:
        """Read a file's bytes; Unreadable or InvalidDocument (both ValueErrors) when they hold no valid state.

        The schema requires nothing of a completed phase, `from_dict` all four keys: what is missing is filled in here.
        """
        document = documents.load_document(data, DocumentKind.STATE, profile)
        blank = {"phase": 0, "phase_name": "", "completed_at": "", "result_summary": ""}
        document["completed_phases"] = [{**blank, **done} for done in document.get("completed_phases", [])]
        return cls.from_dict(document)
