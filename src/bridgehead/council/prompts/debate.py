"""Prompts of every step: Round 1, debate rounds, ruling, the five-phase debate (§17) and the cross-challenge
(§14.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bridgehead.contract.words import TaskType
from bridgehead.council.calls import CallKey, Role
from bridgehead.council.prompts.fences import PromptWriter, Safe, joined, own, template
from bridgehead.council.prompts.packet_limit import NOTE, characters_omitted, compact
from bridgehead.council.prompts.shared import (
    NONE,
    NOTHING,
    PromptContext,
    evidence_rules,
)
from bridgehead.council.request.domains import Expert
from bridgehead.council.request.plan import PROPOSING_MODES

CHALLENGER_TITLE: Final = "Challenger"
INTEGRATION_TITLE: Final = "Integration Checker"
MOST_ANSWER_CHARACTERS: Final = 20_000
CONSOLIDATION_TITLE: Final = "consolidation"
DEBATED_ORIGIN: Final = "findings and challenges of this debate"
_CONTRADICTIONS_KEY: Final = own(',\n  "contradictions": []')
_RECOMMENDATION_KEY: Final = own(
    ',\n  "recommendation": {"chosen": [], "reason": "...", "open_questions": []}'
)


def expert_prompt(context: PromptContext, key: CallKey, expert: Expert) -> Safe:
    """A domain expert's prompt of Round 1."""
    writer = context.writer(key)
    shared = _shared(context, key, agent=expert.role, domain=expert.domain)
    if context.is_minimal:
        return template("analysis_expert_minimal").fill(
            expert_role=writer.line(expert.role), **shared
        )
    return template("analysis_expert").fill(
        expert_role=writer.line(expert.role),
        lens=writer.line(expert.lens),
        focus_areas=writer.lines(expert.focus_areas) or NONE,
        standards=writer.lines(expert.standards) or NONE,
        **shared,
    )


def standing_role_prompt(context: PromptContext, key: CallKey) -> Safe:
    """The prompt of Round 1 for the Challenger or the Integration Checker."""
    challenger = key.role is Role.CHALLENGER
    title = CHALLENGER_TITLE if challenger else INTEGRATION_TITLE
    name = "analysis_challenger" if challenger else "analysis_integration"
    shared = _shared(context, key, agent=title, domain=key.domain)
    return template(f"{name}_minimal" if context.is_minimal else name).fill(**shared)


def late_expert_prompt(
    context: PromptContext,
    key: CallKey,
    expert: Expert,
    trigger: dict[str, object] | None,
    reason: str,
) -> Safe:
    """An expert called in by a signal sees the finding that called, and nothing else of the debate."""
    writer = context.writer(key)
    summary = NONE if context.is_minimal else context.summary(writer)
    finding = (
        writer.fenced(compact(trigger), origin="finding of another expert")
        if trigger
        else NONE
    )
    why = writer.fenced(reason, origin="reason given by another expert") or NONE
    material = context.shown_material(writer)
    return template("late_expert").fill(
        expert_role=writer.line(expert.role),
        scope=writer.line(context.task.scope_text),
        context_summary=summary,
        domain=writer.line(expert.domain),
        allowed=context.allowed(key),
        trigger_finding=finding,
        reason=why,
        material=material,
        foreign_text_note=writer.note(),
        evidence_rules=evidence_rules(),
        output_contract=context.output_contract(
            writer, agent=expert.role, domain=expert.domain
        ),
    )


def _shared(
    context: PromptContext, key: CallKey, *, agent: str, domain: str
) -> dict[str, Safe]:
    """Slots of every Round 1 prompt; a minimal one has no others (council §6)."""
    task = context.task
    writer = context.writer(key)
    shared = {
        "scope": writer.line(task.scope_text),
        "task_description": writer.words(task.task_description),
        "domain": writer.line(domain),
        "allowed": context.allowed(key),
        "requirements": context.requirements(writer),
        "material": context.shown_material(writer),
        "evidence_rules": evidence_rules(),
        "output_contract": context.output_contract(writer, agent=agent, domain=domain),
    }
    if not context.is_minimal:
        shared["context_summary"] = context.summary(writer)
        shared["intensity"] = writer.line(task.intensity)
        shared["framing"] = context.framing()
    return {**shared, "foreign_text_note": writer.note()}


@dataclass(frozen=True, slots=True)
class Debated:
    """What a role is shown in a debate round; `in_session` roles already know scope and material."""

    packet: Mapping[str, Any]
    annotated: bool = False
    history: Sequence[Mapping[str, Any]] = field(default=())
    conflicts: Sequence[Mapping[str, Any]] = field(default=())
    in_session: bool = False


def response_prompt(
    context: PromptContext, key: CallKey, debated: Debated, *, role_title: str
) -> Safe:
    def own_slots(writer: PromptWriter) -> dict[str, Safe]:
        return {
            "expert_role": writer.line(role_title),
            "conflicts": _conflicts(writer, debated.conflicts),
        }

    return _debate_prompt("response", context, key, debated, own_slots)


def reminder_prompt(
    context: PromptContext,
    key: CallKey,
    previous: Safe,
    missing: Sequence[str],
    *,
    stage_b: bool,
) -> Safe:
    """Ask again for challenges that are owed; `previous` is the prompt they were owed to, empty in a session."""
    name = "stage_b_reminder" if stage_b else "reminder"
    writer = context.writer(key)
    return template(name).fill(previous=previous, missing=writer.lines(missing))


def repair_prompt(
    context: PromptContext, key: CallKey, previous: Safe, answer: str
) -> Safe:
    """Ask once more for readable JSON; `previous` is the prompt, empty in a session."""
    writer = context.writer(key)
    kept = answer[:MOST_ANSWER_CHARACTERS]
    if len(answer) > len(kept):
        kept += characters_omitted(len(answer) - len(kept))
    shown = writer.fenced(kept, origin="your previous answer") or own("(it was empty)")
    return template("repair").fill(
        previous=previous, answer=joined(writer.note(), own("\n"), shown)
    )


def _debate_prompt(
    name: str,
    context: PromptContext,
    key: CallKey,
    debated: Debated,
    own_slots: Callable[[PromptWriter], Mapping[str, Safe]],
) -> Safe:
    """A prompt about what was said before. One writer fences all of it, or its note would not know what is fenced."""
    writer = context.writer(key)
    wanted = template(name)
    usual = {
        "setting": NOTHING if debated.in_session else context.setting(key, writer),
        "size_note": own(NOTE) if debated.annotated else NOTHING,
        "packet": writer.fenced(compact(debated.packet), origin=DEBATED_ORIGIN),
        "material": NOTHING if debated.in_session else context.shown_material(writer),
        "evidence_rules": evidence_rules(),
    }
    slots = {slot: text for slot, text in usual.items() if slot in wanted.slots} | dict(
        own_slots(writer)
    )
    return wanted.fill(**slots, foreign_text_note=writer.note())


def _items_prompt(
    name: str, title: str, context: PromptContext, key: CallKey, debated: Debated
) -> Safe:
    """The same, asking for items."""

    def own_slots(writer: PromptWriter) -> dict[str, Safe]:
        return {
            "output_contract": context.output_contract(
                writer, agent=title, domain=key.domain
            )
        }

    return _debate_prompt(name, context, key, debated, own_slots)


integration_prompt: Final = partial(
    _items_prompt, "integration_round", INTEGRATION_TITLE
)
consolidation_prompt: Final = partial(
    _items_prompt, "consolidation", CONSOLIDATION_TITLE
)
council_integration_prompt: Final = partial(
    _items_prompt, "stage_b_integration", INTEGRATION_TITLE
)
"""Looks for what follows from several findings together."""


def _prompt_with_history(
    name: str, context: PromptContext, key: CallKey, debated: Debated
) -> Safe:
    return _debate_prompt(
        name, context, key, debated, lambda writer: _history(writer, debated.history)
    )


challenge_prompt: Final = partial(_prompt_with_history, "challenge")
ruling_prompt: Final = partial(_prompt_with_history, "ruling")


def _history(
    writer: PromptWriter, history: Sequence[Mapping[str, Any]]
) -> dict[str, Safe]:
    if not history:
        return {"history": NOTHING}
    fenced = writer.fenced(
        compact(list(history)), origin="challenges so far and the answers to them"
    )
    return {
        "history": joined(
            own("Your challenges so far, and what was answered:\n"), fenced
        )
    }


def _conflicts(writer: PromptWriter, conflicts: Sequence[Mapping[str, Any]]) -> Safe:
    if not conflicts:
        return NOTHING
    fenced = writer.fenced(
        compact(list(conflicts)), origin="findings of other domains that touch yours"
    )
    told = own(
        "Findings of other domains that speak about the same place or were passed on "
        "to you. "
        "Say of your own finding concerned whether it stands:\n"
    )
    return joined(told, fenced)


def debate_round_prompt(
    context: PromptContext,
    key: CallKey,
    debated: Debated,
    *,
    role_title: str,
    own_ids: Sequence[str],
) -> Safe:
    """One reviewer's turn in a challenge round."""

    def own_slots(writer: PromptWriter) -> dict[str, Safe]:
        return {
            "expert_role": writer.line(role_title),
            "own_ids": writer.line(", ".join(own_ids)) or NONE,
        }

    return _debate_prompt("debate_round", context, key, debated, own_slots)


def final_position_prompt(
    context: PromptContext,
    key: CallKey,
    debated: Debated,
    *,
    role_title: str,
    own_ids: Sequence[str],
    merges: Sequence[tuple[str, str]],
) -> Safe:
    """One reviewer's last word; `merges` are pairs that seem to be one problem and concern this reviewer."""

    def own_slots(writer: PromptWriter) -> dict[str, Safe]:
        ids = writer.line(", ".join(own_ids)) or NONE
        return {
            "expert_role": writer.line(role_title),
            "own_ids": ids,
            "merges": _merges(writer, merges),
        }

    return _debate_prompt("final_position", context, key, debated, own_slots)


def _merges(writer: PromptWriter, merges: Sequence[tuple[str, str]]) -> Safe:
    if not merges:
        return NOTHING
    pairs = writer.lines(f"{one} and {other}" for one, other in merges)
    return joined(
        own(
            "These pairs seem to be one problem; say under `merges` whether they are: "
        ),
        pairs,
    )


def advocate_prompt(context: PromptContext, key: CallKey, debated: Debated) -> Safe:
    """Challenge every finding without knowing whose it is."""
    mode_task, extra_keys = _mode_task(context)
    slots = {"mode_task": mode_task, "extra_keys": extra_keys}
    return _debate_prompt("stage_b_advocate", context, key, debated, lambda _: slots)


def question_prompt(
    context: PromptContext,
    key: CallKey,
    debated: Debated,
    text: str,
    *,
    own_finding: bool,
) -> Safe:
    """Put one more question about one finding to a seat, its own or another's."""
    whose = own("; you reported it") if own_finding else own("; others reported it")
    return _debate_prompt(
        "question",
        context,
        key,
        debated,
        lambda writer: {"whose": whose, "question": writer.words(text)},
    )


def _mode_task(context: PromptContext) -> tuple[Safe, Safe]:
    if context.task.mode in PROPOSING_MODES:
        return template("stage_b_proposals").fill(), _RECOMMENDATION_KEY
    if context.task.task_type is TaskType.RESEARCH:
        return template("stage_b_research").fill(), _CONTRADICTIONS_KEY
    return NOTHING, NOTHING
