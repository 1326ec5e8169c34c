"""Who could sit, and why not: pre-flight for every bridge, without a model call, an envelope or an analysis (§24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridgehead.contract.words import Status
from bridgehead.council.calls import Seat
from bridgehead.council.halted import DISABLED
from bridgehead.council.preflight import Ready
from bridgehead.council.runtimes import find_runtime
from bridgehead.council.runtimes.base import NO_CONNECTION
from bridgehead.council.runtimes.rig import RIG_MARK
from bridgehead.council.runtimes.static_analysis import available_analysers
from bridgehead.council.seating import STATIC, LocalSeats, side_by_side


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One bridge as it stands now. `seat` is what a run would get, for those who take prompts."""

    bridge: str
    status: Status
    """COMPLETED: it could sit."""
    connection: str | None = None
    runtime: str | None = None
    version: str | None = None
    models: tuple[str | None, ...] = ()
    reason: str | None = None
    hint: str | None = None
    seat: Seat | None = None

    @property
    def could_sit(self) -> bool:
        return self.status is Status.COMPLETED


def survey(seats: LocalSeats, bridges: Sequence[str]) -> list[Surveyed]:
    """Look at all bridges side by side: some programs take seconds to say who they are."""
    return side_by_side(lambda bridge: _look_at(seats, bridge), bridges)


def _look_at(seats: LocalSeats, bridge: str) -> Surveyed:
    runtime = find_runtime(bridge, outside=seats.outside)
    if not seats.entry(bridge).enabled:
        return Surveyed(bridge, Status.SKIPPED, reason=DISABLED)
    if bridge == STATIC:
        found = available_analysers(seats.setup(bridge), seats.machine)
        tools = ", ".join(analyser.name for analyser in found)
        if found:
            return Surveyed(bridge, Status.COMPLETED, "embedded", tools)
        return Surveyed(bridge, Status.SKIPPED, reason=NO_CONNECTION, hint=runtime.install_hint)
    if bridge.startswith(RIG_MARK):
        rig_id = bridge.removeprefix(RIG_MARK)
        if seats.transport is not None and seats.transport.knows(rig_id):
            return Surveyed(bridge, Status.COMPLETED, "rig")
        return Surveyed(bridge, Status.SKIPPED, reason=NO_CONNECTION, hint=runtime.install_hint)
    return _prompted(seats, bridge)


def _prompted(seats: LocalSeats, bridge: str) -> Surveyed:
    outcome = seats.preflight(seats.setup(bridge))
    if isinstance(outcome, Ready):
        seat, connection = outcome.seat, outcome.connection
        return Surveyed(
            bridge,
            Status.COMPLETED,
            connection.kind,
            connection.runtime_name,
            connection.version,
            seat.models,
            seat=seat,
        )
    return Surveyed(
        bridge, outcome.status, outcome.connection, reason=outcome.reason, hint=outcome.message or None
    )
