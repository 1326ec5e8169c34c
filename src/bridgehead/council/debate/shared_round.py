"""Round 1 in one call: all roles of a seat answer in sections of their own (council §9.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from bridgehead.contract.looks import Unlooked
from bridgehead.council.calls import Answer, CallKey, Role, Seat, Step
from bridgehead.council.debate.call_batch import (
    Ask,
    CallBatch,
    Form,
    ReadReply,
    first_attempt,
)
from bridgehead.council.debate.first_round import (
    CHALLENGER,
    FIRST_ROUND,
    INTEGRATOR,
    ITEMS,
    expert_owner,
    make_ask,
)
from bridgehead.council.debate.ledger import Owner
from bridgehead.council.prompts.sections import sections_prompt
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.reply import Sections, read_sections
from bridgehead.council.request.domains import CROSS_DOMAIN, Expert

PATIENCE: Final = 2
"""How much longer than one role's an answer with all sections may take."""
EXCHANGE_MODE: Final = "shared"
SECTION_MISSING: Final = "section_missing"
SECTION_REFUSED: Final = "refused: its section says that it did not look"


def shared_asks(
    seat: Seat,
    context: PromptContext,
    experts: Mapping[str, Expert],
    *,
    seating: int,
    model: str | None = None,
) -> list[Ask]:
    """Return the one question to all roles of a seat."""
    key = CallKey(
        seat=seat.name,
        round=FIRST_ROUND,
        step=Step.ANALYSIS,
        role=Role.EXPERTS,
        domain=CROSS_DOMAIN,
        model=model,
        seating=seating,
    )
    names = [owner.domain for owner in _roles(tuple(experts))]
    # With a single expert it is clear whose a plain list is.
    alone = names[0] if len(experts) == 1 else None
    form = Form(Answer.SECTIONS, read_sections(names, alone=alone))
    prompt = sections_prompt(context, key, list(experts.values()))
    ask = make_ask(seat, context, key, prompt, form)
    patience = min(PATIENCE * seat.timeout_seconds, seat.deadline_seconds)
    return [replace(ask, call=replace(ask.call, timeout_seconds=patience))]


def by_role(batch: CallBatch, domains: Sequence[str]) -> CallBatch:
    """Return the questions of Round 1 and their answers as if each role had its own call.

    A role without a section has not answered; of a reply that was cut off, no role has
    answered to the end.
    """
    split = CallBatch([], batch.log, batch.tally, batch.repair)
    asks: list[Ask] = []
    for ask in batch.asks:
        shared = first_attempt(ask.call.key)
        for owner in _roles(domains):
            key = msgspec.structs.replace(shared, role=owner.role, domain=owner.domain)
            own_call = replace(ask.call, key=key, answer=ITEMS.answer)
            asks.append(replace(ask, call=own_call, read=ITEMS.read))
            _split_one(batch, shared, split, asks[-1])
    split.asks = asks
    return split


def _split_one(batch: CallBatch, shared: CallKey, split: CallBatch, ask: Ask) -> None:
    key = ask.call.key
    reply = batch.replies.get(shared)
    if reply is None:
        if shared in batch.failures:
            split.failures[key] = batch.failures[shared]
        if shared in batch.shortfalls:
            split.shortfalls[key] = batch.shortfalls[shared]
        return
    sections: Sections = reply.value
    items = sections.by_domain.get(key.domain)
    if items is None:
        split.failures[key] = SECTION_MISSING
        split.shortfalls[key] = batch.shortfalls.get(shared, Unlooked.DIED)
        return
    declined = reply.declined is not None or key.domain in sections.refused
    if declined and not items.entries:
        split.failures[key] = SECTION_REFUSED
        split.shortfalls[key] = Unlooked.REFUSED
        return
    if shared in batch.shortfalls:
        split.shortfalls[key] = batch.shortfalls[shared]
    split.replies[key] = ReadReply(ask, items, reply.partial)


def _roles(domains: Sequence[str]) -> list[Owner]:
    """Return who has a section, in the order ids are given in."""
    return [*map(expert_owner, domains), INTEGRATOR, CHALLENGER]
