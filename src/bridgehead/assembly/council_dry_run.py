"""A council imagined: who would sit now, and every call that would be made; nothing is called or written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_kept import surroundings_of
from bridgehead.assembly.council_opening import Opened
from bridgehead.assembly.council_seats import Workplace, local_seats
from bridgehead.assembly.remembered_refusals import last_refusals
from bridgehead.council.calls import Seat
from bridgehead.council.dry_run import DryRun, plan_calls
from bridgehead.council.preflight import Ready
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.rig import RIG_MARK
from bridgehead.council.seating import OwnReport
from bridgehead.host.cancel import Cancel
from bridgehead.host.clock import Clock, iso_ms

BY_ENVELOPE: Final = "asked by envelope"
_NO_CALLS: Final = {"static": "static analysis"}


def imagine_calls(assembly: Assembly, opened: Opened, machine: Machine, clock: Clock) -> DryRun:
    """The calls of a council that was settled and not begun."""
    kept, scope = opened.kept, opened.scope
    seats = local_seats(assembly, kept, scope, machine, clock, Workplace.imagined())
    asked = [bridge for bridge in kept.bridges if _makes_calls(bridge)]
    no_calls = {bridge: _NO_CALLS.get(bridge, BY_ENVELOPE) for bridge in kept.bridges if bridge not in asked}
    ready: list[Seat] = []
    with ThreadPoolExecutor(max_workers=max(len(asked), 1)) as threads:
        outcomes = list(threads.map(lambda bridge: seats.check(bridge, Cancel()), asked))
    for bridge, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Ready):
            ready.append(outcome.seat)
        elif isinstance(outcome, OwnReport):
            report = outcome.report
            no_calls[bridge] = report.skip_reason or report.halt_reason or report.status.value
    planned = plan_calls(kept.plan(), surroundings_of(kept, scope), ready, no_calls, at=iso_ms(clock.now()))
    refused = last_refusals(assembly)
    return replace(planned, refusals={name: refused[name].reason for name in kept.bridges if name in refused})


def _makes_calls(bridge: str) -> bool:
    return bridge not in _NO_CALLS and not bridge.startswith(RIG_MARK)
