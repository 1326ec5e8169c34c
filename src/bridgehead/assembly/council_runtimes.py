"""Who could sit in a council here: pre-flight of every bridge, without any model call (council §24)."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_files import read_seats_file
from bridgehead.assembly.council_seats import make_machine
from bridgehead.assembly.remembered_refusals import last_refusals, retired_bridges
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status
from bridgehead.council.halted import DISABLED
from bridgehead.council.joint import STATIC
from bridgehead.council.preflight import NotSeated, Ready, Wishes, check_seat
from bridgehead.council.runtimes import find_runtime, runtime_names
from bridgehead.council.runtimes.base import NO_CONNECTION, SeatSetup
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static_analysis import available_analysers
from bridgehead.council.settings import BridgeSettings, Settings, is_rig
from bridgehead.host.clock import SystemClock

logger = logging.getLogger(__name__)

_NOTHING_TO_DO: Final = BridgeInput(
    session_id="look", scope=".", task_description="look around", domains=("architecture",)
)


@dataclass(frozen=True, slots=True)
class Sitting:
    """One bridge: whether it could sit, how, and what keeps it out."""

    bridge: str
    can_sit: bool
    connection: str | None = None
    version: str | None = None
    models: tuple[str | None, ...] = ()
    status: str | None = None
    reason: str = ""
    advice: str = ""
    last_refusal: str | None = None
    """Why its last call was refused, until one succeeds (council §19)."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def look_around(assembly: Assembly) -> list[Sitting]:
    """Every bridge in the order of dispatch, then the rigs that the settings name."""
    settings = read_seats_file(assembly).settings(SystemClock().now())
    machine = make_machine(assembly)
    retired = retired_bridges(assembly)
    rigs = [name for name in settings.bridges if is_rig(name)]
    names = runtime_names()
    # Some programs take seconds to say their version; they are asked side by side.
    with ThreadPoolExecutor(max_workers=len(names)) as threads:
        looked = list(threads.map(lambda name: _look(name, assembly, settings, machine, retired), names))
    refused = last_refusals(assembly)
    looked = [
        replace(seat, last_refusal=refused[seat.bridge].reason) if seat.bridge in refused else seat
        for seat in looked
    ]
    return [
        *looked,
        *(Sitting(name, settings.bridges[name].enabled, "rig", reason="asked by envelope") for name in rigs),
    ]


def seat_of(assembly: Assembly, bridge: str) -> Ready | NotSeated:
    """One bridge outside a council: how it would be reached here, or why not."""
    settings = read_seats_file(assembly).settings(SystemClock().now())
    machine = make_machine(assembly)
    setup = _setup(bridge, assembly, settings, machine, retired_bridges(assembly))
    return check_seat(find_runtime(bridge), setup, _NOTHING_TO_DO, machine, Wishes(settings.reasoning_level))


def _setup(
    bridge: str, assembly: Assembly, settings: Settings, machine: Machine, retired: frozenset[str]
) -> SeatSetup:
    return SeatSetup(
        bridge=bridge,
        settings=settings.bridges.get(bridge) or BridgeSettings(),
        environment=machine.environment,
        pass_env=assembly.settings.texts("council.pass_env"),
        project=assembly.places.project,
        retired=bridge in retired,
    )


def _look(
    bridge: str, assembly: Assembly, settings: Settings, machine: Machine, retired: frozenset[str]
) -> Sitting:
    setup = _setup(bridge, assembly, settings, machine, retired)
    if bridge == STATIC:
        return _look_at_analysers(setup, machine)
    try:
        found = check_seat(
            find_runtime(bridge), setup, _NOTHING_TO_DO, machine, Wishes(settings.reasoning_level)
        )
    except Exception as error:  # an adapter from outside is a guest, and the others are still to be looked at
        logger.warning("%s failed while it was looked at", bridge, exc_info=True)
        return Sitting(bridge, False, status=Status.SKIPPED.value, reason=f"its adapter failed: {error}")
    if isinstance(found, Ready):
        seat = found.seat
        return Sitting(
            bridge, True, seat.connection, found.connection.version, seat.models, reason=seat.runtime or ""
        )
    return Sitting(
        bridge, False, found.connection, status=found.status.value, reason=found.reason, advice=found.message
    )


def _look_at_analysers(setup: SeatSetup, machine: Machine) -> Sitting:
    if not setup.settings.enabled:
        return Sitting(STATIC, False, status=Status.SKIPPED.value, reason=DISABLED)
    names = [analyser.name for analyser in available_analysers(setup, machine)]
    if not names:
        advice = find_runtime(STATIC).install_hint
        return Sitting(STATIC, False, status=Status.SKIPPED.value, reason=NO_CONNECTION, advice=advice)
    return Sitting(STATIC, True, "embedded", reason=", ".join(names))
