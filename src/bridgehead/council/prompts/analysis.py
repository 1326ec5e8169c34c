"""Round 1 prompts, and that of an expert who is called in later."""

from __future__ import annotations

from typing import Final

from bridgehead.council.calls import CallKey, Role
from bridgehead.council.context_limit import compact
from bridgehead.council.domains import Expert
from bridgehead.council.prompts.scene import NONE, Scene, evidence_rules
from bridgehead.council.prompts.template import Safe, template

CHALLENGER_TITLE: Final = "Challenger"
INTEGRATION_TITLE: Final = "Integration Checker"


def expert_prompt(scene: Scene, key: CallKey, expert: Expert) -> Safe:
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


def standing_role_prompt(scene: Scene, key: CallKey) -> Safe:
    """The first look of the Challenger or the Integration Checker."""
    challenger = key.role is Role.CHALLENGER
    title = CHALLENGER_TITLE if challenger else INTEGRATION_TITLE
    name = "analysis_challenger" if challenger else "analysis_integration"
    shared = _shared(scene, key, agent=title, domain=key.domain)
    return template(f"{name}_minimal" if scene.is_minimal else name).fill(**shared)


def late_expert_prompt(
    scene: Scene, key: CallKey, expert: Expert, trigger: dict[str, object] | None, reason: str
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


def _shared(scene: Scene, key: CallKey, *, agent: str, domain: str) -> dict[str, Safe]:
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
