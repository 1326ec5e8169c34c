"""Who is asked what in a debate round: packets cut to size, prompts built, sessions used where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from bridgehead.council.calls import Answer, CallKey, Step
from bridgehead.council.debate.call_batch import Ask, Form, ReadReply, next_attempt
from bridgehead.council.debate.challenges import Challenge
from bridgehead.council.debate.first_round import (
    CHALLENGER,
    CONSOLIDATOR,
    INTEGRATOR,
    ITEMS,
    expert_owner,
    make_ask,
)
from bridgehead.council.debate.ledger import Entry, Owner, shown
from bridgehead.council.debate.packets import (
    conflict_entries,
    find_gaps,
    history_entries,
    synthesis_text,
)
from bridgehead.council.debate.roster import NewExpert
from bridgehead.council.debate.state import SeatState
from bridgehead.council.prompts import debate
from bridgehead.council.prompts.fences import Safe
from bridgehead.council.prompts.packet_limit import (
    CHALLENGES,
    FINDINGS,
    Reduced,
    packet_size,
    reduce_packet,
    shown_id,
)
from bridgehead.council.prompts.shared import NOTHING, PromptContext
from bridgehead.council.replies.reply import read_lists

FOR_CHALLENGES: Final = Form(
    Answer.CHALLENGES, read_lists("rulings", "challenges", "outputs")
)
FOR_RESPONSES: Final = Form(Answer.RESPONSES, read_lists("responses", "outputs"))
FOR_RULINGS: Final = Form(
    Answer.RULINGS, read_lists("rulings", optional=("challenges",))
)

Builder = Callable[[PromptContext, CallKey, debate.Debated], Safe]


def challenge_asks(run: SeatState, added: Sequence[NewExpert]) -> list[Ask]:
    """New experts first, then the Integration Checker, then the Challenger: the order ids are given in."""
    packet = packet_for(run, run.ledger.live(), run.debate.open_challenges(), added)
    history = history_entries(run.debate)
    return [
        *(_late_expert_ask(run, new) for new in added),
        *debate_asks(
            run, INTEGRATOR, Step.CHALLENGE, packet, debate.integration_prompt, ITEMS
        ),
        *debate_asks(
            run,
            CHALLENGER,
            Step.CHALLENGE,
            packet,
            debate.challenge_prompt,
            FOR_CHALLENGES,
            history=history,
        ),
    ]


def reminder_ask(run: SeatState, spoken: ReadReply, missing: Sequence[Entry]) -> Ask:
    """The Challenger owes challenges: ask once more, with the ids."""
    key = next_attempt(spoken.ask.call.key)
    session = run.session_of(CHALLENGER)
    previous = NOTHING if session is not None else spoken.ask.prompt
    prompt = debate.reminder_prompt(
        run.context, key, previous, [entry.id for entry in missing], stage_b=False
    )
    return make_ask(run.seat, run.context, key, prompt, FOR_CHALLENGES, session=session)


def response_asks(run: SeatState, owner: Owner) -> list[Ask]:
    """An owner hears of the challenges and conflicts that concern it, and of nothing else (Q1)."""
    mine = [entry for entry in run.ledger.live() if entry.owner == owner]
    conflicts = [conflict for conflict in run.conflicts if conflict.owner == owner]
    packet = packet_for(run, mine, run.debate.open_for(owner))
    build = partial(debate.response_prompt, role_title=run.title(owner))
    told = conflict_entries(conflicts, run.debate)
    return debate_asks(
        run, owner, Step.RESPONSE, packet, build, FOR_RESPONSES, conflicts=told
    )


def ruling_asks(run: SeatState) -> list[Ask]:
    """The Challenger's last word."""
    packet = packet_for(run, run.ledger.live(), run.debate.open_challenges())
    history = history_entries(run.debate)
    return debate_asks(
        run,
        CHALLENGER,
        Step.RULING,
        packet,
        debate.ruling_prompt,
        FOR_RULINGS,
        history=history,
    )


def consolidation_asks(run: SeatState) -> list[Ask]:
    """Quick: one look across the domains instead of a debate (K10)."""
    packet = packet_for(run, run.ledger.live(), ())
    return debate_asks(
        run,
        CONSOLIDATOR,
        Step.CONSOLIDATION,
        packet,
        debate.consolidation_prompt,
        ITEMS,
    )


def packet_for(
    run: SeatState,
    findings: Sequence[Entry],
    challenges: Sequence[Challenge],
    added: Sequence[NewExpert] = (),
) -> dict[str, Any]:
    """The context packet of the present round for a role that sees these; keys in the order of the contract."""
    challenged = {
        run.debate.target_of(one).id for one in run.debate.challenges.values()
    }
    gaps = find_gaps(run.task, run.inputs.scope_files, list(run.ledger))
    told_round = max(run.round - 1, 1)
    return {
        "round": run.round,
        "active_domains": list(run.roster.active),
        "newly_added_domains": [
            {
                "domain": new.expert.domain,
                "trigger_finding_id": new.trigger_id,
                "reason": new.reason,
            }
            for new in added
        ],
        "previous_findings": [shown(entry) for entry in findings],
        "open_challenges": [run.debate.shown(challenge) for challenge in challenges],
        "synthesis": synthesis_text(
            told_round, len(run.ledger.live()), len(challenged), len(added), gaps
        ),
    }


def debate_asks(
    run: SeatState,
    owner: Owner,
    step: Step,
    packet: dict[str, Any],
    build: Builder,
    form: Form,
    *,
    history: Sequence[dict[str, Any]] = (),
    conflicts: Sequence[dict[str, Any]] = (),
) -> list[Ask]:
    """One question, or one per shard when the packet had to be split."""
    reduced = reduce_packet(packet)
    _note_reduction(run, owner, reduced)
    # Shards go out together, and one session cannot take several questions at once.
    session = run.session_of(owner) if len(reduced.packets) == 1 else None
    asks: list[Ask] = []
    for number, shard in enumerate(reduced.packets, start=1):
        key = run.key(owner, step, shard=number)
        alone = build(
            run.context,
            key,
            debate.Debated(shard, reduced.annotated, history, conflicts),
        )
        known = debate.Debated(
            shard, reduced.annotated, history, conflicts, in_session=True
        )
        asks.append(
            make_ask(
                run.seat,
                run.context,
                key,
                alone if session is None else build(run.context, key, known),
                form,
                session=session,
                standalone=None if session is None else alone,
                shown_ids=tuple(map(shown_id, shard[FINDINGS])),
                asked=tuple(
                    challenge["challenge_id"] for challenge in shard[CHALLENGES]
                ),
            )
        )
    return asks


def _late_expert_ask(run: SeatState, new: NewExpert) -> Ask:
    key = run.key(expert_owner(new.expert.domain), Step.CHALLENGE)
    shows = ("title", "description", "severity", "evidence", "domain")
    told = None
    if new.trigger_id is not None:
        told = {
            name: getattr(run.ledger[new.trigger_id].output, name) for name in shows
        }
    prompt = debate.late_expert_prompt(run.context, key, new.expert, told, new.reason)
    return make_ask(run.seat, run.context, key, prompt, ITEMS)


def _note_reduction(run: SeatState, owner: Owner, reduced: Reduced) -> None:
    if reduced.level > 0:
        run.log(
            "context_reduced",
            round=run.round,
            role=owner.name,
            level=reduced.level,
            from_chars=reduced.sizes_by_level[0],
            to_chars=max(map(packet_size, reduced.packets)),
            shards=len(reduced.packets),
            cut=reduced.cut_findings,
        )
    if reduced.overflow is not None:
        cut = reduced.overflow
        run.overflow.append(
            {
                "round": run.round,
                "role": owner.name,
                "omitted_challenges": cut.omitted_challenges,
                "cut": cut.synthesis_cut,
            }
        )
