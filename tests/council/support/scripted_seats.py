"""Seats for a council of scripts: every seat has its connection, nothing is looked up on the machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridgehead.council.calls import Answer, Call, Seat
from bridgehead.council.runtimes.base import Connection
from bridgehead.council.runtimes.exchange import RuntimeRefusal
from bridgehead.council.runtimes.rig import RigRejected
from bridgehead.council.seating.preflight import Ready
from bridgehead.council.seating.seating import OwnReport, SeatOutcome
from bridgehead.host.command import Cancel


class ScriptedSeats:
    """`others` are outcomes instead of a seat; `again` what a second look at a seat gives."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        *,
        seats: Mapping[str, Seat] | None = None,
        others: Mapping[str, SeatOutcome] | None = None,
        again: Mapping[str, SeatOutcome] | None = None,
    ) -> None:
        self._connections = dict(connections)
        self._seats = dict(seats or {})
        self._others = dict(others or {})
        self._again = dict(again or {})
        self.checked: list[str] = []

    def check(self, name: str, cancel: Cancel) -> SeatOutcome:
        self.checked.append(name)
        if name in self._others:
            return self._others[name]
        return Ready(
            self._seats.get(name) or scripted_seat(name), self._connections[name], ()
        )

    def check_again(
        self, name: str, refused: RuntimeRefusal, connection: Connection
    ) -> SeatOutcome:
        return self._again[name]

    def workspace(self, connection: Connection, call: Call) -> Path:
        return Path(tempfile.gettempdir())

    def scratch(self, runtime: str) -> Path | None:
        return None

    def schema_file(self, answer: Answer) -> Path | None:
        return None

    def rig_answer(self, name: str, request: str) -> OwnReport | RigRejected | None:
        found = self._again.get(name)
        return found if isinstance(found, OwnReport) else None


def scripted_seat(runtime: str, **facts: Any) -> Seat:
    """A seat for a script, with facts that a test does not care about filled in."""
    usual: dict[str, Any] = {
        "name": runtime,
        "model_family": f"scripted/{runtime}",
        "connection": "cli",
        "id_prefix": {"claude": "C", "gemini": "G", "codex": "X", "opencode": "O"}.get(
            runtime, "N"
        ),
        "timeout_seconds": 60,
        "deadline_seconds": 600,
        "runtime": "scripted",
    }
    return Seat(**(usual | facts))
