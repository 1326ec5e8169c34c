"""Drives a pure seat run with scripted answers: no clock, no threads, no models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput, usual_context_policy, usual_mode
from bridgehead.contract.words import ErrorClass, Mode, TaskType
from bridgehead.council.calls import Call, CallFailed, Reply, Result, Seat, SeatEvent
from bridgehead.council.debate.seat_run import SeatRun
from bridgehead.council.findings.tree import Tree
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.request.domains import load_registry

AT = "2026-11-15T10:15:02.000Z"
SECRET = b"a secret of the test run"

Script = Callable[[Call], object]
"""What a call is answered with: an object for JSON, text as it is, or None for a failure."""


def task(**fields: Any) -> BridgeInput:
    mode = fields.get("mode", usual_mode(TaskType(fields.get("task_type", "review"))))
    usual = {
        "session_id": "r1",
        "scope": "src/",
        "task_description": "Review the order service",
        "domains": ["security"],
        "mode": mode,
        "context_policy": usual_context_policy(Mode(mode) if mode else None),
    }
    return msgspec.convert({**usual, **fields}, BridgeInput)


def seat(name: str = "claude", **fields: Any) -> Seat:
    prefix = {
        "claude": "C",
        "codex": "X",
        "gemini": "G",
        "opencode": "O",
        "openai": "A",
    }[name]
    usual: dict[str, Any] = {
        "name": name,
        "model_family": f"family/{name}",
        "connection": "cli",
        "id_prefix": prefix,
        "timeout_seconds": 180,
        "deadline_seconds": 720,
    }
    return Seat(**{**usual, **fields})


def surroundings(
    files: Mapping[str, str | None] | None = None, **fields: Any
) -> RunInputs:
    tree = None if files is None else Tree.of(files)
    return RunInputs(registry=load_registry(), secret=SECRET, tree=tree, **fields)


def item(title: str = "Order id reaches the SQL text", **fields: Any) -> dict[str, Any]:
    usual = {
        "id": "",
        "type": "finding",
        "severity": "MEDIUM",
        "title": title,
        "description": f"{title}.",
    }
    return {**usual, "evidence": None, "action": None, **fields}


def items(
    *entries: dict[str, Any], signals: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {"outputs": list(entries), "cross_domain_signals": list(signals)}


def sections(**by_domain: dict[str, Any]) -> dict[str, Any]:
    """One answer with a section per domain; `_` stands for a hyphen."""
    return {
        "sections": [
            {"domain": domain.replace("_", "-"), **said}
            for domain, said in by_domain.items()
        ]
    }


class Driver:
    """Feeds every call's scripted answer back until there is a report; keeps calls and events."""

    def __init__(self, run: SeatRun, script: Script) -> None:
        self.run = run
        self.script = script
        self.calls: list[Call] = []
        self.events: list[SeatEvent] = []

    def drive(self) -> BridgeReport:
        turn = self.run.start(AT)
        waiting = self._note(turn)
        for _ in range(500):
            if self.run.report is not None:
                return self.run.report
            call = waiting.pop(0)
            waiting += self._note(self.run.feed(self.answer(call)))
        raise AssertionError("the run does not end")

    def answer(self, call: Call) -> Result:
        said = self.script(call)
        if said is None:
            return CallFailed(
                key=call.key,
                reason="cli_error: boom",
                error_class=ErrorClass.OTHER,
                at=AT,
            )
        text = said if isinstance(said, str) else json.dumps(said)
        return Reply(
            key=call.key, text=text, at=AT, session=f"session-{call.key.agent}"
        )

    def _note(self, turn: Any) -> list[Call]:
        self.events += turn.events
        self.calls += turn.calls
        return list(turn.calls)

    def keys(self) -> list[str]:
        return [str(call.key) for call in self.calls]

    def named(self, event: str) -> list[dict[str, Any]]:
        return [one.fields for one in self.events if one.event == event]


def drive(
    script: Script, *, files: Mapping[str, str | None] | None = None, **fields: Any
) -> Driver:
    """A whole run of one seat; returns the driver, whose `run.report` is set."""
    seat_fields = fields.pop("seat_fields", {})
    around = fields.pop("around", {})
    how = {"shared": True} if fields.pop("shared", False) else {}
    driver = Driver(
        SeatRun(
            seat(**seat_fields), task(**fields), surroundings(files, **around), **how
        ),
        script,
    )
    driver.drive()
    return driver
