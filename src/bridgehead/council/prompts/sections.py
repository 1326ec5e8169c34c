"""Prompts in which several roles share a call (council §9.10).

All of one seat begin with the same text: rules, scope, material. What differs comes
after it, so that a runtime which caches prompts reads the material once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.council.calls import CallKey, Role, Step
from bridgehead.council.prompts.debate import DEBATED_ORIGIN, Debated
from bridgehead.council.prompts.fences import PromptWriter, Safe, joined, own, template
from bridgehead.council.prompts.packet_limit import NOTE, compact
from bridgehead.council.prompts.shared import (
    NONE,
    NOTHING,
    PromptContext,
    evidence_rules,
)
from bridgehead.council.request.domains import CROSS_DOMAIN, Expert

BEFORE_ROUND_1: Final = 0
_LINE_END: Final = own("\n")


@dataclass(frozen=True, slots=True)
class CalledIn:
    """An expert that a finding calls for: as the prompt shows it."""

    expert: Expert
    trigger: Mapping[str, Any] | None
    reason: str


def sections_prompt(
    context: PromptContext, key: CallKey, experts: Sequence[Expert]
) -> Safe:
    """Return the prompt of Round 1 for all roles of a seat."""
    writer = context.writer(key)
    roles = [expert_section(context, writer, expert) for expert in experts]
    roles += [
        template("shared_integration").fill(),
        template("shared_challenger").fill(),
    ]
    return template("analysis_shared").fill(
        prefix=shared_prefix(context, key),
        roles=joined(*(joined(role, _LINE_END) for role in roles)),
        sections_contract=context.sections_contract(writer),
    )


def expert_section(
    context: PromptContext, writer: PromptWriter, expert: Expert
) -> Safe:
    """Return what an expert's section is about."""
    named = {
        "domain": writer.line(expert.domain),
        "expert_role": writer.line(expert.role),
    }
    if context.is_minimal:
        return template("shared_expert_minimal").fill(**named)
    return template("shared_expert").fill(
        **named,
        lens=writer.line(expert.lens),
        focus_areas=writer.lines(expert.focus_areas) or NONE,
        standards=writer.lines(expert.standards) or NONE,
    )


def shared_prefix(context: PromptContext, key: CallKey) -> Safe:
    """Return the text with which every shared prompt of a seat begins, always the same.

    Its fence is that of the seat, not of the call. It is closed before anything that a
    model wrote follows, and that has the fence of its call.
    """
    of_seat = CallKey(
        seat=key.seat,
        round=BEFORE_ROUND_1,
        step=Step.ANALYSIS,
        role=Role.EXPERTS,
        domain=CROSS_DOMAIN,
    )
    writer = context.writer(of_seat)
    slots = {
        "evidence_rules": evidence_rules(),
        "setting": context.setting(of_seat, writer),
        "requirements": context.requirements(writer),
        "material": context.shown_material(writer),
        "framing": NOTHING if context.is_minimal else context.framing(),
    }
    return template("shared_prefix").fill(**slots, foreign_text_note=writer.note())


def examination_prompt(context: PromptContext, key: CallKey, debated: Debated) -> Safe:
    """Return the prompt of Challenger and Integration Checker over all findings."""
    writer = context.writer(key)
    slots = _debated_slots(context, key, writer, debated)
    return template("stage_b_shared").fill(
        **slots, **context.item_slots(writer), foreign_text_note=writer.note()
    )


def defence_prompt(
    context: PromptContext,
    key: CallKey,
    debated: Debated,
    called_in: Sequence[CalledIn] = (),
) -> Safe:
    """Return the prompt of a seat that answers for its findings; further experts join it."""
    writer = context.writer(key)
    slots = _debated_slots(context, key, writer, debated)
    late_roles = NOTHING
    if called_in:
        roles = [_late_section(context, writer, one) for one in called_in]
        late_roles = template("late_sections").fill(
            roles=joined(*(joined(role, _LINE_END) for role in roles)),
            **context.item_slots(writer),
        )
    return template("defence_shared").fill(
        **slots, late_roles=late_roles, foreign_text_note=writer.note()
    )


def _late_section(
    context: PromptContext, writer: PromptWriter, called_in: CalledIn
) -> Safe:
    shown = compact({"finding": called_in.trigger, "reason": called_in.reason})
    return template("late_section").fill(
        role=expert_section(context, writer, called_in.expert),
        why=writer.fenced(shown, origin="finding of another expert"),
    )


def _debated_slots(
    context: PromptContext, key: CallKey, writer: PromptWriter, debated: Debated
) -> dict[str, Safe]:
    return {
        "prefix": shared_prefix(context, key),
        "size_note": own(NOTE) if debated.annotated else NOTHING,
        "packet": writer.fenced(compact(debated.packet), origin=DEBATED_ORIGIN),
    }
