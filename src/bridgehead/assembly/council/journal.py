"""A council as the flow journal stores it: enough to build the same run again in
another process (council §4).
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.config.files import parse_toml
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import TaskType
from bridgehead.council.calls import (
    Call,
    CallFailed,
    Input,
    Interrupted,
    Reply,
    Retried,
    SeatReported,
    UserAnswered,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.findings.tree import Tree
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.request.domains import Registry, load_registry, with_own_domains
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.runtimes.static.due import hidden_looks
from bridgehead.council.scope.material import scope_material
from bridgehead.council.scope.scope import (
    Scope,
    ScopeRequest,
    changed_lines,
)
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.words import RunStatus
from bridgehead.host.clock import Clock, iso_ms

NAME: Final = "council"
VERSION: Final = "1"
DOMAINS_FILE: Final = ".bridgehead/domains.toml"
_INPUT: Final = "input"
_STARTED: Final = "started"
_inputs: Final = msgspec.json.Decoder(Input)


class StoredCouncil(msgspec.Struct, frozen=True, kw_only=True):
    """The request, the plan that was made of it, and everything else that was settled
    before the first call.
    """

    request: CouncilRequest
    plan: CouncilPlan
    secret: bytes
    started_at: str
    scope_request: ScopeRequest
    """What was looked at in the end, with paths from the project's root."""
    scope_fingerprint: str
    settings_text: str | None = None
    settings_trusted: bool = False
    withdrawal_guard: bool = True
    domains_text: str | None = None
    """The project's own domains, where they are trusted."""
    discovery: dict[str, Any] = {}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> StoredCouncil:
        """Return a council from its stored form."""
        options = stored["request"]
        dismissals = {"tables": stored["dismissals"], "base": stored["base_dismissals"]}
        plan = {
            **stored,
            "seats": stored["bridges"],
            "options": options,
            "dismissals": dismissals,
        }
        return msgspec.convert(
            {**stored, "request": {**options, "options": options}, "plan": plan}, cls
        )

    def stored(self) -> dict[str, Any]:
        """As it is written down: the options stand among the fields of the request, the
        plan among the others.
        """
        document: dict[str, Any] = msgspec.to_builtins(self)
        document["request"] |= document["request"].pop("options")
        plan = document.pop("plan")
        del plan["options"]
        dismissals = plan.pop("dismissals")
        # Stored councils have called them bridges from the start.
        seats = plan.pop("seats")
        return {
            **document,
            **plan,
            "bridges": seats,
            "dismissals": dismissals["tables"],
            "base_dismissals": dismissals["base"],
        }

    @property
    def task(self) -> BridgeInput:
        return self.plan.task

    @property
    def seats(self) -> tuple[str, ...]:
        return self.plan.seats

    @property
    def review_id(self) -> str:
        return self.plan.review_id

    @property
    def title(self) -> str:
        return f"{self.request.verb} of {self.task.scope_text}"


def make_run(council: StoredCouncil, scope: Scope) -> CouncilRun:
    """Return the run of a stored council over a scope."""
    return CouncilRun(council.plan, run_inputs(council, scope))


def seat_reports(run: CouncilRun, inputs: Sequence[Input]) -> list[BridgeReport]:
    """Return the last report of every seat, in the order of the seats.

    `run` must not have started: it goes through what happened once more.
    """
    if not inputs:
        return []
    turns = [run.start(inputs[0].at), *(run.feed(happened) for happened in inputs)]
    last: dict[str, BridgeReport] = {}
    for turn in turns:
        for report in turn.seat_reports:
            last[report.bridge] = report
    return [last[seat] for seat in run.plan.seats if seat in last]


def registry_with(own: str | None) -> Registry:
    """Return the domains that are known, with those of the project's file."""
    if own is None:
        return load_registry()
    return with_own_domains(
        load_registry(),
        parse_toml(own.encode(), DOMAINS_FILE).get("domain", []),
        DOMAINS_FILE,
    )


def run_inputs(council: StoredCouncil, scope: Scope) -> RunInputs:
    """Return what the pure parts of the council are given besides the plan."""
    named = [path for path in scope.described if path in scope.texts]
    # A file that may not be shown is there all the same: a citation of it is
    # unreadable, not invented.
    hidden: Mapping[str, str | None] = dict.fromkeys(
        (entry.path for entry in scope.left_out), None
    )
    return RunInputs(
        registry=registry_with(council.domains_text),
        secret=council.secret,
        # What is made in an implementation is in no tree yet: there is nothing to check
        # its notes against.
        tree=None
        if council.task.task_type is TaskType.IMPLEMENTATION
        else Tree.of(
            {**hidden, **scope.texts},
            changed_lines(scope.diff or "", "-"),
            scope.outside,
        ),
        renames=scope.renames,
        material=scope_material(scope.texts, scope.diff),
        scope_files=tuple(named),
        withdrawal_guard=council.withdrawal_guard,
        hidden=hidden_looks(scope.left_out, in_change=scope.diff is not None),
        touched=None if council.request.options.whole_files else scope.touched,
    )


class CouncilJournal:
    """All councils of a project that can be taken up again.

    A request that is refused leaves no journal behind.
    """

    def __init__(self, project: Path, clock: Clock) -> None:
        self._root = FlowRoot.open(project)
        self._clock = clock

    @cached_property
    def _journal(self) -> SqliteJournal:
        self._root.prepare()
        return SqliteJournal(self._path)

    @property
    def _path(self) -> Path:
        return self._root.private / "councils.db"

    def begin(self, council: StoredCouncil) -> None:
        at = self._now()
        self._journal.begin(
            Run(
                id=council.review_id,
                name=NAME,
                version=VERSION,
                source=NAME,
                root=str(self._root.path),
                status=RunStatus.RUNNING,
                input=council.stored(),
                created=at,
                updated=at,
            )
        )

    def council(self, review_id: str) -> StoredCouncil | None:
        run = self._journal.run(review_id)
        return None if run is None else StoredCouncil.read(run.input)

    def ids(self) -> list[str]:
        """Ids of all councils, newest first."""
        return [run.id for run in self._journal.runs()] if self._path.exists() else []

    def is_open(self, review_id: str) -> bool:
        run = self._journal.run(review_id)
        return run is not None and not run.status.ended

    def ended_at(self, review_id: str) -> str | None:
        """Return when a council ended; None if it may go on."""
        run = self._journal.run(review_id)
        return run.updated if run is not None and run.status.ended else None

    def sizes(self) -> Mapping[str, int]:
        """Return how much each council takes in the journal, about, in bytes."""
        return self._journal.sizes() if self._path.exists() else {}

    def forget(self, review_id: str) -> None:
        """Drop a council with its prompts and replies."""
        self._journal.forget([review_id])

    def compact(self) -> None:
        """Give back the space of what was dropped."""
        self._journal.compact()

    def calls_of(self, review_id: str) -> StoredCalls:
        return StoredCalls(self._journal, review_id, self._clock)

    def wait(self, review_id: str) -> None:
        """The council has a seat that may still answer."""
        self._journal.hold(review_id, (), at=self._now())

    def take_up(self, review_id: str) -> None:
        self._journal.claim(review_id, version=VERSION, at=self._now())

    def end(self, review_id: str) -> None:
        self._journal.end(review_id, RunStatus.COMPLETED, at=self._now())

    def close(self) -> None:
        if "_journal" in vars(self):
            self._journal.close()

    def _now(self) -> str:
        return iso_ms(self._clock.now())


class MadeCall(NamedTuple):
    """One call as it was made: what was asked, and what came back unless it is still
    under way.
    """

    name: str
    started_at: str
    prompt: str
    result: Reply | CallFailed | None


class StoredCalls:
    """The calls of one council (`CallJournal`).

    Remembers a signal that ended the run in this process.
    """

    def __init__(self, journal: SqliteJournal, review_id: str, clock: Clock) -> None:
        self._journal = journal
        self._review_id = review_id
        self._clock = clock
        records = journal.lookup(review_id).values()
        self._inputs: list[Input] = [
            _inputs.decode(record.result or "")
            for record in records
            if record.kind == _INPUT
        ]
        self.signal: str | None = None

    def inputs(self) -> Sequence[Input]:
        return tuple(self._inputs)

    def started(self, call: Call, at: str) -> None:
        path = f"{_STARTED}/{call.key}"
        packed = b64encode(
            zlib.compress(call.prompt.encode("utf-8", "replace"))
        ).decode()
        self._append(path, _STARTED, at, input_sha=call.prompt_sha256, result=packed)

    def made(self) -> list[MadeCall]:
        """Return every call in the order they were started, each with what came back.

        Last those asked of our own host.
        """
        results = {
            str(one.key): one
            for one in self._inputs
            if isinstance(one, Reply | CallFailed)
        }
        made = {
            name: MadeCall(
                name,
                record.started,
                zlib.decompress(b64decode(packed)).decode(),
                results.get(name),
            )
            for path, record in self._journal.lookup(self._review_id).items()
            if (packed := record.result)
            and record.kind == _STARTED
            and (name := path.removeprefix(f"{_STARTED}/"))
        }
        made |= {
            name: MadeCall(name, one.at, "", one)
            for name, one in results.items()
            if name not in made
        }
        return list(made.values())

    def fed(self, happened: Input) -> None:
        if isinstance(happened, Interrupted):
            self.signal = happened.signal
        text = msgspec.json.encode(happened).decode()
        path = f"{_INPUT}#{len(self._inputs)}"
        self._append(path, _INPUT, iso_ms(self._clock.now()), result=text)
        self._inputs.append(happened)

    def halt_message(self, bridge: str) -> str:
        """Return what a halted bridge said a person should do."""
        said = [one.report for one in self._inputs if isinstance(one, SeatReported)]
        return next(
            (one.halt_message or "" for one in reversed(said) if one.bridge == bridge),
            "",
        )

    def seating(self, bridge: str) -> int:
        """Return how often the bridge was seated: once, and again after every retry."""
        again = [one for one in self._inputs if isinstance(one, Retried | UserAnswered)]
        return 1 + sum(one.seat == bridge for one in again)

    def _append(
        self,
        path: str,
        kind: str,
        at: str,
        *,
        input_sha: str | None = None,
        result: str | None = None,
    ) -> None:
        record = Record(
            path=path,
            kind=kind,
            input_sha=input_sha,
            status="completed",
            result=result,
            error=None,
            started=at,
            ended=at,
        )
        self._journal.append(self._review_id, record)
