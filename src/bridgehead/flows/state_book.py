"""Keeps `.template-create-state.json` in step with a run of phases, and restores a run from it (flows §4, §9 R7).

With a journal the file is a copy for people and other programs. Without one it is enough to go on: results of phases,
the pending request, and the answers of the unfinished phase are all in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.flows.book import NOT_RESTORED, Book
from bridgehead.flows.calls import Attempt, Call, prompt_sha256
from bridgehead.flows.checkpoint import (
    BEFORE_AGENT,
    FLOW,
    PENDING_REQUEST,
    PHASE_COMPLETE,
    RECORDED,
    SETTINGS,
    Checkpoint,
)
from bridgehead.flows.checkpoint_files import CheckpointFiles
from bridgehead.flows.journals.base import Run
from bridgehead.flows.moments import utc_text
from bridgehead.flows.words import CONTRACT_VERSION, AttemptStatus


class StateBook(Book):
    """The state of one run. `checkpoint` is what was found in the file; `restoring` when the journal lacks the run."""

    def __init__(
        self, files: CheckpointFiles, run: Run, checkpoint: Checkpoint | None, *, restoring: bool
    ) -> None:
        self._files = files
        self._run = run
        found: Mapping[str, Any] = checkpoint.document if checkpoint else {}
        self._phase = int(found.get("phase", 1))
        self._phase_name = str(found.get("phase_name", ""))
        self._checkpoint_name = str(found.get("checkpoint_name", BEFORE_AGENT))
        self._phase_data: dict[str, Any] = dict(found.get("phase_data", {}))
        self._recorded: dict[str, Any] = dict(checkpoint.recorded if checkpoint else {})
        self._completed: list[dict[str, Any]] = list(found.get("completed_phases", []))
        self._items: list[dict[str, Any]] = [dict(item) for item in found.get("agent_requests", [])]
        self._restoring = checkpoint if restoring else None
        self._unclaimed = checkpoint.pending if checkpoint and restoring else None
        self._next_phase = checkpoint.next_phase if checkpoint else 1

    def enter(self, number: int, name: str) -> None:
        self._phase, self._phase_name, self._checkpoint_name = number, name, BEFORE_AGENT

    def has_completed(self, number: int) -> bool:
        return any(item.get("phase") == number for item in self._completed)

    def complete(self, number: int, name: str, key: str | None, result: Any, summary: str) -> None:
        self._phase, self._phase_name, self._checkpoint_name = number, name, PHASE_COMPLETE
        if key is not None:
            self._phase_data[key] = result
        inside = f"{name}#"
        self._recorded = {path: kept for path, kept in self._recorded.items() if not path.startswith(inside)}
        done = {
            "phase": number,
            "phase_name": name,
            "completed_at": self._now(),
            "result_summary": summary,
        }
        self._completed = [item for item in self._completed if item.get("phase") != number] + [done]

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
        return {key: self._run.input[key] for key in SETTINGS if self._run.input.get(key) is not None}

    def save(self) -> None:
        """Write the file; a phase that has been entered is what makes it worth writing."""
        if not self._phase_name:
            return
        given = self._run.input
        state = {
            "version": CONTRACT_VERSION,
            "phase": self._phase,
            "phase_name": self._phase_name,
            "checkpoint_name": self._checkpoint_name,
            "created_at": self._now(),
            "output_path": str(given["output_path"]),
            "project_path": given.get("project_path"),
            "template_name": given.get("template_name"),
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
        # The first phase without a result is run, and with it everything after.
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
        asked = call.current.document
        if (asked["phase"], asked["phase_name"], asked["agent_name"]) != (phase, phase_name, agent):
            return None
        self._unclaimed = None  # the next question of the phase is another one
        return call

    def _written_phase_data(self) -> dict[str, Any]:
        kept = {key: value for key, value in self._phase_data.items() if not key.startswith("_")}
        kept[FLOW] = {"id": self._run.id, "version": self._run.version, "input": dict(self._run.input)}
        if self._recorded:
            kept[RECORDED] = self._recorded
        if self._phase_data.get(PENDING_REQUEST) is not None:
            kept[PENDING_REQUEST] = self._phase_data[PENDING_REQUEST]
        return kept

    def _note(self, attempt: Attempt) -> None:
        """Bring the item of a request up to date, or add it; the copy of a request lasts as long as it is pending."""
        wanted = attempt.request_id.lower()
        item = next(
            (known for known in self._items if str(known.get("request_id", "")).lower() == wanted), None
        )
        if item is None:
            item = {}
            self._items.append(item)
        item |= _item(attempt)
        if attempt.error_type is None:
            item.pop("error_type", None)
        pending: Mapping[str, Any] = self._phase_data.get(PENDING_REQUEST) or {}
        if attempt.status is AttemptStatus.PENDING:
            self._phase_data[PENDING_REQUEST] = dict(attempt.document)
        elif str(pending.get("request_id", "")).lower() == wanted:
            self._phase_data[PENDING_REQUEST] = None

    def _now(self) -> str:
        return utc_text(self._files.clock.now())


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
