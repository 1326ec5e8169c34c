"""What is refused before a council begins or is taken up again, each with the sentence that says so (council §20)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridgehead.assembly.council_kept import KeptCouncil
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Status, TaskType
from bridgehead.council.exit_code import Gate
from bridgehead.council.modes import is_judged
from bridgehead.errors import NotFound, UserError


class NothingToResume(NotFound):
    """No council of this project waits for anything."""

    def __init__(self, reference: str | None = None) -> None:
        what = "no council of this project is open" if reference is None else f"council {reference} is closed"
        super().__init__(what, hint="bridgehead council list; a skipped seat: resume ID --retry BRIDGE")


class NoVerdictToGate(UserError):
    """A gate in front of a run that ends without a verdict."""

    def __init__(self, task_type: TaskType) -> None:
        super().__init__(f"--gate needs a verdict, and {task_type} ends without one")


def refuse_gate(kept: KeptCouncil, gate: Gate | None) -> None:
    if gate is not None and not is_judged(kept.task.task_type, kept.task.mode):
        raise NoVerdictToGate(kept.task.task_type)


def refuse_retry(kept: KeptCouncil, wanted: Sequence[str], reports: Iterable[BridgeReport]) -> None:
    """Only a bridge that came back without a usable reply is seated again (council §3)."""
    status = {report.bridge: report.status for report in reports}
    for bridge in wanted:
        if bridge not in kept.bridges:
            raise NotFound(
                f"{bridge!r} has no seat in council {kept.review_id}",
                hint=f"seats: {', '.join(kept.bridges)}",
            )
        if bridge not in status:
            raise UserError(
                f"{bridge} has not come back yet in council {kept.review_id}",
                hint=f"bridgehead council resume {kept.review_id} looks for its answer",
            )
        if status[bridge] is Status.COMPLETED:
            raise UserError(
                f"{bridge} completed its seat in council {kept.review_id}; there is nothing to retry"
            )


def only_council(reference: str, ids: Sequence[str]) -> str:
    found = [one for one in ids if one == reference] or [one for one in ids if one.startswith(reference)]
    if not found:
        raise NotFound(f"no council {reference!r} in this project", hint="bridgehead council list")
    if len(found) > 1:
        raise UserError(f"{reference!r} begins several councils: {', '.join(found)}")
    return found[0]
