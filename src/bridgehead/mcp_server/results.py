"""What each tool returns, as structured content. The output schemas are made from these types.

Text that others wrote (findings, prompts, envelopes) stands in fields named `report`, `prompt` or `text`, fenced
(contract/fencing.py); `note` explains the fence's marker. Short foreign texts such as titles are neutralised.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Result(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Structured content of a tool's result."""

    note: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    id: str
    severity: str
    title: str
    location: str
    seats: list[str]
    confirmation: str


class SeatRequest(Struct, frozen=True, kw_only=True):
    """A prompt that the calling agent answers for its seat."""

    id: str
    request_id: str
    title: str
    prompt: str


class CouncilResult(Result, frozen=True, kw_only=True):
    review_id: str
    status: Literal["reported", "input_required", "waiting", "running", "stopped", "aborted"]
    exit_code: int
    """The code the command would end with; 42 waits for an agent."""
    summary: str
    next: str = ""
    verdict: str | None = None
    findings: list[Finding] = []
    report: str = ""
    report_files: dict[str, str] = {}
    requests: list[SeatRequest] = []
    waiting_for: list[str] = []
    skipped: dict[str, str] = {}
    warnings: list[str] = []


class CouncilListed(Struct, frozen=True, kw_only=True):
    review_id: str
    verb: str
    title: str
    state: str
    started_at: str
    verdict: str | None
    waiting_for: list[str]


class CouncilStatusResult(Result, frozen=True, kw_only=True):
    councils: list[CouncilListed] = []
    council: CouncilResult | None = None


class PendingEntry(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    state: str
    origin: str
    title: str
    since: str
    project: str
    choices: list[str]
    advice: str | None
    expires_at: str | None
    prompt: str = ""


class PendingResult(Result, frozen=True, kw_only=True):
    items: list[PendingEntry]
    next: str = ""


class AnswerResult(Result, frozen=True, kw_only=True):
    id: str
    state: str
    title: str
    next: str


class InboxEntry(Struct, frozen=True, kw_only=True):
    id: str
    thread: str
    type: str
    sender: str
    commit: str | None
    verification: str
    text: str


class RigInboxResult(Result, frozen=True, kw_only=True):
    rig: str
    envelopes: list[InboxEntry]
    left_out: int
    next: str = ""


class RigSendResult(Result, frozen=True, kw_only=True):
    type: str
    thread: str
    file: str
    commit: str
    pushed: bool
    to: list[str]


class FlowRespondResult(Result, frozen=True, kw_only=True):
    request_id: str
    next: str


class Check(Struct, frozen=True, kw_only=True):
    group: str
    kind: str
    state: str
    message: str
    fix: str | None


class DoctorResult(Result, frozen=True, kw_only=True):
    summary: str
    checks: list[Check]
