"""Prompts of the five-phase debate: messages about published findings, and final positions (council §17)."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.council.calls import CallKey
from bridgehead.council.prompts.debate import Debated, shared_slots
from bridgehead.council.prompts.scene import NONE, NOTHING, Scene, evidence_rules
from bridgehead.council.prompts.template import Ink, Safe, joined, own, template


def debate_round_prompt(
    scene: Scene, key: CallKey, debated: Debated, *, role_title: str, own_ids: Sequence[str]
) -> Safe:
    """One reviewer's turn in a challenge round."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    return template("debate_round").fill(
        **shared,
        expert_role=ink.line(role_title),
        own_ids=ink.line(", ".join(own_ids)) or NONE,
        evidence_rules=evidence_rules(),
        foreign_text_note=ink.note(),
    )


def final_position_prompt(
    scene: Scene,
    key: CallKey,
    debated: Debated,
    *,
    role_title: str,
    own_ids: Sequence[str],
    merges: Sequence[tuple[str, str]],
) -> Safe:
    """One reviewer's last word; `merges` are pairs that seem to be one problem and concern this reviewer."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    return template("final_position").fill(
        **shared,
        expert_role=ink.line(role_title),
        own_ids=ink.line(", ".join(own_ids)) or NONE,
        merges=_merges(ink, merges),
        foreign_text_note=ink.note(),
    )


def _merges(ink: Ink, merges: Sequence[tuple[str, str]]) -> Safe:
    if not merges:
        return NOTHING
    pairs = ink.lines(f"{one} and {other}" for one, other in merges)
    return joined(own("These pairs seem to be one problem; say under `merges` whether they are: "), pairs)
