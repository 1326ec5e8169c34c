"""Prompts of the debate rounds: challenge, response, ruling, consolidation, and the two kinds of second asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.council.calls import CallKey
from bridgehead.council.context_limit import NOTE, characters_omitted, compact
from bridgehead.council.prompts.analysis import INTEGRATION_TITLE
from bridgehead.council.prompts.scene import NOTHING, Scene, evidence_rules
from bridgehead.council.prompts.template import Ink, Safe, joined, own, template

MOST_ANSWER_CHARACTERS: Final = 20_000
CONSOLIDATION_TITLE: Final = "consolidation"
_ORIGIN: Final = "findings and challenges of this debate"


@dataclass(frozen=True, slots=True)
class Debated:
    """What a role is shown in a debate round; `in_session` roles already know scope and material."""

    packet: Mapping[str, Any]
    annotated: bool = False
    history: Sequence[Mapping[str, Any]] = field(default=())
    conflicts: Sequence[Mapping[str, Any]] = field(default=())
    in_session: bool = False


def challenge_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    history = _history(ink, debated.history)
    return template("challenge").fill(
        **shared, history=history, evidence_rules=evidence_rules(), foreign_text_note=ink.note()
    )


def ruling_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    history = _history(ink, debated.history)
    return template("ruling").fill(**shared, history=history, foreign_text_note=ink.note())


def integration_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=INTEGRATION_TITLE, domain=key.domain)
    return template("integration_round").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def response_prompt(scene: Scene, key: CallKey, debated: Debated, *, role_title: str) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    return template("response").fill(
        **shared,
        expert_role=ink.line(role_title),
        conflicts=_conflicts(ink, debated.conflicts),
        evidence_rules=evidence_rules(),
        foreign_text_note=ink.note(),
    )


def consolidation_prompt(scene: Scene, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=CONSOLIDATION_TITLE, domain=key.domain)
    return template("consolidation").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def reminder_prompt(
    scene: Scene, key: CallKey, previous: Safe, missing: Sequence[str], *, stage_b: bool
) -> Safe:
    """Ask again for challenges that are owed; `previous` is the prompt they were owed to, empty in a session."""
    name = "stage_b_reminder" if stage_b else "reminder"
    ink = scene.ink(key)
    return template(name).fill(previous=previous, missing=ink.lines(missing))


def repair_prompt(scene: Scene, key: CallKey, previous: Safe, answer: str) -> Safe:
    """Ask once more for readable JSON; `previous` is the prompt, empty in a session."""
    ink = scene.ink(key)
    kept = answer[:MOST_ANSWER_CHARACTERS]
    if len(answer) > len(kept):
        kept += characters_omitted(len(answer) - len(kept))
    shown = ink.fenced(kept, origin="your previous answer") or own("(it was empty)")
    return template("repair").fill(previous=previous, answer=joined(ink.note(), own("\n"), shown))


def shared_slots(scene: Scene, key: CallKey, debated: Debated) -> dict[str, Safe]:
    """Slots every debate prompt has; inside a session scope and material are known."""
    ink = scene.ink(key)
    return {
        "setting": NOTHING if debated.in_session else scene.setting(key),
        "size_note": own(NOTE) if debated.annotated else NOTHING,
        "packet": ink.fenced(compact(debated.packet), origin=_ORIGIN),
        "material": NOTHING if debated.in_session else scene.shown_material(ink),
    }


def _history(ink: Ink, history: Sequence[Mapping[str, Any]]) -> Safe:
    if not history:
        return NOTHING
    fenced = ink.fenced(compact(list(history)), origin="challenges so far and the answers to them")
    return joined(own("Your challenges so far, and what was answered:\n"), fenced)


def _conflicts(ink: Ink, conflicts: Sequence[Mapping[str, Any]]) -> Safe:
    if not conflicts:
        return NOTHING
    fenced = ink.fenced(compact(list(conflicts)), origin="findings of other domains that touch yours")
    told = own(
        "Findings of other domains that speak about the same place or were passed on to you. "
        "Say of your own finding concerned whether it stands:\n"
    )
    return joined(told, fenced)
