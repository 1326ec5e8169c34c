"""Runs every check, programs side by side because some take seconds to tell their version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bridgehead.assembly.application import Assembly
from bridgehead.doctor.diagnosis import Checkup, Diagnosis
from bridgehead.doctor.files import check_private, check_python, check_settings, check_trust
from bridgehead.doctor.programs import PROGRAMS, check_program
from bridgehead.doctor.record import check_record


def check_everything(assembly: Assembly) -> Checkup:
    """Look at the machine and the settings, and write one event to the record."""
    with ThreadPoolExecutor(max_workers=len(PROGRAMS)) as pool:
        programs = list(pool.map(lambda program: check_program(program, assembly.environ), PROGRAMS))
    looked_at = [
        check_python(),
        *programs,
        *check_settings(assembly.places, assembly.settings),
        *check_trust(assembly.places),
        *check_private(assembly.places),
    ]
    return Checkup.of([*looked_at, *check_record(assembly, Checkup.of(looked_at))])


def mend(checkup: Checkup) -> list[Diagnosis]:
    """Carry out every fix that is safe to do without asking; return what was mended."""
    mended = []
    for diagnosis in checkup.diagnoses:
        if diagnosis.mend is not None:
            diagnosis.mend()
            mended.append(diagnosis)
    return mended
