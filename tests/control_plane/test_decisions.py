"""The record's decisions without any store: which run stands, what a question becomes, what a filter lets through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bridgehead.contract.pending import Answer, PendingItem
from bridgehead.contract.record_words import Part, PendingKind, PendingState, RunState
from bridgehead.control_plane import questions
from bridgehead.control_plane.questions import (
    AmbiguousReference,
    Change,
    ItemReference,
    UnknownItem,
)
from bridgehead.control_plane.records import (
    ANY_EVENT,
    EventFilter,
    PendingFilter,
    RunFilter,
    supersedes,
)
from bridgehead.errors import AlreadyAnswered, UserError
from control_plane.store_suite import AT, event, question, run

NOW = datetime(2026, 11, 15, 10, 15, 2, 123000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kept", "saved", "saved_after_ms", "wins"),
    [
        # kept state,       saved state,        saved later by (ms), replaces
        (RunState.RUNNING, RunState.WAITING, 1, True),
        (RunState.RUNNING, RunState.COMPLETED, 0, True),
        (RunState.RUNNING, RunState.WAITING, 0, True),
        (RunState.RUNNING, RunState.COMPLETED, -1, False),
        (RunState.COMPLETED, RunState.RUNNING, -1, False),
        (RunState.COMPLETED, RunState.RUNNING, 0, False),
        (RunState.COMPLETED, RunState.RUNNING, 1, True),
        (RunState.COMPLETED, RunState.FAILED, 0, True),
        (RunState.CANCELLED, RunState.COMPLETED, -1, False),
    ],
)
def test_the_later_update_of_a_run_stands_and_an_end_wins_a_tie(
    kept: RunState, saved: RunState, saved_after_ms: int, wins: bool
) -> None:
    saved_at = (NOW + timedelta(milliseconds=saved_after_ms)).isoformat(
        timespec="milliseconds"
    )

    assert (
        supersedes(
            run("r1", state=saved, updated_at=saved_at),
            run("r1", state=kept, updated_at=AT),
        )
        is wins
    )


def item(state: PendingState = PendingState.OPEN, **changes: object) -> PendingItem:
    answer = (
        Answer(text="x", by="ann", at=AT) if state is PendingState.ANSWERED else None
    )
    return PendingItem(
        id="q-1",
        question=question("k1", **changes),
        state=state,
        opened_at=AT,
        answer=answer,
    )


@pytest.mark.parametrize("seconds", [-1, 0, 1])
def test_a_question_expires_after_its_deadline_not_at_it(seconds: int) -> None:
    asked = item(expires_at=(NOW - timedelta(seconds=seconds)).isoformat())

    assert questions.is_expired(asked, AT) is (seconds > 0)
    assert not questions.is_expired(item(), AT)


def test_decisions_leave_the_item_they_were_given_alone() -> None:
    before, untouched = item(), item()

    questions.answer(before, Answer(text="x"), AT)
    questions.withdraw(before, "why")
    questions.ask_again(before, question("k1", title="other"), AT)

    assert before == untouched


@pytest.mark.parametrize("state", [PendingState.ANSWERED, PendingState.WITHDRAWN])
def test_nothing_is_noted_when_nothing_changes(state: PendingState) -> None:
    closed = item(state)

    change = questions.withdraw(closed, "again")

    assert change.item is closed and change.event("e1", AT) is None


def test_the_answer_keeps_the_time_it_was_given_with() -> None:
    earlier = "2026-11-15T09:00:00.000Z"

    answered = questions.answer(item(), Answer(text="x", at=earlier), AT).item

    assert answered.answer == Answer(text="x", at=earlier)


def test_a_question_takes_one_answer_while_it_is_open_and_not_past_its_time() -> None:
    given = Answer(text="yes", by="bob")
    with pytest.raises(AlreadyAnswered, match="ann"):
        questions.answer(item(PendingState.ANSWERED), given, AT)
    with pytest.raises(UserError, match="was withdrawn"):
        questions.answer(item(PendingState.WITHDRAWN), given, AT)
    with pytest.raises(UserError, match="expired at"):
        questions.answer(
            item(expires_at=(NOW - timedelta(seconds=1)).isoformat()), given, AT
        )
    with pytest.raises(UserError, match="must be one of: yes, no"):
        questions.answer(item(choices=("yes", "no")), Answer(text="perhaps"), AT)
    change = questions.answer(item(choices=("yes", "no")), given, AT)
    assert (change.item.state, change.item.answer) == (
        PendingState.ANSWERED,
        Answer(text="yes", by="bob", at=AT),
    )
    assert (change.event_kind, change.facts) == (
        "pending.answered",
        {"status": "success", "by": "bob"},
    )


def test_times_of_other_zones_are_compared_as_times() -> None:
    later_as_text = "2026-11-15T12:15:03+02:00"  # one second after NOW
    assert not questions.is_expired(item(expires_at=later_as_text), AT)
    assert questions.is_expired(item(expires_at="2026-11-15T12:15:01+02:00"), AT)


def test_asking_again_changes_what_is_open_and_opens_what_was_withdrawn() -> None:
    later, other = "2026-11-16T00:00:00.000Z", question("k1", title="other")
    answered = item(PendingState.ANSWERED)
    assert questions.ask_again(answered, other, later) == Change(answered)
    assert questions.ask_again(item(), question("k1"), later) == Change(item())
    changed = questions.ask_again(item(), other, later)
    assert (changed.item.question, changed.item.opened_at) == (other, AT)
    assert changed.event_kind == "pending.opened" and changed.facts["again"] is True
    reopened = questions.ask_again(item(PendingState.WITHDRAWN), question("k1"), later)
    assert (reopened.item.state, reopened.item.opened_at) == (PendingState.OPEN, later)


def test_only_an_open_question_is_withdrawn() -> None:
    withdrawn = questions.withdraw(item(), "nobody waits")
    assert withdrawn.item.state is PendingState.WITHDRAWN
    assert (withdrawn.event_kind, withdrawn.facts) == (
        "pending.withdrawn",
        {"reason": "nobody waits"},
    )
    assert (
        questions.withdraw(item(PendingState.ANSWERED), "x").item.state
        is PendingState.ANSWERED
    )


@pytest.mark.parametrize(
    "text", ["q-0", "q-", "q-01", "1", "Q-1", "q-1 ", "q-" + "9" * 19]
)
def test_an_id_is_written_in_one_way(text: str) -> None:
    assert questions.item_number(questions.item_id(7)) == 7
    with pytest.raises(UnknownItem):
        questions.item_number(text)


@pytest.mark.parametrize(
    ("text", "number", "abbreviated"),
    [
        ("q-12", 12, False),
        ("Q-12", 12, False),
        ("-12", 12, False),
        ("12", 12, True),
        (" 012 ", 12, True),
    ],
)
def test_a_reference_is_a_number_or_the_end_of_one(
    text: str, number: int, abbreviated: bool
) -> None:
    reference = ItemReference.parse(text)

    assert (reference.number, reference.abbreviated) == (number, abbreviated)


@pytest.mark.parametrize(
    "text", ["", "q", "q-", "q-x", "--1", "1.5", "q-1q-1", "9" * 19, "１２"]
)
def test_what_is_no_reference_is_unknown(text: str) -> None:
    with pytest.raises(UnknownItem):
        ItemReference.parse(text)


def test_only_some_of_many_candidates_are_named() -> None:
    error = AmbiguousReference("0", [f"q-{n}0" for n in range(9, 0, -1)])

    assert str(error) == "'0' could mean q-90, q-80, q-70, q-60, q-50, …"
    assert len(error.candidates) == 9


def test_filters_admit_what_they_name_and_everything_when_they_name_nothing() -> None:
    sent = event("e1", project="/p", run_id="r1")

    assert ANY_EVENT.admits(sent)
    assert EventFilter(
        kinds=("rig.sent", "x"), parts=(Part.RIGS,), project="/p", run_id="r1"
    ).admits(sent)
    assert not EventFilter(project="").admits(sent)
    assert not EventFilter(run_id="r1").admits(event("e2"))
    assert RunFilter(states=(RunState.RUNNING,)).admits(run("r1"))
    assert not PendingFilter().admits(item(PendingState.ANSWERED))
    assert PendingFilter(
        states=(), kinds=(PendingKind.FLOW_REQUEST,), parts=(Part.FLOWS,)
    ).admits(item(PendingState.ANSWERED))
    assert not PendingFilter(kinds=(PendingKind.ENVELOPE,)).admits(item())


def test_filters_are_values() -> None:
    assert EventFilter(project="/p") == EventFilter(project="/p")
    with pytest.raises(AttributeError):
        EventFilter().project = "/p"  # type: ignore[misc]
