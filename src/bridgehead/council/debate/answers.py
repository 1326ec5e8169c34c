"""What a seat takes from the replies of one step: items, signals, challenges, answers and rulings into its state
(council §9, §11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridgehead.contract.report import DisputedOutput
from bridgehead.contract.timeouts import MAX_ROUNDS
from bridgehead.contract.words import LocalCouncilType, OutputState
from bridgehead.council.calls import Role, Step
from bridgehead.council.debate.call_batch import CallBatch, ReadReply
from bridgehead.council.debate.first_round import CHALLENGER, enter_items, items_of
from bridgehead.council.debate.ledger import Owner, by_severity, final_output, placement
from bridgehead.council.debate.roster import Signal
from bridgehead.council.debate.state import SeatState
from bridgehead.council.findings.fingerprint import with_identity
from bridgehead.council.reporting.seat_report import Analysed, decide_confidence


def consolidated(run: SeatState) -> Analysed:
    """Final status for every item that was not merged, sorted into the lists of the report."""
    rounds = run.debate.rounds_finished
    kept = by_severity(entry for entry in run.ledger if entry.merged_into is None)
    argued = [
        (entry, final_output(entry, rounds, run.debate.argument(entry)))
        for entry in kept
    ]
    finals = [
        (entry, with_identity(output, run.inputs.tree, run.inputs.renames))
        for entry, output in argued
    ]
    outputs = tuple(
        output for _, output in finals if "outputs" in placement(output.status)
    )
    disputed = tuple(
        DisputedOutput(output, run.debate.unresolved_text(entry))
        for entry, output in finals
        if output.status is OutputState.DISPUTED
    )
    seat = run.seat
    return Analysed(
        outputs=outputs,
        withdrawn_outputs=tuple(
            output for _, output in finals if output.status is OutputState.WITHDRAWN
        ),
        disputed_outputs=disputed,
        domains_covered=tuple(run.covered),
        debate_rounds=rounds,
        confidence=decide_confidence(
            agents_failed=run.troubled,
            domains_missing=not set(run.roster.active) <= set(run.covered),
            disputed=len(disputed),
            items=len(outputs),
            degraded=seat.degradation_reason is not None,
            unseen=bool(run.context.material.unseen),
        ),
        local_council_type=LocalCouncilType.AGENT_COUNCIL,
        degradation_reason=seat.degradation_reason,
        diversity_sources=("role",),
        runtime=seat.runtime,
        toolchain=seat.toolchain,
        exchange_mode=seat.exchange_mode,
    )


def take_items(run: SeatState, replies: Iterable[ReadReply]) -> None:
    """Replies with items, and the Challenger's rulings and challenges, in the order of the questions."""
    signals: list[Signal] = []
    for one in replies:
        key = one.ask.call.key
        if key.step is Step.CHALLENGE and key.role is Role.CHALLENGER:
            run.debate.take_rulings(one.value["rulings"], run.round)
            run.debate.take_challenges(
                one.value["challenges"], run.round, by=CHALLENGER
            )
        if key.role is Role.EXPERT and key.domain not in run.covered:
            run.covered.append(key.domain)
        signals += raise_items(run, one)
    _take_signals(run, signals)


def take_responses(run: SeatState, replies: Iterable[ReadReply]) -> None:
    """Owners' answers; the parts of an owner whose packet was split are one answer."""
    by_owner: dict[Owner, list[ReadReply]] = {}
    for one in replies:
        by_owner.setdefault(one.owner, []).append(one)
    signals: list[Signal] = []
    for owner, parts in by_owner.items():
        # Some models mark their outputs with a status instead of listing responses.
        given = [
            (*part.value["responses"], *filter(_is_response, part.value["outputs"]))
            for part in parts
        ]
        responses = [entry for entries in given for entry in entries]
        asked = list(dict.fromkeys(key for part in parts for key in part.ask.asked))
        run.debate.take_responses(owner, responses, asked, run.round)
        for part in parts:
            signals += raise_items(run, part)
    _take_signals(run, signals)


def take_rulings(run: SeatState, replies: Iterable[ReadReply]) -> None:
    """The last rulings; challenges that come now are too late."""
    for one in replies:
        run.debate.take_rulings(one.value["rulings"], run.round)
        for late in one.value["challenges"]:
            run.log(
                "late_challenge",
                detail=str(late.get("target_finding_id"))[:80],
                round=run.round,
            )


def settle(run: SeatState, batch: CallBatch) -> None:
    """After every step that may bring items: note trouble, and join duplicates, which are nothing new."""
    note_trouble(run, batch)
    run.ledger.merge_duplicates()
    run.debate.changes["new"] = run.ledger.count_raised_in(run.round)


def note_trouble(run: SeatState, batch: CallBatch) -> None:
    """Remember that an agent failed or was cut off; the seat is less sure then (council §11)."""
    partial = any(reply.partial for reply in batch.replies.values())
    run.troubled = run.troubled or partial or bool(batch.failures)


def raise_items(run: SeatState, one: ReadReply) -> list[Signal]:
    """Put the items of one reply into the ledger; those whose evidence is not there are doubted at once."""
    placed, listed = items_of(one.value)
    if one.ask.call.key.step is Step.RESPONSE:
        placed = [(place, entry) for place, entry in placed if not _is_response(entry)]
    title = run.title(one.owner)
    raised, signals = enter_items(
        run.ledger,
        run.intake,
        placed,
        listed,
        one.owner,
        agent=title,
        round_number=run.round,
    )
    run.debate.doubt_failed_evidence(raised, run.round)
    return signals


def _take_signals(run: SeatState, signals: Sequence[Signal]) -> None:
    if MAX_ROUNDS[run.task.intensity] == 0:
        run.roster.pass_over(signals)
        return
    run.roster.take_signals(signals, {entry.id: entry for entry in run.ledger})


def _is_response(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("finding_id") and entry.get("status"))
