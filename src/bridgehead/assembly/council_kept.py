"""A council as it is kept: enough to build the same run again in another process (council §4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.assembly.council_request import CouncilRequest
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import TaskType
from bridgehead.council.calls import Input
from bridgehead.council.council_run import CouncilRun
from bridgehead.council.domains import load_registry
from bridgehead.council.findings.history import Record
from bridgehead.council.findings.tree import Tree
from bridgehead.council.material import scope_material
from bridgehead.council.plan import CouncilPlan, Dismissals
from bridgehead.council.scope import Scope, ScopeRequest
from bridgehead.council.surroundings import Surroundings
from bridgehead.council.withheld import LeftOut


class KeptCouncil(msgspec.Struct, frozen=True, kw_only=True):
    """The request and everything that was settled before the first call."""

    request: CouncilRequest
    task: BridgeInput
    bridges: tuple[str, ...]
    route: str
    today: dt.date
    secret: bytes
    started_at: str
    scope_request: ScopeRequest
    """What was looked at in the end, with paths from the project's root."""
    scope_fingerprint: str
    settings_text: str | None = None
    settings_trusted: bool = False
    coordinator: str | None = None
    withdrawal_guard: bool = True
    dismissals: tuple[dict[str, Any], ...] = ()
    base_dismissals: tuple[dict[str, Any], ...] | None = None
    records: tuple[Record, ...] = ()
    previous_review_id: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    discovery: dict[str, Any] = {}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> KeptCouncil:
        """A council from its stored form."""
        request = stored["request"]
        return msgspec.convert({**stored, "request": {**request, "options": request}}, cls)

    def stored(self) -> dict[str, Any]:
        """As it is written down: the options stand among the other fields of the request."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        document["request"] |= document["request"].pop("options")
        return document

    @property
    def review_id(self) -> str:
        return self.task.session_id

    @property
    def title(self) -> str:
        return f"{self.request.verb} of {self.task.scope_text}"

    def plan(self) -> CouncilPlan:
        """The plan these facts make; the same whenever it is asked for."""
        return CouncilPlan(
            task=self.task,
            bridges=self.bridges,
            today=self.today,
            route=self.route,
            options=self.request.options,
            coordinator=self.coordinator,
            dismissals=Dismissals(self.dismissals, self.base_dismissals),
            records=self.records,
            previous_review_id=self.previous_review_id,
            notes=self.notes,
            warnings=self.warnings,
        )


class KeptScope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope as it was reviewed; texts that no model may see are not kept."""

    described: tuple[str, ...]
    texts: dict[str, str]
    left_out: tuple[LeftOut, ...]
    diff: str | None
    renames: dict[str, str]
    commit: str | None
    base_commit: str | None
    dirty: bool
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, scope: Scope) -> KeptScope:
        return cls(
            described=scope.described,
            texts=dict(scope.texts),
            left_out=scope.left_out,
            diff=scope.diff,
            renames=dict(scope.renames),
            commit=scope.commit,
            base_commit=scope.base_commit,
            dirty=scope.dirty,
            warnings=scope.warnings,
        )

    def scope(self) -> Scope:
        return Scope(
            described=self.described,
            texts=self.texts,
            left_out=self.left_out,
            diff=self.diff,
            renames=self.renames,
            commit=self.commit,
            base_commit=self.base_commit,
            dirty=self.dirty,
            warnings=self.warnings,
        )


def make_run(kept: KeptCouncil, scope: Scope) -> CouncilRun:
    """The run of a kept council over a scope."""
    return CouncilRun(kept.plan(), surroundings_of(kept, scope))


def seat_reports(kept: KeptCouncil, scope: Scope, inputs: Sequence[Input]) -> list[BridgeReport]:
    """The last report of every seat, found by going through what happened once more."""
    if not inputs:
        return []
    run = make_run(kept, scope)
    turns = [run.start(inputs[0].at), *(run.feed(happened) for happened in inputs)]
    last = {report.bridge: report for turn in turns for report in turn.bridge_reports}
    return [last[bridge] for bridge in kept.bridges if bridge in last]


def surroundings_of(kept: KeptCouncil, scope: Scope) -> Surroundings:
    """What the pure parts of the council are given besides the plan."""
    named = [path for path in scope.described if path in scope.texts]
    # A file that may not be shown is there all the same: a citation of it is unreadable, not invented.
    hidden: Mapping[str, str | None] = dict.fromkeys((entry.path for entry in scope.left_out), None)
    return Surroundings(
        registry=load_registry(),
        secret=kept.secret,
        # What is made in an implementation is in no tree yet: there is nothing to check its notes against.
        tree=None if kept.task.task_type is TaskType.IMPLEMENTATION else Tree.of({**hidden, **scope.texts}),
        renames=scope.renames,
        material=scope_material(scope.texts, scope.diff),
        scope_files=tuple(named),
        withdrawal_guard=kept.withdrawal_guard,
    )
