"""The tool `doctor`: what is wrong with this machine, and the command that mends it.

Nothing is mended here.
"""

from __future__ import annotations

from bridgehead.doctor.checkup import check_everything
from bridgehead.doctor.diagnosis import MARKS
from bridgehead.mcp_server.tools.call import Caller, ToolReply
from bridgehead.mcp_server.tools.schemas import Arguments, Check, DoctorResult


def doctor(caller: Caller, _wanted: Arguments) -> ToolReply:
    """Return every check, the broken ones included.

    Versions and paths in it come from other programs.
    """
    foreign = caller.foreign
    checkup = check_everything(caller.assembly)
    checks = [
        Check(
            group=one.group.value,
            kind=one.kind,
            state=one.state.value,
            message=foreign.line(one.message),
            fix=foreign.line(one.fix) if one.fix else None,
        )
        for one in checkup.diagnoses
    ]
    marks = {state.value: mark for state, mark in MARKS.items()}
    lines = [
        f"{marks[one.state]} {one.message}{f'   → {one.fix}' if one.fix else ''}"
        for one in checks
    ]
    return ToolReply(
        DoctorResult(summary=checkup.summary, checks=checks),
        "\n".join([*lines, checkup.summary]),
    )
