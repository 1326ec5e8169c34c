"""A runtime whose answers a test writes: a function from calls to texts or refusals, with latency if wanted.

It ships because plug-in authors and users want to try a council without a model, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from bridgehead.council.calls import Call
from bridgehead.council.runtimes.base import InProcess, Missing, SeatSetup
from bridgehead.council.runtimes.exchange import CallOutcome, RuntimeAnswer
from bridgehead.council.runtimes.machine import Machine

Script = Callable[[Call], str | CallOutcome]


class ScriptedConnection(InProcess):
    """Answers each call by the script. `calls` keeps what was asked, in order."""

    kind = "cli"
    runtime_name = "scripted"

    def __init__(self, script: Script, *, latency_seconds: float = 0.0) -> None:
        self._script = script
        self._latency_seconds = latency_seconds
        self.calls: list[Call] = []

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        return Missing("no_connection", "a script is handed in, not found")

    def latency_seconds(self, call: Call) -> float:
        return self._latency_seconds

    def answer(self, call: Call) -> CallOutcome:
        self.calls.append(call)
        said = self._script(call)
        return RuntimeAnswer(said) if isinstance(said, str) else said
