"""Prompts of every step: Round 1, debate rounds, ruling, the five-phase debate (§17) and the cross-challenge
(§14.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.contract.words import TaskType
from bridgehead.council.calls import CallKey, Role
from bridgehead.council.prompts.fences import Ink, Safe, joined, own, template
from bridgehead.council.prompts.packet_limit import NOTE, characters_omitted, compact
from bridgehead.council.prompts.shared import NONE, NOTHING, PromptContext, evidence_rules
from bridgehead.council.request.domains import Expert
from bridgehead.council.request.plan import PROPOSING_MODES

CHALLENGER_TITLE: Final = "Challenger"
INTEGRATION_TITLE: Final = "Integration Checker"


def expert_prompt(scene: PromptContext, key: CallKey, expert: Expert) -> Safe:
    """A domain expert's first look."""
    ink = scene.ink(key)
    shared = _shared(scene, key, agent=expert.role, domain=expert.domain)
    if scene.is_minimal:
        return template("analysis_expert_minimal").fill(expert_role=ink.line(expert.role), **shared)
    return template("analysis_expert").fill(
        expert_role=ink.line(expert.role),
        lens=ink.line(expert.lens),
        focus_areas=ink.lines(expert.focus_areas) or NONE,
        standards=ink.lines(expert.standards) or NONE,
        **shared,
    )


def standing_role_prompt(scene: PromptContext, key: CallKey) -> Safe:
    """The first look of the Challenger or the Integration Checker."""
    challenger = key.role is Role.CHALLENGER
    title = CHALLENGER_TITLE if challenger else INTEGRATION_TITLE
    name = "analysis_challenger" if challenger else "analysis_integration"
    shared = _shared(scene, key, agent=title, domain=key.domain)
    return template(f"{name}_minimal" if scene.is_minimal else name).fill(**shared)


def late_expert_prompt(
    scene: PromptContext, key: CallKey, expert: Expert, trigger: dict[str, object] | None, reason: str
) -> Safe:
    """An expert called in by a signal sees the finding that called, and nothing else of the debate."""
    ink = scene.ink(key)
    context = NONE if scene.is_minimal else scene.context(ink)
    finding = ink.fenced(compact(trigger), origin="finding of another expert") if trigger else NONE
    why = ink.fenced(reason, origin="reason given by another expert") or NONE
    material = scene.shown_material(ink)
    return template("late_expert").fill(
        expert_role=ink.line(expert.role),
        scope=ink.line(scene.task.scope_text),
        context_summary=context,
        domain=ink.line(expert.domain),
        allowed=scene.allowed(key),
        trigger_finding=finding,
        reason=why,
        material=material,
        foreign_text_note=ink.note(),
        evidence_rules=evidence_rules(),
        output_contract=scene.output_contract(ink, agent=expert.role, domain=expert.domain),
    )


def _shared(scene: PromptContext, key: CallKey, *, agent: str, domain: str) -> dict[str, Safe]:
    """Slots of every Round 1 prompt; a minimal one has no others (council §6)."""
    task, ink = scene.task, scene.ink(key)
    shared = {
        "scope": ink.line(task.scope_text),
        "task_description": ink.words(task.task_description),
        "domain": ink.line(domain),
        "allowed": scene.allowed(key),
        "requirements": scene.requirements(ink),
        "material": scene.shown_material(ink),
        "evidence_rules": evidence_rules(),
        "output_contract": scene.output_contract(ink, agent=agent, domain=domain),
    }
    if not scene.is_minimal:
        shared["context_summary"] = scene.context(ink)
        shared["intensity"] = ink.line(task.intensity)
        shared["framing"] = scene.framing()
    return {**shared, "foreign_text_note": ink.note()}


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


def challenge_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    history = _history(ink, debated.history)
    return template("challenge").fill(
        **shared, history=history, evidence_rules=evidence_rules(), foreign_text_note=ink.note()
    )


def ruling_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    history = _history(ink, debated.history)
    return template("ruling").fill(**shared, history=history, foreign_text_note=ink.note())


def integration_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=INTEGRATION_TITLE, domain=key.domain)
    return template("integration_round").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def response_prompt(scene: PromptContext, key: CallKey, debated: Debated, *, role_title: str) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    return template("response").fill(
        **shared,
        expert_role=ink.line(role_title),
        conflicts=_conflicts(ink, debated.conflicts),
        evidence_rules=evidence_rules(),
        foreign_text_note=ink.note(),
    )


def consolidation_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=CONSOLIDATION_TITLE, domain=key.domain)
    return template("consolidation").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def reminder_prompt(
    scene: PromptContext, key: CallKey, previous: Safe, missing: Sequence[str], *, stage_b: bool
) -> Safe:
    """Ask again for challenges that are owed; `previous` is the prompt they were owed to, empty in a session."""
    name = "stage_b_reminder" if stage_b else "reminder"
    ink = scene.ink(key)
    return template(name).fill(previous=previous, missing=ink.lines(missing))


def repair_prompt(scene: PromptContext, key: CallKey, previous: Safe, answer: str) -> Safe:
    """Ask once more for readable JSON; `previous` is the prompt, empty in a session."""
    ink = scene.ink(key)
    kept = answer[:MOST_ANSWER_CHARACTERS]
    if len(answer) > len(kept):
        kept += characters_omitted(len(answer) - len(kept))
    shown = ink.fenced(kept, origin="your previous answer") or own("(it was empty)")
    return template("repair").fill(previous=previous, answer=joined(ink.note(), own("\n"), shown))


def shared_slots(scene: PromptContext, key: CallKey, debated: Debated) -> dict[str, Safe]:
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


def debate_round_prompt(
    scene: PromptContext, key: CallKey, debated: Debated, *, role_title: str, own_ids: Sequence[str]
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
    scene: PromptContext,
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


_CONTRADICTIONS_KEY: Final = own(',\n  "contradictions": []')
_RECOMMENDATION_KEY: Final = own(
    ',\n  "recommendation": {"chosen": [], "reason": "...", "open_questions": []}'
)


def advocate_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    """Challenge every finding without knowing whose it is."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    mode_task, extra_keys = _mode_task(scene)
    return template("stage_b_advocate").fill(
        **shared, mode_task=mode_task, extra_keys=extra_keys, foreign_text_note=ink.note()
    )


def council_integration_prompt(scene: PromptContext, key: CallKey, debated: Debated) -> Safe:
    """Look for what follows from several findings together."""
    ink = scene.ink(key)
    shared = shared_slots(scene, key, debated)
    contract = scene.output_contract(ink, agent=INTEGRATION_TITLE, domain=key.domain)
    return template("stage_b_integration").fill(
        **shared, evidence_rules=evidence_rules(), output_contract=contract, foreign_text_note=ink.note()
    )


def _mode_task(scene: PromptContext) -> tuple[Safe, Safe]:
    if scene.task.mode in PROPOSING_MODES:
        return template("stage_b_proposals").fill(), _RECOMMENDATION_KEY
    if scene.task.task_type is TaskType.RESEARCH:
        return template("stage_b_research").fill(), _CONTRADICTIONS_KEY
    return NOTHING, NOTHING
