"""Read a state file as a checkpoint to resume from: the rules R2–R4 of flows §9. Pure: the bytes have been read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.flows.calls import Attempt, Call, prompt_sha256
from bridgehead.flows.documents import InvalidDocument, is_supported, normalise
from bridgehead.flows.errors import StateCorrupt, StateInvalid, UnsupportedVersion
from bridgehead.flows.json_bytes import Unreadable, read_object
from bridgehead.flows.schema_check import is_integer, is_uuid
from bridgehead.flows.words import (
    CANCELLED,
    CONTRACT_VERSION,
    DEFAULT_TIMEOUT_SECONDS,
    LOW_CONFIDENCE,
    NOTHING,
    REQUEST_KEYS,
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
BEFORE_AGENT = "before_agent_invocation"
_ERROR_TYPES = (*(kind.value for kind in ErrorType), LOW_CONFIDENCE, CANCELLED)


class Checkpoint(NamedTuple):
    """A valid state, and the call that is pending in it."""

    document: Mapping[str, Any]
    pending: Call | None = None
    flow: Mapping[str, Any] = NOTHING
    """What the engine noted about the run that wrote it: id, version, input."""

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
        """Where the run goes on when nothing is pending (R7)."""
        done = self.document["checkpoint_name"] == PHASE_COMPLETE
        return int(self.document["phase"]) + (1 if done else 0)


def read_checkpoint(data: bytes, path: Path) -> Checkpoint:
    """The checkpoint in a state file's bytes, or the refusal that fits what is wrong with it."""
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
    noted = document.get("phase_data", {}).get(FLOW)
    return Checkpoint(document, _pending_call(document, path), noted if isinstance(noted, dict) else {})


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
        raise StateInvalid(path, ["the pending request and its copy have different ids"])
    current = Attempt("", request, AttemptStatus.PENDING, _count(item.get("resumes")))
    return Call("", (*_superseded(items, request), current))


def _pending_request(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    copy = document.get("phase_data", {}).get(PENDING_REQUEST)
    if not isinstance(copy, dict) or not is_supported(copy):
        raise StateInvalid(path, [f"a request is pending, but {PENDING_REQUEST} holds none"])
    try:
        valid = normalise(copy, DocumentKind.REQUEST, Profile.STRICT)
    except InvalidDocument as error:
        raise StateInvalid(path, [f"{PENDING_REQUEST} is {error}"]) from error
    defaults = {"context": {}, "timeout_seconds": DEFAULT_TIMEOUT_SECONDS, "retry_count": 0}
    complete = {**defaults, **valid, "version": CONTRACT_VERSION}
    return {key: complete[key] for key in REQUEST_KEYS}


def _superseded(items: list[dict[str, Any]], request: Mapping[str, Any]) -> list[Attempt]:
    """Earlier attempts of the same call: same phase, same agent, same prompt (R8)."""
    wanted = (request["phase"], request["agent_name"], prompt_sha256(request["prompt"]))
    return [
        Attempt("", item, AttemptStatus.SUPERSEDED, _count(item.get("resumes")), _known_type(item))
        for item in items
        if item.get("status") == AttemptStatus.SUPERSEDED
        and is_uuid(item.get("request_id"))
        and (item.get("phase"), item.get("agent_name"), item.get("prompt_sha256")) == wanted
    ]


def _known_type(item: Mapping[str, Any]) -> str | None:
    """The item's error type; items are open, so anything may stand there."""
    found = item.get("error_type")
    return next((known for known in _ERROR_TYPES if known == found), None)


def _count(value: Any) -> int:
    return int(value) if is_integer(value) and value >= 0 else 0
