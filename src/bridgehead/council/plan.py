"""What a council is asked to do: the task, the seats, the limits, and what is known from before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.council.findings.history import Record
from bridgehead.council.five_phase import DEFAULT, Preset
from bridgehead.council.routing import DEBATE_PROTOCOL, DEEP_COUNCIL, PARALLEL_WORKFLOW


@dataclass(frozen=True, slots=True)
class Dismissals:
    """The dismissals file of the project, and that of the base revision when a change is reviewed."""

    tables: tuple[Mapping[str, Any], ...] = ()
    base: tuple[Mapping[str, Any], ...] | None = None
    allow_new: bool = False

    def is_new(self, entry: int) -> bool:
        """Whether the reviewed change brought this entry along."""
        return self.base is not None and self.tables[entry] not in self.base


@dataclass(frozen=True, slots=True)
class CouncilPlan:
    """One council. The task's `session_id` is the review id; `bridges` are in dispatch order."""

    task: BridgeInput
    bridges: tuple[str, ...]
    today: dt.date
    route: str = DEEP_COUNCIL
    interactive: bool = False
    one_runtime: bool = False
    """Exactly one `--runtime`: no Stage B (council §20)."""
    fallback: bool = False
    seed_findings: tuple[Output, ...] = ()
    """What the caller found already; a pseudo bridge `caller` in Stage A (council §14.7)."""
    coordinator: str | None = None
    preset: Preset = DEFAULT
    """Weights of a standalone debate (council §17)."""
    max_calls: int | None = None
    max_cost_usd: float | None = None
    scope: tuple[str, ...] = ()
    dismissals: Dismissals = field(default_factory=Dismissals)
    records: tuple[Record, ...] = ()
    previous_review_id: str | None = None
    notes: tuple[str, ...] = ()
    """Assumptions of the pre-flight, for the reader of the report."""
    warnings: tuple[str, ...] = ()

    @property
    def review_id(self) -> str:
        return self.task.session_id

    @property
    def is_parallel_workflow(self) -> bool:
        """One available bridge and the static seat, Round 1 only, no Stage B (council §16)."""
        return self.route == PARALLEL_WORKFLOW

    @property
    def is_debate(self) -> bool:
        """One available bridge debates in five phases (council §17)."""
        return self.route == DEBATE_PROTOCOL

    @property
    def takes_first_available(self) -> bool:
        return self.is_parallel_workflow or self.is_debate

    @property
    def skips_stage_b(self) -> bool:
        return self.one_runtime or self.takes_first_available
