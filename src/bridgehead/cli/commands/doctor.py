"""`bridgehead doctor`: check this machine and say what to do about it.

The command itself is declared in `runtimes`.
"""

from __future__ import annotations

from itertools import groupby

from bridgehead.cli.output import App
from bridgehead.doctor.checkup import check_everything, mend
from bridgehead.doctor.diagnosis import MARKS, Checkup, Diagnosis, State
from bridgehead.exit_codes import ExitCode
from bridgehead.host.terminal import escape_controls, style

COLOR = {State.FINE: 32, State.LOOK: 33, State.BROKEN: 31}


def run_doctor(app: App, *, fix: bool) -> int:
    """Check everything, mend what may be mended, and print it; return the exit code."""
    assembly = app.assembly(warns=False)
    checkup = check_everything(assembly)
    mended: list[Diagnosis] = []
    if fix:
        mended = mend(checkup)
        for diagnosis in mended:
            app.say(f"fixed: {diagnosis.message}")
        checkup = check_everything(assembly) if mended else checkup
    document = {
        **checkup.as_document(),
        "fixed": [diagnosis.as_document() for diagnosis in mended],
    }
    app.emit(document, lambda: _lines(checkup, color=app.color))
    return ExitCode.USER if checkup.counts[State.BROKEN] else ExitCode.DONE


def _lines(checkup: Checkup, *, color: bool) -> str:
    lines: list[str] = []
    for group, found in groupby(checkup.diagnoses, key=lambda one: one.group):
        lines += [str(group), *(_line(diagnosis, color=color) for diagnosis in found)]
    return "\n".join([*lines, "", checkup.summary]) + "\n"


def _line(diagnosis: Diagnosis, *, color: bool) -> str:
    mark = MARKS[diagnosis.state]
    shown = style(mark, COLOR[diagnosis.state]) if color else mark
    fix = f"   → {diagnosis.fix}" if diagnosis.fix else ""
    return f"  {shown} {escape_controls(diagnosis.message + fix)}"
