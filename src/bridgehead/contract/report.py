"""What comes back from a bridge: output items (council §7) and the bridge report
(council §12).

Every field of a report is always present, null where it does not apply; which fields
may be null under which status is in the published schema (tools/schema_files.py has the
table).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from bridgehead.contract.looks import Look
from bridgehead.contract.words import (
    CapabilityProfile,
    Confidence,
    LocalCouncilType,
    OutputState,
    OutputType,
    Severity,
    Status,
    TaskType,
    Verdict,
)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, recommendation, plan item, ... of a bridge."""

    id: str
    type: OutputType
    severity: Severity | None
    status: OutputState | None
    """None: never exposed to a challenge round."""
    title: str
    description: str
    evidence: str | None
    action: str | None
    domain: str
    agent: str
    origin_round: int | UnsetType = UNSET
    revision: int | UnsetType = UNSET
    severity_original: str | UnsetType = UNSET
    severity_inferred: bool | UnsetType = UNSET
    lowered_from: Severity | UnsetType = UNSET
    """The severity before its owner lowered it, for evidence that was found."""
    merged_from: tuple[str, ...] | UnsetType = UNSET
    challenges: tuple[str, ...] | UnsetType = UNSET
    argument: tuple[dict[str, Any], ...] | UnsetType = UNSET
    """`step by text round` of every challenge with its answers and rulings."""
    requirement_id: str | UnsetType = UNSET
    met: bool | UnsetType = UNSET
    unchallenged: bool | UnsetType = UNSET
    """The Challenger owed this item a challenge and did not give one."""
    withdrawal_reason: str | UnsetType = UNSET
    challenge_id: str | UnsetType = UNSET
    """The challenge that led to a withdrawal."""
    evidence_check: dict[str, Any] | UnsetType = UNSET
    """`outcome strength reason references` (council §25.1)."""
    anchor: dict[str, Any] | UnsetType | None = UNSET
    fingerprint: str | UnsetType = UNSET
    fingerprints: tuple[str, ...] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    confirmed_by_models: tuple[str, ...] | UnsetType = UNSET
    intra_bridge_model_confirmed: bool | UnsetType = UNSET
    unverified: bool | UnsetType = UNSET
    proposal: dict[str, Any] | UnsetType = UNSET
    """Of type proposal: rationale, trade-offs, failure modes, … (council §15)."""


class DisputedOutput(msgspec.Struct, frozen=True):
    """An output that is disputed still, and the challenges nobody settled."""

    output: Output
    unresolved_challenge: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a bridge spent; tokens and cost only where the runtime reports them."""

    calls: int = 0
    prompt_chars: int = 0
    reply_chars: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


class ModelWarning(msgspec.Struct, frozen=True):
    """A model that was named and not used, with the reason.

    `model` repeats the value as it was given.
    """

    model: Any
    reason: str


class Artifacts(msgspec.Struct, frozen=True):
    """Where the bridge's event log and summary were written, relative to the project."""

    jsonl: str | None = None
    markdown: str | None = None


class BridgeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer of a bridge.

    Bridge names and connections are open vocabularies (council §23).
    """

    bridge: str
    model_family: str
    session_id: str
    task_type: TaskType
    capability_profile: CapabilityProfile
    connection_used: str | None
    status: Status
    skip_reason: str | None
    halt_reason: str | None
    halt_message: str | None
    domains_covered: tuple[str, ...]
    debate_rounds: int | None
    outputs: tuple[Output, ...]
    withdrawn_outputs: tuple[Output, ...]
    disputed_outputs: tuple[DisputedOutput, ...]
    verdict: Verdict | None
    confidence: Confidence | None
    prompt_size_chars_r1: int | None
    prompt_size_chars_r2: int | None
    prompt_size_chars_r3: int | None
    prompt_size_chars_r4: int | None
    model_validation_warnings: tuple[ModelWarning, ...]
    timeout_s: int
    started_at: str
    finished_at: str
    usage: Usage
    local_council_type: LocalCouncilType | None
    local_council_degraded: bool | None
    degradation_reason: str | None
    diversity_sources: tuple[str, ...]
    runtime: str | None
    toolchain: str | None
    exchange_mode: str | None
    termination_reason: str | None
    unexplored_domains: tuple[str, ...]
    context_overflow: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    artifacts: Artifacts

    # Present for the bridge they belong to (council §12).
    agents_spawned: int | UnsetType = UNSET
    dispatch_mode: str | UnsetType = UNSET
    subagent_mode: str | UnsetType = UNSET
    multi_agent_enabled: bool | UnsetType = UNSET
    reasoning_level: str | UnsetType = UNSET
    models_configured: tuple[str, ...] | UnsetType = UNSET
    models_used: tuple[str, ...] | UnsetType = UNSET
    instances_spawned: int | UnsetType = UNSET
    instances_completed: int | UnsetType = UNSET
    intra_bridge_confirmed: int | UnsetType = UNSET
    remote: dict[str, Any] | UnsetType = UNSET
    """A rig's: what it claims about its bridge, connection and models; believed by
    nobody (council §23).
    """
    unseen_files: tuple[str, ...] | UnsetType = UNSET
    """Files of the scope that the seat could not open and that did not fit into its
    prompts.
    """
    looks: tuple[Look, ...] | UnsetType = UNSET
    """The static seat's: files due that no analyser able to judge them looked at."""
