"""Runs every check, programs side by side because some take seconds to tell their version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bridgehead.assembly import Assembly
from bridgehead.doctor.diagnosis import Checkup, Diagnosis
from bridgehead.doctor.files import check_private, check_python, check_settings, check_trust
from bridgehead.doctor.programs import PROGRAMS, check_program
from bridgehead.doctor.record import check_record


def check_everything(assembly: Assembly) -> Checkup:
    """Look at the machine, the settings and the record; change nothing."""
    with ThreadPoolExecutor(max_workers=len(PROGRAMS)) as pool:
        programs = list(pool.map(lambda program: check_program(program, assembly.environ), PROGRAMS))
    return Checkup.of(
        [
            check_python(),
            *programs,
            *check_settings(assembly.places, assembly.settings),
            *check_trust(assembly.places),
            *check_private(assembly.places),
            *check_record(assembly),
        ]
    )


def mend(checkup: Checkup) -> list[Diagnosis]:
    """Carry out every fix that is safe to do without asking; return what was mended."""
    mended = []
    for diagnosis in checkup.diagnoses:
        if diagnosis.mend is not None:
            diagnosis.mend()
            mended.append(diagnosis)
    return mended
