"""Prompts of Stage B: the Devil's Advocate and the Integration Checker of the whole council (council §14.3)."""

from __future__ import annotations

from typing import Final

from bridgehead.contract.words import TaskType
from bridgehead.council.calls import CallKey
from bridgehead.council.modes import PROPOSING_MODES
from bridgehead.council.prompts.analysis import INTEGRATION_TITLE
from bridgehead.council.prompts.debate import Debated, shared_slots
from bridgehead.council.prompts.scene import NOTHING, Scene, evidence_rules
from bridgehead.council.prompts.template import Safe, own, template

_CONTRADICTIONS_KEY: Final = own(',\n  "contradictions": []')
_RECOMMENDATION_KEY: Final = own(
    ',\n  "recommendation": {"chosen": [], "reason": "...", "open_questions": []}'
)


def advocate_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    """Challenge every finding without knowing whose it is."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    mode_task, extra_keys = _mode_task(scene)
    return template("stage_b_advocate").fill(
        **shared, mode_task=mode_task, extra_keys=extra_keys, foreign_text_note=ink.note()
    )


def council_integration_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    """Look for what follows from several findings together."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=INTEGRATION_TITLE, domain=key.domain)
    return template("stage_b_integration").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def _mode_task(scene: Scene) -> tuple[Safe, Safe]:
    if scene.task.mode in PROPOSING_MODES:
        return template("stage_b_proposals").fill(), _RECOMMENDATION_KEY
    if scene.task.task_type is TaskType.RESEARCH:
        return template("stage_b_research").fill(), _CONTRADICTIONS_KEY
    return NOTHING, NOTHING
