"""From a runtime's name to a seat: pre-flight for those who take prompts, a report from those who make their own.

Everything here blocks and is run in a worker thread by running/conductor.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bridgehead.contract.looks import Looked, Unlooked
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import estimate_timeout
from bridgehead.contract.words import (
    CapabilityProfile,
    Confidence,
    LocalCouncilType,
    Status,
)
from bridgehead.council.attendance import DISABLED
from bridgehead.council.calls import Answer, Call, SeatEvent, Step
from bridgehead.council.reporting.report import STATIC
from bridgehead.council.reporting.seat_report import (
    Analysed,
    SeatFacts,
    completed_report,
    halted_report,
    skipped_report,
)
from bridgehead.council.request.settings import RIG_MARK, RuntimeSettings, Settings
from bridgehead.council.runtimes import find_runtime
from bridgehead.council.runtimes.base import (
    NO_CONNECTION,
    NOT_AUTHENTICATED,
    Connection,
    SeatSetup,
)
from bridgehead.council.runtimes.exchange import RuntimeRefusal
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.rig import (
    RigAnswer,
    RigRejected,
    SeatTransport,
    read_answer,
    request_body,
)
from bridgehead.council.runtimes.static.seat import (
    Examined,
    absent_analysers,
    available_analysers,
    examine,
)
from bridgehead.council.scope.scope import Scope
from bridgehead.council.scope.working_copies import Snapshot
from bridgehead.council.seating.answer_schemas import schema_of
from bridgehead.council.seating.preflight import NotSeated, Ready, Wishes, check_seat
from bridgehead.council.synthesis.coverage import uncovered
from bridgehead.host.clock import Clock, iso_ms
from bridgehead.host.command import Cancel
from bridgehead.host.files import write_atomic
from bridgehead.host.ports import PortRules

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnReport:
    """A runtime that has made its report without being asked by us: static, SKIPPED, HALTED, a rig's answer."""

    report: BridgeReport
    events: tuple[SeatEvent, ...] = ()
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Posted:
    """A rig that was asked and has not answered yet."""

    request: str


SeatOutcome = Ready | OwnReport | Posted


class Seats(Protocol):
    """What dispatch knows of seats."""

    def check(self, runtime: str, cancel: Cancel) -> SeatOutcome:
        """Take the runtime through pre-flight."""
        ...

    def check_again(
        self, runtime: str, refused: RuntimeRefusal, connection: Connection
    ) -> SeatOutcome:
        """The runtime's first call was refused for want of a login or for good: another connection, or its report."""
        ...

    def workspace(self, connection: Connection, call: Call) -> Path:
        """The directory a connection works in."""
        ...

    def scratch(self, runtime: str) -> Path | None:
        """A private folder of the seat's own, for a home and temporary files."""
        ...

    def schema_file(self, answer: Answer) -> Path | None:
        """A file with the JSON Schema of what a call asks for, for programs that take one."""
        ...

    def rig_answer(self, runtime: str, request: str) -> OwnReport | RigRejected | None:
        """What became of a request to a rig."""
        ...


@dataclass
class LocalSeats:
    """The seats of one council on this machine."""

    task: BridgeInput
    scope: Scope
    settings: Settings
    machine: Machine
    snapshot: Snapshot
    clock: Clock
    wishes: Wishes = field(default_factory=Wishes)
    analyser_timeout: int | None = None
    """Seconds after which an analyser is stopped; None: as the size of the scope says."""
    worktree: Path | None = None
    pass_env: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    ports: PortRules = field(default_factory=PortRules)
    host_seat: str | None = None
    project: Path | None = None
    cache: Path | None = None
    """Where what analysers said is kept."""
    transport: SeatTransport | None = None
    retired: frozenset[str] = frozenset()
    """Runtimes whose first program was refused for good in an earlier run."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Runtimes that are not asked because of what they refused lately, with the reason."""
    barred: dict[str, frozenset[str]] = field(default_factory=dict)
    """By seat, what has refused it since it was last seated; none of them is asked again."""

    def check(self, runtime: str, cancel: Cancel) -> SeatOutcome:
        """Never raises: whatever goes wrong with one runtime is that runtime's report (council §1)."""
        try:
            if runtime == STATIC:
                return self._examine(cancel)
            if runtime.startswith(RIG_MARK):
                return self._post(runtime)
            # Seated anew: somebody may have logged in meanwhile.
            self.barred.pop(runtime, None)
            outcome = self.preflight(self.setup(runtime))
            if isinstance(outcome, Ready) and self._refuses(outcome):
                facts = self._facts(runtime, connection=outcome.connection.kind)
                return OwnReport(
                    skipped_report(self.task, facts, self.refused[runtime]),
                    outcome.events,
                )
            return self._settled(runtime, outcome)
        except (
            Exception
        ) as error:  # a runtime from outside is a guest and must not end the council
            logger.warning("the check of %s failed", runtime, exc_info=True)
            return OwnReport(
                skipped_report(self.task, self._facts(runtime), f"cli_error: {error}")
            )

    def _refuses(self, ready: Ready) -> bool:
        """Whether this very program has refused calls lately; a successor and the host seat are asked."""
        name = ready.seat.name
        return (
            name in self.refused
            and ready.connection.runtime_name == name
            and self.host_seat != name
        )

    def check_again(
        self, name: str, refused: RuntimeRefusal, connection: Connection
    ) -> SeatOutcome:
        setup = replace(self.setup(name), retired=refused.error_class == "retired")
        self.barred[name] = self.barred.get(name, frozenset()) | {
            connection.runtime_name
        }
        again = self.preflight(setup, barred=self.barred[name])
        if isinstance(again, Ready):
            return again
        runtime = find_runtime(name)
        message = f"{refused.message}; {runtime.login_hint}"
        halts = refused.error_class == "auth" and runtime.login_refused is Status.HALTED
        kind = "auth_probe_failed" if refused.error_class == "auth" else "cli_error"
        return self._settled(
            name,
            replace(
                again,
                status=Status.HALTED if halts else Status.SKIPPED,
                reason=NOT_AUTHENTICATED if halts else f"{kind}: {refused.message}",
                message=message,
                connection=connection.kind,
            ),
        )

    def workspace(self, connection: Connection, call: Call) -> Path:
        """Nothing, the private copy, or the checkout where an implementation is made and, once made, looked at."""
        if not connection.reads_files:
            return self.snapshot.empty
        is_first_round = (
            call.key.step is Step.ANALYSIS
            and call.profile is not CapabilityProfile.MODIFY
        )
        if self.worktree is not None and not is_first_round:
            return self.worktree
        return self.snapshot.tree

    def scratch(self, runtime: str) -> Path | None:
        return self.snapshot.folder / "seats" / runtime

    def schema_file(self, answer: Answer) -> Path | None:
        path = self.snapshot.folder / f"{answer}.schema.json"
        if not path.exists():
            write_atomic(path, json.dumps(schema_of(answer)), private=True)
        return path

    def rig_answer(self, runtime: str, request: str) -> OwnReport | RigRejected | None:
        """The report of a pending rig, if it has answered; a rejected answer leaves the seat pending."""
        if self.transport is None:
            return None
        answer = self.transport.answer(runtime.removeprefix(RIG_MARK), request)
        if not isinstance(answer, RigAnswer):
            return answer
        read = read_answer(answer, self.task, self.scope.commit, self._facts(runtime))
        if isinstance(read, RigRejected):
            return read
        return OwnReport(read, verified=answer.verified)

    def preflight(
        self, setup: SeatSetup, barred: frozenset[str] = frozenset()
    ) -> Ready | NotSeated:
        """The steps of council §4 for a runtime that takes prompts."""
        runtime = find_runtime(setup.runtime)
        return check_seat(
            runtime, setup, self.task, self.machine, self.wishes, barred_before=barred
        )

    def _settled(self, runtime: str, outcome: Ready | NotSeated) -> SeatOutcome:
        if isinstance(outcome, Ready):
            return outcome
        facts = self._facts(
            runtime,
            model_family=find_runtime(runtime).model_family,
            timeout_seconds=outcome.timeout_seconds,
            connection=outcome.connection,
            model_validation_warnings=self.entry(runtime).model_warnings,
        )
        if outcome.status is Status.HALTED:
            report = halted_report(
                self.task, facts, outcome.reason, outcome.message or outcome.reason
            )
        else:
            report = skipped_report(self.task, facts, outcome.reason)
        return OwnReport(report, outcome.events)

    def setup(self, runtime: str) -> SeatSetup:
        """What is known about a seat before anything was looked at."""
        return SeatSetup(
            runtime=runtime,
            settings=self.entry(runtime),
            environment=self.machine.environment,
            pass_env=self.pass_env,
            readable=self.readable,
            ports=self.ports,
            host_seat=self.host_seat == runtime,
            project=self.project,
            retired=runtime in self.retired,
        )

    def entry(self, runtime: str) -> RuntimeSettings:
        """The runtime's part of the settings file."""
        return self.settings.runtimes.get(runtime) or RuntimeSettings()

    def _examine(self, cancel: Cancel) -> SeatOutcome:
        """The static seat: analysers instead of a model (council §23)."""
        setup = self.setup(STATIC)
        if not setup.settings.enabled:
            return OwnReport(skipped_report(self.task, self._facts(STATIC), DISABLED))
        analysers = available_analysers(setup, self.machine)
        found = ", ".join(analyser.name for analyser in analysers)
        event = SeatEvent(
            STATIC,
            "preflight",
            {
                "step": "availability_check",
                "result": "found" if found else "absent",
                "detail": found,
            },
        )
        if not analysers:
            return OwnReport(
                skipped_report(self.task, self._facts(STATIC), NO_CONNECTION), (event,)
            )
        started_at = iso_ms(self.clock.now())
        timeout = self.analyser_timeout or self._facts(STATIC).timeout_seconds
        examined = examine(
            self.scope,
            analysers,
            self.machine.environment,
            timeout_seconds=timeout,
            cancel=cancel,
            cache=self.cache,
            absent=absent_analysers(setup, self.machine),
        )
        facts = self._facts(
            STATIC,
            started_at=started_at,
            connection="embedded",
            warnings=examined.warnings,
            extra=_extra_of(examined),
        )
        if examined.failure is not None:
            return OwnReport(
                skipped_report(self.task, facts, examined.failure), (event,)
            )
        report = completed_report(
            self.task,
            facts,
            Analysed(
                outputs=examined.outputs,
                domains_covered=examined.domains,
                confidence=Confidence.HIGH,
                local_council_type=LocalCouncilType.NONE,
                runtime=STATIC,
                toolchain=", ".join(examined.analysers),
            ),
        )
        return OwnReport(report, (event,))

    def _post(self, runtime: str) -> SeatOutcome:
        """A rig: send the request, and let the council go on without it."""
        rig_id = runtime.removeprefix(RIG_MARK)
        setup = self.setup(runtime)
        if not setup.settings.enabled:
            return OwnReport(skipped_report(self.task, self._facts(runtime), DISABLED))
        if self.transport is None or not self.transport.knows(rig_id):
            return OwnReport(
                skipped_report(self.task, self._facts(runtime), NO_CONNECTION)
            )
        title = (
            f"council {self.task.session_id}: {self.task.task_type} of "
            f"{self.task.scope_text}"
        )[:200]
        body = request_body(self.task, self.scope.commit)
        thread = setup.text_option("thread")
        return Posted(self.transport.ask(rig_id, thread=thread, title=title, body=body))

    def _facts(self, runtime: str, **facts: Any) -> SeatFacts:
        now = iso_ms(self.clock.now())
        timeout = estimate_timeout(
            files=self.task.files,
            loc=self.task.loc,
            intensity=self.task.intensity,
            bridge=runtime,
        )
        usual: dict[str, Any] = {
            "timeout_seconds": timeout.timeout_s,
            "started_at": now,
            "finished_at": now,
        }
        return SeatFacts(name=runtime, **(usual | facts))


def _extra_of(examined: Examined) -> dict[str, Any]:
    """Return what the report of the static seat says about files it did not cover.

    Every look at a file is named if an analyser failed on it: another may have covered
    it, but what the first one found before is not fixed by that.
    """
    missed = tuple(look.on for look in uncovered(examined.looks))
    failed = {
        look.on
        for look in examined.looks
        if look.outcome is not Looked.TO_THE_END and look.reason is not Unlooked.MISSING
    }
    told = failed.union(missed)
    looks = tuple(look for look in examined.looks if look.on in told)
    if not looks:
        return {}
    unseen = {"unseen_files": missed} if missed else {}
    return {**unseen, "looks": looks}
