"""The language between the pure council and whoever runs it: what happened goes in, what is to be done comes out.

The council itself makes no call, reads no clock and draws no lot. `SeatRun` (one seat) and `CouncilRun` (all of
them) are fed with inputs and answer each with a `Turn`:

    run = CouncilRun(plan, inputs)      # council.py, request/plan.py, interfaces.py
    turn = run.start(at)
    while turn.report is None:
        ...carry out the turn in this order: write `events`, write `seat_reports`, cancel `cancelled`,
           check `seatings`, make `calls`, put `question` to the user...
        turn = run.feed(whatever happened next)

What happened is one of the `Input` structs below; each carries the moment it happened, so that feeding the same
inputs again in the same order gives the same prompts, ids and report. That is also how a run is resumed: feed the
recorded inputs in the order they were recorded, drop every call that has a result among them, and carry out what is
left (`outstanding` says which keys that is). Results may be fed in any order; nothing depends on who answers first
except the order of the lines in the log.

For every seating: pre-flight, then `SeatReady` (the run will ask for its calls), `SeatReported` (a seat that makes its
own report: static, rig, anything SKIPPED or HALTED) or `SeatPending` (a rig that has not answered). A ready seat's
deadline is `Seat.deadline_seconds`; when it passes, feed `DeadlineReached`. Concurrency is the runner's business.
Reports of seats that never get to a call are made by reporting/seat_report.py (`skipped_report`, `halted_report`, …).

`report` is not the end for a council with a pending rig: feed its `SeatReported` on resume, and a new report follows.
A turn without calls, seatings, question and report means that the run waits (`waiting_for`, `outstanding`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.report import BridgeReport, ModelWarning
from bridgehead.contract.words import CapabilityProfile, ErrorClass

if TYPE_CHECKING:
    from bridgehead.council.reporting.report import AbortedReport, CouncilReport

FIRST_SEATING: Final = 1


class Step(StrEnum):
    """What a call is for; with the round it names a flow phase, `round{n}_{step}` (council §4)."""

    ANALYSIS = "analysis"
    CHALLENGE = "challenge"
    RESPONSE = "response"
    RULING = "ruling"
    CONSOLIDATION = "consolidation"
    STAGE_B = "stage_b"
    POSITION = "position"
    """Final positions of the five-phase engine (council §17)."""


class Role(StrEnum):
    EXPERT = "expert"
    CHALLENGER = "challenger"
    INTEGRATION = "integration"
    CONSOLIDATION = "consolidation"
    EXPERTS = "experts"
    """All roles of a seat in one call (council §9.10)."""


_ROLE_NAMES: Final = frozenset(role.value for role in Role)


def agent_name(role: Role, domain: str) -> str:
    """Who speaks: the domain of an expert, else the role; an expert for a domain called like a role says so."""
    if role is not Role.EXPERT:
        return role.value
    return f"{role}:{domain}" if domain in _ROLE_NAMES else domain


class Answer(StrEnum):
    """Which JSON a call asks for; `seating.answer_schemas.schema_of` gives the JSON Schema for structured output."""

    ITEMS = "items"
    SECTIONS = "sections"
    """Items of several roles, each in a list of its own."""
    CHALLENGES = "challenges"
    RESPONSES = "responses"
    RULINGS = "rulings"
    NOTES = "notes"
    """Stage B, Devil's Advocate."""
    EXAMINATION = "examination"
    """Stage B, Devil's Advocate and Integration Checker in one call (council §9.10)."""
    DEFENCES = "defences"
    """What a seat answers for its findings after that."""
    POSITIONS = "positions"


class CallKey(
    msgspec.Struct, frozen=True, kw_only=True, rename={"seat": "bridge"}, order=True
):
    """Which call of a run this is. Two calls never share a key; the prompt's hash is on the call."""

    seat: str
    round: int
    step: Step
    role: Role
    domain: str
    model: str | None = None
    """Set when one seat asks several models (council §12.1)."""
    shard: int = 1
    """Which part of a packet that had to be split (council §9.9, level 3)."""
    attempt: int = 1
    """2 and up: the repair prompt, the reminder of a missing challenge, the fall-back from a lost session."""
    seating: int = FIRST_SEATING
    """How often it was seated in this run; grows with every retry (council §3)."""

    @property
    def agent(self) -> str:
        return agent_name(self.role, self.domain)

    @property
    def speaker(self) -> str:
        """Whose session a conversation is: an agent's, of one model where a seat has several."""
        return f"{self.agent}@{self.model}" if self.model else self.agent

    @property
    def phase_name(self) -> str:
        return f"round{self.round}_{self.step}"

    def __str__(self) -> str:
        """`codex/1/analysis/security`, with what is out of the ordinary behind it."""
        extras = [
            f"@{self.model}" if self.model else "",
            f".{self.shard}" if self.shard > 1 else "",
            f"#{self.attempt}" if self.attempt > 1 else "",
            f"~{self.seating}" if self.seating > FIRST_SEATING else "",
        ]
        return f"{self.seat}/{self.round}/{self.step}/{self.agent}" + "".join(extras)


@dataclass(frozen=True, slots=True)
class Call:
    """One prompt to be put to a runtime."""

    key: CallKey
    prompt: str
    timeout_seconds: int
    answer: Answer
    profile: CapabilityProfile
    session: str | None = None
    """The role's session to go on with, for connections that keep history; None starts a new one."""

    @property
    def prompt_sha256(self) -> str:
        return hashlib.sha256(self.prompt.encode("utf-8", "surrogatepass")).hexdigest()


class CallUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one call cost, as far as the runtime says."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


Amount = TypeVar("Amount", int, float)


def sum_known(amounts: Iterable[Amount | None]) -> Amount | None:
    """The sum of those that are known; None where none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known else None


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """A call came back with text. The text may still be in the runtime's envelope; `replies/reply.py` opens it."""

    key: CallKey
    text: str
    at: str
    session: str | None = None
    model: str | None = None
    """The model that really ran, where the runtime says so."""
    duration_seconds: float = 0.0
    usage: CallUsage = CallUsage()
    shortfall: Unlooked | None = None
    """Why this is not the whole answer, as the runtime says itself."""


class CallFailed(msgspec.Struct, frozen=True, kw_only=True, tag="call_failed"):
    """A call ended without a usable text: `reason` is a skip reason of council §3."""

    key: CallKey
    reason: str
    error_class: ErrorClass
    at: str
    detail: str = ""
    """Whole stderr, at most 64 KiB, secrets masked; goes into the log only."""
    duration_seconds: float = 0.0
    usage: CallUsage = CallUsage()


class Seat(msgspec.Struct, frozen=True, kw_only=True, rename={"name": "bridge"}):
    """A seat that passed pre-flight, and what the run must know about it."""

    name: str
    model_family: str
    connection: str
    """`native-dispatch cli api http-api mcp`, or a plug-in's own."""
    id_prefix: str
    timeout_seconds: int
    deadline_seconds: int
    keeps_history: bool = False
    """A session per role; later rounds get the packet only (council §9.8)."""
    reads_files: bool = True
    """False: prompts carry the material (council §6)."""
    models: tuple[str | None, ...] = (None,)
    """One entry per invocation; two or more make a multi-model seat (council §12.1)."""
    debate_merged: bool = False
    messaging: bool = False
    """Agents can write to each other: the five-phase engine takes over from §9 (council §17)."""
    exchange_mode: str = "stateless-replay"
    runtime: str | None = None
    toolchain: str | None = None
    degradation_reason: str | None = None
    """A native council was asked for and not obtained."""
    model_validation_warnings: tuple[ModelWarning, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    """Report fields that belong to this seat only (council §12): `reasoning_level`, `subagent_mode`, …"""


class SeatReady(msgspec.Struct, frozen=True, kw_only=True, tag="seat_ready"):
    """Pre-flight passed."""

    seat: Seat
    at: str


class SeatReported(msgspec.Struct, frozen=True, kw_only=True, tag="seat_reported"):
    """The seat has made its report without asking us: static, a rig's answer, SKIPPED, HALTED."""

    report: BridgeReport
    at: str
    verified: bool = True
    """Rigs only: a good signature by a known signer (council §23)."""


class _OfSeat(msgspec.Struct, frozen=True, kw_only=True, rename={"seat": "bridge"}):
    seat: str
    at: str


class SeatPending(_OfSeat, frozen=True, kw_only=True, tag="seat_pending"):
    """A rig was asked and has not answered; the council does not wait for it."""

    request: str


class DeadlineReached(_OfSeat, frozen=True, kw_only=True, tag="deadline_reached"):
    """The seat's deadline passed (council §5)."""


class GivenUp(_OfSeat, frozen=True, kw_only=True, tag="given_up"):
    """`resume --close`: nobody waits for this seat any longer."""


class Retried(_OfSeat, frozen=True, kw_only=True, tag="retried"):
    """`resume --retry`: a seat without a usable reply is seated again."""


class Questioned(msgspec.Struct, frozen=True, kw_only=True, tag="questioned"):
    """`council challenge`: one more question about one finding of the report."""

    finding_id: str
    text: str
    at: str


class UserAnswered(_OfSeat, frozen=True, kw_only=True, tag="user_answered"):
    """What was typed at a `UserQuestion`; None is the end of input."""

    answer: str | None


class Interrupted(msgspec.Struct, frozen=True, kw_only=True, tag="interrupted"):
    """A signal ends the run now; what is there is reported."""

    signal: str
    at: str


Result: TypeAlias = Reply | CallFailed
Input: TypeAlias = (
    Reply
    | CallFailed
    | SeatReady
    | SeatReported
    | SeatPending
    | DeadlineReached
    | GivenUp
    | Retried
    | Questioned
    | UserAnswered
    | Interrupted
)


@dataclass(frozen=True, slots=True)
class SeatEvent:
    """One line of a seat's event log (council §18); the writer adds `ts` and `seq`. Seat `council` is the council."""

    seat: str
    event: str
    fields: dict[str, Any] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        return {"event": self.event, **self.fields}


@dataclass(frozen=True, slots=True)
class Seating:
    """Check this seat (council §4) and answer with SeatReady, SeatReported or SeatPending."""

    seat: str
    number: int = FIRST_SEATING


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A halted seat put to the user (council §3); answer with UserAnswered."""

    seat: str
    halt_reason: str
    message: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done now, in this order."""

    events: tuple[SeatEvent, ...] = ()
    seat_reports: tuple[BridgeReport, ...] = ()
    cancelled: tuple[CallKey, ...] = ()
    seatings: tuple[Seating, ...] = ()
    calls: tuple[Call, ...] = ()
    question: UserQuestion | None = None
    report: CouncilReport | AbortedReport | None = None

    def then(self, later: Turn) -> Turn:
        """Both turns as one, in order."""
        return Turn(
            self.events + later.events,
            self.seat_reports + later.seat_reports,
            self.cancelled + later.cancelled,
            self.seatings + later.seatings,
            self.calls + later.calls,
            later.question or self.question,
            later.report or self.report,
        )
