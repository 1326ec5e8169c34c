"""What a seat makes of the replies of one step: items, signals, challenges, answers, rulings into its proceedings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridgehead.contract.timeouts import MAX_ROUNDS
from bridgehead.council.calls import Role, Step
from bridgehead.council.first_look import CHALLENGER, items_of, take_items
from bridgehead.council.ledger import Owner
from bridgehead.council.proceedings import Proceedings
from bridgehead.council.roster import Signal
from bridgehead.council.wave import Heard, Wave


def hear_items(run: Proceedings, heard: Iterable[Heard]) -> None:
    """Replies with items, and the Challenger's rulings and challenges, in the order of the questions."""
    signals: list[Signal] = []
    for one in heard:
        key = one.ask.call.key
        if key.step is Step.CHALLENGE and key.role is Role.CHALLENGER:
            run.debate.take_rulings(one.value["rulings"], run.round)
            run.debate.take_challenges(one.value["challenges"], run.round, by=CHALLENGER)
        if key.role is Role.EXPERT and key.domain not in run.covered:
            run.covered.append(key.domain)
        signals += raise_items(run, one)
    _take_signals(run, signals)


def hear_responses(run: Proceedings, heard: Iterable[Heard]) -> None:
    """Owners' answers; the parts of an owner whose packet was split are one answer."""
    by_owner: dict[Owner, list[Heard]] = {}
    for one in heard:
        by_owner.setdefault(_owner(one), []).append(one)
    signals: list[Signal] = []
    for owner, parts in by_owner.items():
        responses = [entry for part in parts for entry in _responses(part.value)]
        asked = list(dict.fromkeys(key for part in parts for key in part.ask.asked))
        run.debate.take_responses(owner, responses, asked, run.round)
        for part in parts:
            signals += raise_items(run, part)
    _take_signals(run, signals)


def hear_rulings(run: Proceedings, heard: Iterable[Heard]) -> None:
    """The last rulings; challenges that come now are too late."""
    for one in heard:
        run.debate.take_rulings(one.value["rulings"], run.round)
        for late in one.value["challenges"]:
            run.log("late_challenge", detail=str(late.get("target_finding_id"))[:80], round=run.round)


def settle(run: Proceedings, wave: Wave) -> None:
    """After every step that may bring items: note trouble, and join duplicates, which are nothing new."""
    note_trouble(run, wave)
    run.ledger.merge_duplicates()
    run.debate.changes["new"] = run.ledger.count_raised_in(run.round)


def note_trouble(run: Proceedings, wave: Wave) -> None:
    """Remember that an agent failed or was cut off; the seat is less sure then (council §11)."""
    partial = any(heard.partial for heard in wave.heard.values())
    run.troubled = run.troubled or partial or bool(wave.failures)


def raise_items(run: Proceedings, one: Heard) -> tuple[Signal, ...]:
    """Put the items of one reply into the ledger; those whose evidence is not there are doubted at once."""
    owner = _owner(one)
    placed, signals = items_of(one.value)
    answers = one.ask.call.key.step is Step.RESPONSE
    raised = take_items(
        run.ledger,
        run.intake,
        [(place, entry) for place, entry in placed if not (answers and _is_response(entry))],
        signals,
        owner,
        agent=run.title(owner),
        round_number=run.round,
    )
    run.debate.doubt_failed_evidence(raised.entries, run.round)
    return raised.signals


def _take_signals(run: Proceedings, signals: Sequence[Signal]) -> None:
    if MAX_ROUNDS[run.task.intensity] == 0:
        run.roster.pass_over(signals)
        return
    run.roster.take_signals(signals, {entry.id: entry for entry in run.ledger})


def _owner(one: Heard) -> Owner:
    return Owner(one.ask.call.key.role, one.ask.call.key.domain)


def _responses(value: Any) -> list[dict[str, Any]]:
    """Answers to challenges; some models mark their outputs with a status instead of listing responses."""
    return [*value["responses"], *filter(_is_response, value["outputs"])]


def _is_response(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("finding_id") and entry.get("status"))
