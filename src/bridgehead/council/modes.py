"""What a task type and mode ask for: item types, and whether the run is judged (council §6, §15)."""

from __future__ import annotations

from typing import Final

from bridgehead.contract.verdict import JUDGED_TASKS
from bridgehead.contract.words import Mode, OutputType, TaskType

# In these modes a council recommends instead of judging.
PROPOSING_MODES: Final = frozenset({Mode.BRAINSTORM, Mode.DESIGN})

TASK_ITEM_TYPES: Final[dict[TaskType, tuple[OutputType, ...]]] = {
    TaskType.REVIEW: (OutputType.FINDING, OutputType.RECOMMENDATION),
    TaskType.ANALYSIS: (OutputType.FINDING, OutputType.OBSERVATION),
    TaskType.PLANNING: (OutputType.PLAN_ITEM,),
    TaskType.IMPLEMENTATION: (OutputType.IMPLEMENTATION_NOTE,),
    TaskType.RESEARCH: (OutputType.OBSERVATION, OutputType.RECOMMENDATION),
    TaskType.AUDIT: (OutputType.FINDING, OutputType.COMPLIANCE_GAP),
}
PROPOSING_ITEM_TYPES: Final = (
    OutputType.PROPOSAL,
    OutputType.QUESTION,
    OutputType.CONSTRAINT,
    OutputType.ASSUMPTION,
    OutputType.RISK,
    OutputType.EXPERIMENT,
)
NEVER_RATED: Final = frozenset({OutputType.PLAN_ITEM, OutputType.IMPLEMENTATION_NOTE})
"""Every other type may have a severity and needs none."""


def item_types(task_type: TaskType, mode: Mode | None) -> tuple[OutputType, ...]:
    """The types asked for; the first is what an item of unknown type becomes."""
    return PROPOSING_ITEM_TYPES if mode in PROPOSING_MODES else TASK_ITEM_TYPES[task_type]


def is_judged(task_type: TaskType, mode: Mode | None) -> bool:
    """Whether such a run ends in a verdict."""
    return task_type in JUDGED_TASKS and mode not in PROPOSING_MODES
