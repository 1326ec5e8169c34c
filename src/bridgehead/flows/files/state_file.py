"""Read and write `.template-create-state.json` (flows §4, §7).

`TemplateCreateState` is the published data class, `Checkpoint` what is read to resume a
run (§9), and `StateFile` what a run writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.flows.calls import Attempt, Call, prompt_sha256
from bridgehead.flows.errors import StateCorrupt, StateInvalid, UnsupportedVersion
from bridgehead.flows.files import documents
from bridgehead.flows.files.agent_files import REQUEST_KEYS
from bridgehead.flows.files.checkpoint_files import (
    NOT_RESTORED,
    CheckpointFiles,
    RunFiles,
)
from bridgehead.flows.files.documents import (
    InvalidDocument,
    Problem,
    is_integer,
    is_supported,
    is_uuid,
    normalise,
)
from bridgehead.flows.files.json_bytes import Unreadable, read_object
from bridgehead.flows.journals.base import Run
from bridgehead.flows.values.times import now_text, utc_text
from bridgehead.flows.words import (
    CANCELLED,
    CONTRACT_VERSION,
    DEFAULT_TIMEOUT_SECONDS,
    LOW_CONFIDENCE,
    NOTHING,
    AttemptStatus,
    DocumentKind,
    ErrorType,
    Profile,
)

PENDING_REQUEST = "_pending_request"
FLOW = "_flow"
RECORDED = "_recorded"
PHASE_COMPLETE = "phase_complete"
SETTINGS = ("output_path", "project_path", "template_name")
_NEEDED_KEYS = ("phase", "phase_name", "checkpoint_name", "created_at", "output_path")
_STATE_KEYS = (
    "version",
    *_NEEDED_KEYS,
    "project_path",
    "template_name",
    "phase_data",
    "completed_phases",
    "agent_requests",
)
"""All keys, in the order in which they are written."""
_BLANK_PHASE = {"phase": 0, "phase_name": "", "completed_at": "", "result_summary": ""}
BEFORE_AGENT = "before_agent_invocation"
_ERROR_TYPES = (*(kind.value for kind in ErrorType), LOW_CONFIDENCE, CANCELLED)


class Checkpoint(NamedTuple):
    """A valid state, and the call that is pending in it."""

    document: Mapping[str, Any]
    pending: Call | None = None
    flow: Mapping[str, Any] = NOTHING
    """The engine's notes about the run that wrote the state: id, version, input."""

    @property
    def phase_data(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.document.get("phase_data", {})
        return found

    @property
    def recorded(self) -> Mapping[str, Any]:
        found = self.phase_data.get(RECORDED)
        return found if isinstance(found, dict) else {}

    @property
    def next_phase(self) -> int:
        """Return the phase in which the run continues if nothing is pending (R7)."""
        phase = int(self.document["phase"])
        is_done = self.document["checkpoint_name"] == PHASE_COMPLETE
        return phase + 1 if is_done else phase


def read_checkpoint(data: bytes, path: Path) -> Checkpoint:
    """Return the checkpoint in a state file's bytes.

    Raise StateCorrupt, UnsupportedVersion or StateInvalid if there is none.
    """
    try:
        raw = read_object(data)
    except Unreadable as error:
        raise StateCorrupt(path, str(error)) from error
    if not is_supported(raw):
        raise UnsupportedVersion(path, str(raw["version"]))
    try:
        document = normalise(raw, DocumentKind.STATE, Profile.INTEROP)
    except InvalidDocument as error:
        raise StateInvalid(path, error.problems) from error
    notes = document.get("phase_data", {}).get(FLOW)
    flow = notes if isinstance(notes, dict) else {}
    return Checkpoint(document, _pending_call(document, path), flow)


def _pending_call(document: Mapping[str, Any], path: Path) -> Call | None:
    items = document.get("agent_requests", [])
    pending = [item for item in items if item.get("status") == AttemptStatus.PENDING]
    if not pending:
        return None
    if len(pending) > 1:
        raise StateInvalid(path, ["two requests are pending"])
    item = pending[0]
    request = _pending_request(document, path)
    if str(item.get("request_id", "")).lower() != request["request_id"].lower():
        raise StateInvalid(
            path, ["the pending request and its copy have different ids"]
        )
    current = Attempt("", request, AttemptStatus.PENDING, _count(item.get("resumes")))
    return Call("", (*_superseded(items, request), current))


def _pending_request(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    copy = document.get("phase_data", {}).get(PENDING_REQUEST)
    if not isinstance(copy, dict) or not is_supported(copy):
        raise StateInvalid(
            path, [f"a request is pending, but {PENDING_REQUEST} holds none"]
        )
    try:
        valid = normalise(copy, DocumentKind.REQUEST, Profile.STRICT)
    except InvalidDocument as error:
        raise StateInvalid(path, [f"{PENDING_REQUEST} is {error}"]) from error
    defaults = {
        "context": {},
        "timeout_seconds": DEFAULT_TIMEOUT_SECONDS,
        "retry_count": 0,
    }
    complete = {**defaults, **valid, "version": CONTRACT_VERSION}
    return {key: complete[key] for key in REQUEST_KEYS}


def _superseded(
    items: list[dict[str, Any]], request: Mapping[str, Any]
) -> list[Attempt]:
    """Return earlier attempts of the same call: same phase, agent and prompt (R8)."""
    status = AttemptStatus.SUPERSEDED
    wanted = (request["phase"], request["agent_name"], prompt_sha256(request["prompt"]))
    attempts = []
    for item in items:
        call = (item.get("phase"), item.get("agent_name"), item.get("prompt_sha256"))
        is_superseded = item.get("status") == status and is_uuid(item.get("request_id"))
        if call == wanted and is_superseded:
            resumes = _count(item.get("resumes"))
            attempts.append(Attempt("", item, status, resumes, _known_type(item)))
    return attempts


def _known_type(item: Mapping[str, Any]) -> str | None:
    """Return the item's error type if it is known; the schema allows any value."""
    found = item.get("error_type")
    return next((known for known in _ERROR_TYPES if known == found), None)


def _count(value: Any) -> int:
    return int(value) if is_integer(value) and value >= 0 else 0


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
        """Return all eleven keys, in the order of the file.

        A path or name that is not set is None, which the schema refuses.
        """
        members = {key: getattr(self, key) for key in _STATE_KEYS}
        return {
            **members,
            "completed_phases": [dict(vars(done)) for done in self.completed_phases],
        }

    def to_file_dict(self) -> dict[str, Any]:
        """Return what is written to the file: `to_dict` without None."""
        return {
            key: value for key, value in self.to_dict().items() if value is not None
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TemplateCreateState:
        """Make a state from a document, without validating it.

        Raise KeyError if a completed phase lacks one of its four keys.
        """
        members = {
            key: data[key] for key in _STATE_KEYS if key in data or key in _NEEDED_KEYS
        }
        completed = [
            CompletedPhase(*(done[key] for key in _BLANK_PHASE))
            for done in data.get("completed_phases", [])
        ]
        return cls(**{**members, "completed_phases": completed})

    @staticmethod
    def validate(document: Any, profile: Profile = Profile.STRICT) -> list[Problem]:
        """Return every problem of `document` as a state."""
        return documents.validate(document, DocumentKind.STATE, profile)

    @classmethod
    def loads(
        cls, data: bytes, profile: Profile = Profile.INTEROP
    ) -> TemplateCreateState:
        """Read a state from the bytes of a file.

        Raise Unreadable or InvalidDocument (both ValueErrors) if it is not valid. The
        schema does not require the four keys of a completed phase that `from_dict`
        needs, so missing ones are filled in.
        """
        document = documents.load_document(data, DocumentKind.STATE, profile)
        document["completed_phases"] = [
            {**_BLANK_PHASE, **done} for done in document.get("completed_phases", [])
        ]
        return cls.from_dict(document)


class StateFile(RunFiles):
    """The state of one run, and the file it is written to."""

    def __init__(
        self,
        files: CheckpointFiles,
        run: Run,
        checkpoint: Checkpoint | None,
        *,
        restoring: bool,
    ) -> None:
        """Continue from `checkpoint`, the content of the file, if there is one.

        `restoring` says that the journal lacks the run, or parts of it.
        """
        self._files = files
        self._run = run
        found: Mapping[str, Any] = checkpoint.document if checkpoint else {}
        self._phase = int(found.get("phase", 1))
        self._phase_name = str(found.get("phase_name", ""))
        self._checkpoint_name = str(found.get("checkpoint_name", BEFORE_AGENT))
        self._phase_data: dict[str, Any] = dict(found.get("phase_data", {}))
        self._recorded: dict[str, Any] = dict(checkpoint.recorded if checkpoint else {})
        self._completed: list[dict[str, Any]] = list(found.get("completed_phases", []))
        self._items: list[dict[str, Any]] = [
            dict(item) for item in found.get("agent_requests", [])
        ]
        self._restoring = checkpoint if restoring else None
        self._unclaimed = checkpoint.pending if checkpoint and restoring else None
        self._next_phase = checkpoint.next_phase if checkpoint else 1

    def enter(self, number: int, name: str) -> None:
        self._phase = number
        self._phase_name = name
        self._checkpoint_name = BEFORE_AGENT

    def has_completed(self, number: int) -> bool:
        return any(item.get("phase") == number for item in self._completed)

    def complete(
        self, number: int, name: str, key: str | None, result: Any, summary: str
    ) -> None:
        self._phase = number
        self._phase_name = name
        self._checkpoint_name = PHASE_COMPLETE
        if key is not None:
            self._phase_data[key] = result
        inside = f"{name}#"
        self._recorded = {
            path: value
            for path, value in self._recorded.items()
            if not path.startswith(inside)
        }
        others = [item for item in self._completed if item.get("phase") != number]
        done = {
            "phase": number,
            "phase_name": name,
            "completed_at": self._now(),
            "result_summary": summary,
        }
        self._completed = [*others, done]

    def remember(self, key: str, value: Any) -> None:
        self._phase_data[key] = value

    def note_attempts(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if attempt.status is not AttemptStatus.QUEUED:
                self._note(attempt)

    def note_result(self, path: str, result: str | None) -> None:
        if result is not None:
            self._recorded[path] = json.loads(result)

    def request_context(self) -> Mapping[str, Any]:
        return {
            key: self._run.input[key]
            for key in SETTINGS
            if self._run.input.get(key) is not None
        }

    def save(self) -> None:
        """Write the file, once a phase has been entered."""
        if not self._phase_name:
            return
        settings = self._run.input
        state = {
            "version": CONTRACT_VERSION,
            "phase": self._phase,
            "phase_name": self._phase_name,
            "checkpoint_name": self._checkpoint_name,
            "created_at": self._now(),
            "output_path": str(settings["output_path"]),
            "project_path": settings.get("project_path"),
            "template_name": settings.get("template_name"),
            "phase_data": self._written_phase_data(),
            "completed_phases": self._completed,
            "agent_requests": self._items,
        }
        written = {key: value for key, value in state.items() if value is not None}
        self._files.write(self._files.state_path, written)

    def restored_phase(self, number: int, key: str | None) -> Any:
        if self._restoring is None:
            return NOT_RESTORED
        if self._restoring.pending is not None:
            before = number < self._restoring.document["phase"]
            return self._phase_data.get(key or "") if before else NOT_RESTORED
        if number < self._next_phase and (key is None or key in self._phase_data):
            return self._phase_data.get(key or "")
        # The first phase without a result is run, and so is every later one.
        self._next_phase = min(self._next_phase, number)
        return NOT_RESTORED

    def restored_result(self, path: str) -> str | None:
        if self._restoring is None or path not in self._restoring.recorded:
            return None
        return json.dumps(self._restoring.recorded[path])

    def restored_call(self, phase: int, phase_name: str, agent: str) -> Call | None:
        call = self._unclaimed
        if call is None:
            return None
        request = call.current.document
        request_key = (request["phase"], request["phase_name"], request["agent_name"])
        if request_key != (phase, phase_name, agent):
            return None
        self._unclaimed = None  # any further question of the phase is a new one
        return call

    def _written_phase_data(self) -> dict[str, Any]:
        written = {
            key: value
            for key, value in self._phase_data.items()
            if not key.startswith("_")
        }
        written[FLOW] = {
            "id": self._run.id,
            "version": self._run.version,
            "input": dict(self._run.input),
        }
        if self._recorded:
            written[RECORDED] = self._recorded
        if self._phase_data.get(PENDING_REQUEST) is not None:
            written[PENDING_REQUEST] = self._phase_data[PENDING_REQUEST]
        return written

    def _note(self, attempt: Attempt) -> None:
        """Update the item of a request, or add one.

        The copy of a request is kept only while it is pending.
        """
        item = self._item_for(attempt)
        item |= _item(attempt)
        if attempt.error_type is None:
            item.pop("error_type", None)
        pending: Mapping[str, Any] = self._phase_data.get(PENDING_REQUEST) or {}
        if attempt.status is AttemptStatus.PENDING:
            self._phase_data[PENDING_REQUEST] = dict(attempt.document)
        elif _has_id(pending, attempt.request_id):
            self._phase_data[PENDING_REQUEST] = None

    def _item_for(self, attempt: Attempt) -> dict[str, Any]:
        """Return the item of a request; add an empty one if there is none."""
        for item in self._items:
            if _has_id(item, attempt.request_id):
                return item
        self._items.append({})
        return self._items[-1]

    def _now(self) -> str:
        return utc_text(self._files.clock.now())


def _has_id(document: Mapping[str, Any], request_id: str) -> bool:
    return str(document.get("request_id", "")).lower() == request_id.lower()


def _item(attempt: Attempt) -> dict[str, Any]:
    document = attempt.document
    item: dict[str, Any] = {
        "request_id": attempt.request_id,
        "agent_name": document.get("agent_name"),
        "phase": document.get("phase"),
        "status": attempt.status.value,
        "resumes": attempt.resumes,
    }
    if "prompt" in document:
        item |= {
            "retry_count": attempt.number,
            "created_at": document["created_at"],
            "deadline": utc_text(attempt.deadline),
            "prompt_sha256": prompt_sha256(document["prompt"]),
        }
    if attempt.error_type is not None:
        item["error_type"] = attempt.error_type
    return item
