"""Runs every check, programs side by side because some take seconds to tell their version."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.doctor.checks import (
    check_bus,
    check_flows,
    check_private,
    check_python,
    check_record,
    check_refusals,
    check_settings,
    check_trust,
)
from bridgehead.doctor.diagnosis import Checkup, Diagnosis, Group, State
from bridgehead.doctor.programs import PROGRAMS, check_program
from bridgehead.errors import BridgeheadError

Check = Callable[[Assembly], list[Diagnosis]]

CHECKS: Final[tuple[tuple[Group, str, Check], ...]] = (
    (Group.MACHINE, "trust", lambda assembly: check_trust(assembly.places)),
    (Group.MACHINE, "permissions", lambda assembly: check_private(assembly.places)),
    (Group.FLOWS, "flows", check_flows),
    (Group.MACHINE, "settings", lambda assembly: check_settings(assembly.places, assembly.settings)),
)


def check_everything(assembly: Assembly) -> Checkup:
    """Look at the machine, the settings and the parts, and write one event to the record."""
    with ThreadPoolExecutor(max_workers=len(PROGRAMS)) as pool:
        programs = pool.map(lambda program: check_program(program, assembly.environ), PROGRAMS)
        diagnoses = [check_python(), *(found for found in programs if found is not None)]
    for group, kind, check in CHECKS:
        diagnoses += _run_check(group, kind, check, assembly)
    if any(found.kind == "settings.broken" for found in diagnoses):
        return Checkup.of(diagnoses)  # they say where the record and the bus are
    diagnoses += _run_check(Group.BUS, "bus", check_bus, assembly)
    record = check_record(assembly, Checkup.of(diagnoses))
    if all(found.state is not State.BROKEN for found in record):
        diagnoses += check_refusals(assembly)
    return Checkup.of([*diagnoses, *record])


def mend(checkup: Checkup) -> list[Diagnosis]:
    """Carry out every fix that is safe to do without asking; return what was mended."""
    mended = []
    for diagnosis in checkup.diagnoses:
        if diagnosis.mend is not None:
            diagnosis.mend()
            mended.append(diagnosis)
    return mended


def _run_check(group: Group, kind: str, check: Check, assembly: Assembly) -> list[Diagnosis]:
    """A check that cannot be made is a finding too; the others are still to be made."""
    try:
        return check(assembly)
    except BridgeheadError as error:
        fix = error.hint or "mend what it names"
        return [Diagnosis(group, f"{kind}.broken", State.BROKEN, error.message, fix=fix)]
