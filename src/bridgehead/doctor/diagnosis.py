"""The shape of a diagnosis. Pure: checks elsewhere look at the world and return these."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self


class State(StrEnum):
    FINE = "fine"
    LOOK = "look"
    BROKEN = "broken"


MARKS = {State.FINE: "✓", State.LOOK: "!", State.BROKEN: "✗"}


_COMMAND = re.compile(r"(?:^|: )((?:bridgehead|chmod|npm|pip|git) .+)$")


class Group(StrEnum):
    """The order in which diagnoses are shown."""

    MACHINE = "machine"
    RUNTIMES = "runtimes"
    RIGS = "rigs"
    FLOWS = "flows"
    BUS = "bus"
    RECORD = "record"


class Diagnosis(NamedTuple):
    """One thing that was checked. `kind` is stable and meant for programs; `fix` says what to do, with the command."""

    group: Group
    kind: str
    state: State
    message: str
    fix: str | None = None
    mend: Callable[[], None] | None = None
    """What --fix does; present only when doing it without asking is safe."""

    @property
    def command(self) -> str | None:
        """What can be typed as it stands; None where only a person knows, such as how this system installs git."""
        found = _COMMAND.search(self.fix or "")
        return found[1] if found else None

    def as_document(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "class": self.kind,
            "state": self.state,
            "message": self.message,
            "safe_to_fix": self.mend is not None,
            "fix": self.fix,
            "command": self.command,
        }


class Checkup(NamedTuple):
    """Everything that was found, in the order of the groups."""

    diagnoses: tuple[Diagnosis, ...]

    @classmethod
    def of(cls, diagnoses: Sequence[Diagnosis]) -> Self:
        order = list(Group)
        return cls(
            tuple(sorted(diagnoses, key=lambda diagnosis: order.index(diagnosis.group)))
        )

    @property
    def counts(self) -> dict[str, int]:
        return {
            state.value: sum(diagnosis.state is state for diagnosis in self.diagnoses)
            for state in State
        }

    @property
    def summary(self) -> str:
        fine, look, broken = self.counts.values()
        return f"{fine} fine, {look} to look at, {broken} broken"

    def as_document(self) -> dict[str, Any]:
        return {
            "counts": self.counts,
            "checks": [diagnosis.as_document() for diagnosis in self.diagnoses],
        }
