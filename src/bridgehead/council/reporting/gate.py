"""Which exit code a council command ends with (council §20), and what a gate has against a report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridgehead.contract.words import (
    Mode,
    Severity,
    Status,
    TaskType,
    Verdict,
    severity_rank,
)
from bridgehead.council.reporting.not_looked_at import lines_of, not_looked_at_lines
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from bridgehead.council.request.plan import is_judged
from bridgehead.council.scope.scope import is_below, named
from bridgehead.errors import plural
from bridgehead.exit_codes import ExitCode

_SIGNAL_CODE: Final = {"SIGINT": ExitCode.INTERRUPTED, "SIGTERM": ExitCode.TERMINATED}


class GateOutcome(StrEnum):
    """How far a council command came."""

    REPORT = "REPORT"
    ABORTED = "ABORTED"
    PENDING = "PENDING"
    USAGE = "USAGE"


class Gate(StrEnum):
    """From which verdict on a run is refused."""

    FAIL = "fail"
    CONCERNS = "concerns"

    def refuses(self, verdict: Verdict | None) -> bool:
        least = Verdict.FAIL if self is Gate.FAIL else Verdict.CONCERNS
        return verdict is not None and verdict.rank >= least.rank


def council_exit_code(
    outcome: GateOutcome,
    *,
    verdict: Verdict | None,
    task_type: TaskType,
    mode: Mode | None = None,
    gate: Gate | None = None,
    incomplete: bool = False,
    abort_reason: str | None = None,
    signal: str | None = None,
    pending: Collection[str] = (),
) -> ExitCode:
    """The first row of the table that fits. `pending` holds the kinds of seats that wait: `host`, `rig`."""
    if signal is not None:
        return _SIGNAL_CODE[signal]
    if outcome is GateOutcome.ABORTED and (abort_reason or "").startswith(
        "user_abort:"
    ):
        return ExitCode.INTERRUPTED
    if outcome is GateOutcome.USAGE or (
        gate is not None and not is_judged(task_type, mode)
    ):
        return ExitCode.USER
    if outcome is GateOutcome.PENDING or "host" in pending:
        return ExitCode.WAITING
    if outcome is GateOutcome.ABORTED:
        return ExitCode.FAILURE
    if gate is not None and (incomplete or gate.refuses(verdict)):
        return ExitCode.GATE
    return ExitCode.DONE


INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class GateDemands:
    """What a report must bring besides its verdict."""

    level: Gate = Gate.FAIL
    seats: int = 0
    runtimes: tuple[str, ...] = ()
    min_probability: float = 0.0
    """A verdict refuses only if a finding that is at least so likely stands behind it."""
    allow_incomplete: str = ""
    """Why a report passes although something was not looked at; empty: it does not."""
    required: tuple[str, ...] = ()
    """Seats and analysers that must have looked at all of theirs to the end."""
    unread_passes: bool = False
    """Whether files that were not looked at are only shown."""


@dataclass(frozen=True, slots=True)
class GatedState:
    """A state of the project that wants to pass."""

    name: str
    digests: Mapping[str, str]
    """Of every file that is there; empty text where the content is not compared."""
    required: tuple[str, ...] = ()
    """Files that a council has to have seen; one that is not in `digests` is gone."""
    commit: str | None = None
    """The commit it is, or stands on."""
    problem: str = ""
    """Why nobody can tell what has to have been seen."""


@dataclass(frozen=True, slots=True)
class BegunCouncil:
    """A council that was begun and has no result."""

    review_id: str
    failure: str = ""
    """Why it broke off; empty when it did not."""
    waiting_for: tuple[str, ...] = ()

    @property
    def objection(self) -> str:
        if self.failure:
            return f"council {self.review_id} broke off: {self.failure}"
        if self.waiting_for:
            waiting = ", ".join(self.waiting_for)
            return f"council {self.review_id} waits for {waiting}"
        return f"council {self.review_id} was begun and has not ended"


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Whether a gate opens, what it speaks for, and why not."""

    review_id: str
    verdict: Verdict | None
    level: Gate
    refusals: tuple[str, ...]
    state: str
    """What wants to pass: a commit, the index or the working tree."""
    commit: str | None
    """The commit that the state is, or stands on."""
    scope: str
    """What the council looked at."""
    next_step: str | None
    allowed_incomplete: str = ""
    """Why it opens although something was not looked at."""
    not_looked_at: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.refusals


def decide_gate(
    report: CouncilReport, demands: GateDemands, states: Sequence[GatedState]
) -> GateDecision:
    """Decide about a report. One of `states` has to be the one that was reviewed; the nearest is spoken of."""
    about = {state.name: list(_about_state(report, state)) for state in states}
    state = min(states, key=lambda state: len(about[state.name]))
    refusals = [
        *_before_its_end(report),
        *coverage_refusals(report, demands),
        *about[state.name],
        *_about_seats(report, demands),
    ]
    if demands.level.refuses(report.gate_verdict) and _is_likely(report, demands):
        refusals.append(f"the verdict is {report.gate_verdict}")
    next_step = None
    if about[state.name]:
        next_step = _review_again(report)
    elif refusals and refusals == list(coverage_refusals(report, demands)):
        next_step = (
            f"do as it says and review again, or bridgehead council gate "
            f"{report.review_id} --allow-incomplete REASON"
        )
    elif refusals:
        next_step = f"bridgehead council show {report.review_id}"
    return GateDecision(
        review_id=report.review_id,
        verdict=report.gate_verdict,
        level=demands.level,
        refusals=tuple(refusals),
        state=state.name,
        commit=state.commit,
        scope=report.scope,
        next_step=next_step,
        allowed_incomplete=demands.allow_incomplete if report.incomplete else "",
        not_looked_at=tuple(lines_of(report)),
    )


def refuse_unfinished(
    council: BegunCouncil, level: Gate, state: GatedState, scope: str
) -> GateDecision:
    """Refuse for a council without a result; the one before it is no answer to what it was asked."""
    return GateDecision(
        review_id=council.review_id,
        verdict=None,
        level=level,
        refusals=(council.objection,),
        state=state.name,
        commit=state.commit,
        scope=scope,
        next_step=(
            f"bridgehead council resume {council.review_id}, or bridgehead council "
            "review"
        ),
    )


def refuse_unconfirmed(
    report: CouncilReport | AbortedReport, doubt: str, level: Gate, state: GatedState
) -> GateDecision:
    """Refuse for a report that is not the one that was written."""
    return GateDecision(
        review_id=report.review_id,
        verdict=None,
        level=level,
        refusals=(f"the report cannot be confirmed: {doubt}",),
        state=state.name,
        commit=state.commit,
        scope=getattr(report, "scope", ""),
        next_step="bridgehead council review",
    )


def _before_its_end(report: CouncilReport) -> Iterator[str]:
    if any(warning.partition(":")[0] == INTERRUPTED for warning in report.warnings):
        yield "the council was stopped before its end"


def coverage_refusals(report: CouncilReport, demands: GateDemands) -> Iterator[str]:
    """Yield what was not looked at, whatever the level, unless somebody answers for it."""
    not_looked = [name for name in demands.required if name not in report.looked]
    absent = dict.fromkeys([*report.required_missing, *not_looked])
    if absent:
        yield f"{', '.join(absent)} did not look to the end and is required"
    if not report.incomplete or demands.allow_incomplete.strip():
        return
    if report.not_looked_at:
        looks = report.refusing_looks(unread_passes=demands.unread_passes)
        yield from not_looked_at_lines(looks)
    else:
        yield from lines_of(report)


def _about_seats(report: CouncilReport, demands: GateDemands) -> Iterator[str]:
    sat = [one.bridge for one in report.participants if one.status == Status.COMPLETED]
    if len(sat) < demands.seats:
        yield f"{plural(len(sat), 'seat')} completed; {demands.seats} required"
    if missing := [name for name in demands.runtimes if name not in sat]:
        yield f"{', '.join(missing)} did not take part and is required"


def _is_likely(report: CouncilReport, demands: GateDemands) -> bool:
    """Return whether a serious finding reaches the least probability; one without any is taken as certain."""
    if not demands.min_probability:
        return True
    least = Severity.HIGH if demands.level is Gate.FAIL else Severity.MEDIUM
    dismissed = [one.finding for one in report.dismissed_findings]
    return any(
        severity_rank(entry.severity) >= least.rank
        and (entry.probability is None or entry.probability >= demands.min_probability)
        for entry in (*report.findings(), *dismissed)
    )


def _about_state(report: CouncilReport, state: GatedState) -> Iterator[str]:
    if state.problem:
        yield state.problem
    seen = report.reviewed
    if differ := [
        path
        for path, digest in seen.items()
        if digest and state.digests.get(path) != digest
    ]:
        yield f"it is about another state than {state.name}: {named(differ)}"
    if unseen := [
        path
        for path in state.required
        if path not in seen and not _is_excused(report, state, path)
    ]:
        yield f"it did not look at what {state.name} changes: {named(unseen)}"


def _is_excused(report: CouncilReport, state: GatedState, path: str) -> bool:
    """Return whether a file need not have been seen.

    Its removal was seen: in the change, or because all of its folder was. Or it is an envelope of the council itself.
    """
    if path not in state.digests:
        return path in report.removed or is_below(path, report.scope_paths)
    folder, _, name = path.partition("/")
    return folder in report.envelope_folders and name.endswith(".md")


def _review_again(report: CouncilReport) -> str:
    """Return the command that looks at all of what the report should have seen."""
    if "." in report.scope_paths or not (base := report.base_commit or report.commit):
        return "bridgehead council review ."
    return f"bridgehead council review --diff {base[:12]}"
