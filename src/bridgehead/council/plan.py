"""What a council is asked to do: the task, the seats, the user's options, and what is known from before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import ContextPolicy, Intensity
from bridgehead.council.five_phase import DEFAULT, PRESETS, Preset
from bridgehead.council.routing import DEBATE_PROTOCOL, DEEP_COUNCIL, PARALLEL_WORKFLOW

if TYPE_CHECKING:
    from bridgehead.council.findings.history import Record


class CouncilOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the user wants a council to be held; None is "not said". Request, stored council and plan share it."""

    intensity: Intensity | None = None
    context_policy: ContextPolicy | None = None
    runtimes: tuple[str, ...] = ()
    host_seat: str | None = None
    """The bridge the calling agent sits for; empty until it is found out which agent that is."""
    fallback: bool = False
    seed_findings: tuple[Output, ...] = ()
    """What the caller found already; a pseudo bridge `caller` in Stage A (council §14.7)."""
    interactive: bool = False
    reconfigure: bool = False
    write_settings: bool = False
    max_calls: int | None = None
    max_cost_usd: float | None = None
    allow_new_dismissals: bool = False
    preset: str = DEFAULT.name
    """Weights of a standalone debate, by name (council §17)."""

    @property
    def rewrites_settings(self) -> bool:
        """Whether `.bridge-settings.json` is written again, freshly dated (council §13)."""
        return self.write_settings or (self.interactive and self.reconfigure)


@dataclass(frozen=True, slots=True)
class Dismissals:
    """The dismissals file of the project, and that of the base revision when a change is reviewed."""

    tables: tuple[Mapping[str, Any], ...] = ()
    base: tuple[Mapping[str, Any], ...] | None = None

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
    options: CouncilOptions = field(default_factory=CouncilOptions)
    coordinator: str | None = None
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
    def preset(self) -> Preset:
        return PRESETS[self.options.preset]

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
        """Exactly one `--runtime` was named, or one bridge is enough (council §20)."""
        return len(self.options.runtimes) == 1 or self.takes_first_available
