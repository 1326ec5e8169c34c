"""Round 1: every role looks by itself, nobody sees anybody (council §9.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridgehead.contract.looks import Look, Looked, LookKind, Unlooked, not_looked
from bridgehead.council.calls import Answer, Call, CallKey, Role, Seat, Step
from bridgehead.council.debate.call_batch import Ask, CallBatch, Form, first_attempt
from bridgehead.council.debate.ledger import Entry, Ledger, Owner
from bridgehead.council.debate.roster import Signal, read_signals
from bridgehead.council.prompts.debate import (
    CHALLENGER_TITLE,
    INTEGRATION_TITLE,
    expert_prompt,
    standing_role_prompt,
)
from bridgehead.council.prompts.fences import Safe
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.items import Intake
from bridgehead.council.replies.reply import Items, is_item, read_items
from bridgehead.council.request.domains import CROSS_DOMAIN, INTEGRATION, Expert

FIRST_ROUND: Final = 1
CHALLENGER: Final = Owner(Role.CHALLENGER, CROSS_DOMAIN)
INTEGRATOR: Final = Owner(Role.INTEGRATION, INTEGRATION)
CONSOLIDATOR: Final = Owner(Role.CONSOLIDATION, CROSS_DOMAIN)
_RANK: Final = {Looked.NOT: 0, Looked.IN_PART: 1, Looked.TO_THE_END: 2}
TITLES: Final = {Role.CHALLENGER: CHALLENGER_TITLE, Role.INTEGRATION: INTEGRATION_TITLE}


def expert_owner(domain: str) -> Owner:
    return Owner(Role.EXPERT, domain)


ITEMS: Final = Form(Answer.ITEMS, read_items)


def make_ask(
    seat: Seat,
    context: PromptContext,
    key: CallKey,
    prompt: Safe,
    form: Form,
    **more: Any,
) -> Ask:
    """A question to this seat."""
    session = more.pop("session", None)
    call = Call(
        key, prompt, seat.timeout_seconds, form.answer, context.profile_of(key), session
    )
    return Ask(call, prompt, form.read, **more)


def first_round_asks(
    seat: Seat,
    context: PromptContext,
    experts: Mapping[str, Expert],
    *,
    seating: int,
    model: str | None = None,
) -> list[Ask]:
    """One question per domain, then the Integration Checker, then the Challenger: the order ids are given in."""

    def key(role: Role, domain: str) -> CallKey:
        return CallKey(
            seat=seat.name,
            round=FIRST_ROUND,
            step=Step.ANALYSIS,
            role=role,
            domain=domain,
            model=model,
            seating=seating,
        )

    prompts = [
        (
            key(Role.EXPERT, domain),
            expert_prompt(context, key(Role.EXPERT, domain), expert),
        )
        for domain, expert in experts.items()
    ]
    for role, domain in (
        (Role.INTEGRATION, INTEGRATION),
        (Role.CHALLENGER, CROSS_DOMAIN),
    ):
        prompts.append(
            (key(role, domain), standing_role_prompt(context, key(role, domain)))
        )
    return [
        make_ask(seat, context, call_key, prompt, ITEMS) for call_key, prompt in prompts
    ]


def enter_items(
    ledger: Ledger,
    intake: Intake,
    placed: Iterable[tuple[int, Mapping[str, Any]]],
    signals: object,
    owner: Owner,
    *,
    agent: str,
    round_number: int,
    model: str | None = None,
) -> tuple[list[Entry], list[Signal]]:
    """Put a reply's items into the ledger and read its signals, which refer to their places in the reply."""
    listed = list(placed)
    drafts = [intake.draft(fields) for _, fields in listed]
    entries = ledger.add(
        drafts, owner, agent=agent, round_number=round_number, model=model
    )
    by_place = {place: entry for (place, _), entry in zip(listed, entries, strict=True)}
    return entries, read_signals(signals, by_place)


def items_of(value: Any) -> tuple[list[tuple[int, Mapping[str, Any]]], object]:
    """The items and signals in a reply, whichever reader read it."""
    if isinstance(value, Items):
        return list(value.entries), value.document.get("cross_domain_signals")
    listed = value.get("outputs") or []
    return [
        (place, entry) for place, entry in enumerate(listed) if is_item(entry)
    ], value.get("cross_domain_signals")


def covered_domains(batch: CallBatch) -> list[str]:
    """Domains whose expert gave a usable answer, possibly an empty one."""
    return [
        reply.ask.call.key.domain
        for reply in batch.in_order()
        if reply.ask.call.key.role is Role.EXPERT
    ]


def domain_looks(batch: CallBatch, seat: str) -> list[Look]:
    """Return how far the experts of Round 1 came; of several models, the best one."""
    looks: dict[str, Look] = {}
    for ask in batch.asks:
        key = first_attempt(ask.call.key)
        if key.role is not Role.EXPERT:
            continue
        look = _domain_look(batch, key, seat)
        known = looks.get(key.domain)
        if known is None or _RANK[look.outcome] > _RANK[known.outcome]:
            looks[key.domain] = look
    return list(looks.values())


def _domain_look(batch: CallBatch, key: CallKey, seat: str) -> Look:
    reason = batch.shortfalls.get(key)
    if reason is None and key in batch.replies:
        return Look(
            by=seat, on=key.domain, kind=LookKind.DOMAIN, outcome=Looked.TO_THE_END
        )
    return not_looked(
        seat,
        key.domain,
        reason or Unlooked.DIED,
        kind=LookKind.DOMAIN,
        outcome=Looked.IN_PART if key in batch.replies else Looked.NOT,
    )


def usual_failure(batch: CallBatch) -> str:
    """The most frequent reason, the first one on ties."""
    asked = (
        first_attempt(ask.call.key)
        for ask in batch.asks
        if ask.call.key.role is Role.EXPERT
    )
    reasons = Counter(batch.failures[key] for key in asked if key in batch.failures)
    return reasons.most_common(1)[0][0] if reasons else "parse_failure"
