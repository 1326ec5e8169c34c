"""What every store of the record must do: memory, SQLite and Postgres run these same tests.

A test class derives from `StoreSuite` and provides the fixture `place`: a fresh record that can be opened again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Protocol

import msgspec
import pytest

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, Question
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
    RunState,
)
from bridgehead.control_plane.questions import AmbiguousReference, UnknownItem
from bridgehead.control_plane.records import (
    EventFilter,
    PendingFilter,
    QuestionKey,
    Run,
    RunFilter,
    Unrecordable,
)
from bridgehead.control_plane.stores.base import MAX_PAGE, Store
from bridgehead.control_plane.stores.failures import RecordClosed, RecordReadOnly
from bridgehead.errors import AlreadyAnswered, NotFound, UserError
from bridgehead.host.clock import ManualClock, iso_ms

AT = "2026-11-15T10:15:02.123Z"
LONE_SURROGATE = "\udcff"


class Place(Protocol):
    """Where a record is; opening it twice gives the same record."""

    clock: ManualClock

    def open(self, *, read_only: bool = False) -> Store: ...


def event(event_id: str, **changes: Any) -> Event:
    return Event(
        **{"id": event_id, "kind": "rig.sent", "part": Part.RIGS, "at": AT, **changes}
    )


def run(run_id: str, **changes: Any) -> Run:
    fields = {
        "id": run_id,
        "part": Part.COUNCIL,
        "kind": "review",
        "title": "review of src/",
        "state": RunState.RUNNING,
        "started_at": AT,
        "updated_at": AT,
    }
    return Run(**{**fields, **changes})


def question(key: str, **changes: Any) -> Question:
    fields = {
        "key": key,
        "kind": PendingKind.FLOW_REQUEST,
        "part": Part.FLOWS,
        "origin": "flow",
        "title": "Which one?",
    }
    return Question(**{**fields, **changes})


def ids(recorded: list[RecordedEvent]) -> list[str]:
    return [one.event.id for one in recorded]


def noted(store: Store, kind: str) -> list[dict[str, Any]]:
    """The data of every event of this kind, in order."""
    return [one.event.data for one in store.events(EventFilter(kinds=(kind,)))]


SENT = EventFilter(kinds=("rig.sent",))

UNRECORDABLE_EVENTS = {
    "empty id": {"id": ""},
    "empty kind": {"kind": ""},
    "NUL in the id": {"id": "a\0b"},
    "NUL in the project": {"project": "/a\0b"},
    "half a surrogate pair in the project": {"project": f"/{LONE_SURROGATE}"},
    "half a surrogate pair in the data": {"data": {"path": LONE_SURROGATE}},
    "an object in the data": {"data": {"value": object()}},
    "a time without an offset": {"at": "2026-11-15T10:15:02"},
    "no time": {"at": "yesterday"},
}


class EventSuite:
    def test_a_new_record_begins_with_the_note_of_its_creation(
        self, store: Store
    ) -> None:
        (first,) = store.events()

        assert (first.event.kind, first.event.part, first.seq) == (
            "record.created",
            Part.RECORD,
            store.last_seq(),
        )

    def test_events_come_back_as_they_were_appended_in_order(
        self, store: Store
    ) -> None:
        given = [
            event(f"e{n}", project="/p", run_id="r1", data={"n": n}) for n in range(5)
        ]

        recorded = store.append(given)

        assert [one.event for one in recorded] == given
        assert store.events(SENT) == recorded
        assert [one.seq for one in recorded] == sorted({one.seq for one in recorded})
        assert store.last_seq() == recorded[-1].seq

    def test_data_keeps_every_kind_of_json_value(self, store: Store) -> None:
        data = {
            "text": "grün 🎯 \0 \x1b",
            "big": 2**70,
            "list": [1, 2.5, None, True],
            "deep": {"": {"a": []}},
        }

        store.append([event("e1", data=data)])

        assert store.events(SENT)[0].event.data == data

    def test_the_same_id_twice_is_one_event_with_its_first_seq(
        self, store: Store
    ) -> None:
        (first,) = store.append([event("e1", data={"try": 1})])
        store.append([event("e2")])

        again = store.append([event("e3"), event("e1", data={"try": 2}), event("e3")])

        assert again[1] == first
        assert again[0] == again[2]
        assert ids(store.events(SENT)) == ["e1", "e2", "e3"]

    def test_appending_nothing_is_fine(self, store: Store) -> None:
        assert store.append([]) == []

    @pytest.mark.parametrize(
        "changes", UNRECORDABLE_EVENTS.values(), ids=UNRECORDABLE_EVENTS.keys()
    )
    def test_one_event_that_cannot_be_recorded_keeps_out_the_whole_batch(
        self, store: Store, changes: dict[str, Any]
    ) -> None:
        before = store.last_seq()

        with pytest.raises(Unrecordable):
            store.append([event("e1"), msgspec.structs.replace(event("e2"), **changes)])

        assert store.last_seq() == before

    def test_pages_join_without_gap_or_repetition_in_both_directions(
        self, store: Store
    ) -> None:
        seqs = [one.seq for one in store.append([event(f"e{n}") for n in range(10)])]

        forwards, after = [], 0
        while page := store.events(SENT, after=after, limit=3):
            forwards += [one.seq for one in page]
            after = page[-1].seq
        backwards: list[int] = []
        while page := store.events(
            SENT,
            before=backwards[-1] if backwards else None,
            limit=4,
            newest_first=True,
        ):
            backwards += [one.seq for one in page]

        assert forwards == seqs
        assert backwards == seqs[::-1]
        assert [one.seq for one in store.events(after=seqs[2], before=seqs[5])] == seqs[
            3:5
        ]

    def test_filters_limit_to_kinds_parts_project_and_run(self, store: Store) -> None:
        store.append(
            [
                event("a", kind="rig.sent", part=Part.RIGS, project="/p"),
                event(
                    "b", kind="flow.paused", part=Part.FLOWS, project="/p", run_id="r1"
                ),
                event(
                    "c", kind="flow.failed", part=Part.FLOWS, project="/q", run_id="r2"
                ),
                event("d", kind="flow.paused", part=Part.FLOWS, run_id="r1"),
            ]
        )

        assert ids(store.events(EventFilter(kinds=("flow.paused", "rig.sent")))) == [
            "a",
            "b",
            "d",
        ]
        assert ids(store.events(EventFilter(parts=(Part.FLOWS,), project="/p"))) == [
            "b"
        ]
        assert ids(store.events(EventFilter(run_id="r1"))) == ["b", "d"]
        assert ids(
            store.events(EventFilter(parts=(Part.FLOWS, Part.RIGS), project=""))
        ) == ["d"]
        assert ids(store.events(EventFilter(kinds=("no.such",)))) == []

    @pytest.mark.parametrize("limit", [0, -1, MAX_PAGE + 1])
    def test_a_page_of_impossible_length_is_refused(
        self, store: Store, limit: int
    ) -> None:
        for listing in (store.events, store.runs, store.pending):
            with pytest.raises(UserError, match="a page has"):
                listing(limit=limit)

    def test_bounds_beyond_any_seq_are_no_error(self, store: Store) -> None:
        store.append([event("e1")])

        assert store.events(after=2**80) == []
        assert ids(store.events(SENT, after=-(2**80), before=2**80)) == ["e1"]
        assert store.events(before=-5) == []

    @pytest.mark.parametrize(
        "text", ["a\0b", LONE_SURROGATE], ids=["NUL", "half a surrogate pair"]
    )
    def test_text_that_no_record_can_hold_is_refused_when_asked_for_too(
        self, store: Store, text: str
    ) -> None:
        for ask in (
            lambda: EventFilter(project=text),
            lambda: store.run(text),
            lambda: store.find_run(text),
            lambda: store.pending_item(QuestionKey(part=Part.FLOWS, key=text)),
        ):
            with pytest.raises(Unrecordable):
                ask()

    def test_following_yields_what_is_there_and_then_what_comes(
        self, store: Store
    ) -> None:
        store.append([event("e1"), event("e2")])
        stop = threading.Event()
        following = store.follow(0, stop=stop, where=SENT, poll_seconds=0.01)

        assert ids(list(islice(following, 2))) == ["e1", "e2"]
        store.append([event("x", kind="flow.failed"), event("e3")])
        assert ids(list(islice(following, 1))) == ["e3"]

        stop.set()
        assert list(following) == []

    def test_following_starts_after_the_given_seq(self, store: Store) -> None:
        first, _ = store.append([event("e1"), event("e2")])
        following = store.follow(first.seq, stop=threading.Event(), poll_seconds=0.01)

        assert next(following).event.id == "e2"
        following.close()  # type: ignore[attr-defined]

    def test_a_follower_misses_nothing_while_several_threads_append(
        self, place: Place
    ) -> None:
        store, stop = place.open(), threading.Event()
        with ThreadPoolExecutor(4) as threads:
            following = store.follow(0, stop=stop, where=SENT, poll_seconds=0.01)
            for writer in range(4):
                threads.submit(_append_singly, place.open, writer, 25)
            seen = list(islice(following, 100))
        stop.set()

        assert seen == store.events(SENT)
        for writer in range(4):
            assert [i for i in ids(seen) if i.startswith(f"{writer}-")] == [
                f"{writer}-{n}" for n in range(25)
            ]


class EventSearchSuite:
    @pytest.mark.parametrize(
        ("limits", "found"),
        [
            ({"text": "REFUSED"}, ["e2"]),
            ({"text": "50%"}, ["e1"]),
            ({"text": "5_%"}, []),
            ({"text": "rig."}, ["e1", "e2", "e3"]),
            ({"text": "/home/ann"}, ["e3"]),
            ({"text": "GRÜN"}, ["e3"]),
            ({"since": "2026-11-15T00:00:00.000Z"}, ["e2", "e3"]),
            ({"until": "2026-11-15T00:00:00.000Z"}, ["e1"]),
            (
                {
                    "since": "2026-11-15T00:00:00.000Z",
                    "until": "2026-11-16T00:00:00.000Z",
                    "text": "refused",
                },
                ["e2"],
            ),
        ],
    )
    def test_events_are_found_by_time_and_text(
        self, store: Store, limits: Any, found: list[str]
    ) -> None:
        store.append(
            [
                event("e1", at="2026-11-14T10:00:00.000Z", data={"note": "50% done"}),
                event("e2", at="2026-11-15T10:00:00.000Z", data={"note": "Refused"}),
                event(
                    "e3",
                    at="2026-11-16T10:00:00.000Z",
                    project="/home/ann",
                    data={"note": "GRÜN"},
                ),
            ]
        )

        assert ids(store.events(EventFilter(parts=(Part.RIGS,), **limits))) == found


class RunSuite:
    def test_a_run_comes_back_as_it_was_saved(self, store: Store) -> None:
        saved = run("r1", project="/p", ended_at=AT, data={"seats": ["claude"]})

        assert store.save_run(saved) == saved
        assert store.run("r1") == saved
        assert store.run("r2") is None

    def test_a_later_state_replaces_and_an_earlier_one_does_not(
        self, store: Store
    ) -> None:
        store.save_run(
            run("r1", updated_at="2026-11-15T10:00:02.000Z", state=RunState.WAITING)
        )

        late = store.save_run(
            run("r1", updated_at="2026-11-15T10:00:01.000Z", state=RunState.COMPLETED)
        )
        assert late.state is RunState.WAITING

        store.save_run(
            run("r1", updated_at="2026-11-15T10:00:03.000Z", state=RunState.COMPLETED)
        )
        store.save_run(
            run("r1", updated_at="2026-11-15T10:00:02.900Z", state=RunState.RUNNING)
        )
        kept = store.run("r1")
        assert kept is not None and kept.state is RunState.COMPLETED

    def test_times_are_compared_as_times_not_as_text(self, store: Store) -> None:
        store.save_run(run("r1", updated_at="2026-11-15T10:00:02.500Z"))

        assert (
            store.save_run(
                run("r1", updated_at="2026-11-15T10:00:02Z", title="older")
            ).title
            != "older"
        )
        assert (
            store.save_run(
                run("r1", updated_at="2026-11-15T11:00:03+01:00", title="newer")
            ).title
            == "newer"
        )

    def test_events_of_a_save_are_recorded_with_it_also_when_it_came_late(
        self, store: Store
    ) -> None:
        store.save_run(
            run("r1", updated_at="2026-11-15T10:00:02.000Z"), events=[event("e1")]
        )
        store.save_run(
            run("r1", updated_at="2026-11-15T10:00:01.000Z"), events=[event("e2")]
        )

        assert ids(store.events(SENT)) == ["e1", "e2"]

    def test_a_run_whose_event_cannot_be_recorded_is_not_saved_either(
        self, store: Store
    ) -> None:
        with pytest.raises(Unrecordable):
            store.save_run(run("r1"), events=[event("")])

        assert store.run("r1") is None

    @pytest.mark.parametrize(
        "changes",
        [
            {"id": ""},
            {"title": "a\0"},
            {"updated_at": "now"},
            {"ended_at": ""},
            {"data": {"x": object()}},
        ],
    )
    def test_a_run_that_cannot_be_recorded_is_refused(
        self, store: Store, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(Unrecordable):
            store.save_run(msgspec.structs.replace(run("r1"), **changes))

        assert store.runs() == []

    def test_runs_are_listed_latest_start_first_and_paged_by_the_last_seen(
        self, store: Store
    ) -> None:
        for n, minute in enumerate([3, 1, 2, 2, 5]):
            store.save_run(run(f"r{n}", started_at=f"2026-11-15T10:0{minute}:00.000Z"))

        pages, before = [], None
        while page := store.runs(limit=2, before=before):
            pages.append([one.id for one in page])
            before = page[-1].id

        assert pages == [["r4", "r0"], ["r3", "r2"], ["r1"]]
        with pytest.raises(NotFound):
            store.runs(before="r9")

    def test_run_filters_limit_to_parts_kinds_states_and_project(
        self, store: Store
    ) -> None:
        store.save_run(run("a", project="/p"))
        store.save_run(run("b", kind="audit", state=RunState.FAILED, project="/p"))
        store.save_run(run("c", part=Part.FLOWS, kind="template-create"))

        def listed(where: RunFilter) -> set[str]:
            return {one.id for one in store.runs(where)}

        assert listed(RunFilter(states=(RunState.RUNNING,))) == {"a", "c"}
        assert listed(RunFilter(project="/p", kinds=("audit",))) == {"b"}
        assert listed(RunFilter(parts=(Part.FLOWS,))) == {"c"}

    def test_a_run_is_found_by_its_id_or_an_unambiguous_beginning_or_ending(
        self, store: Store
    ) -> None:
        for run_id in (
            "council-20261115-101502",
            "council-20261115-101503",
            "flow-20261115-101502",
            "k3x9q2",
        ):
            store.save_run(run(run_id))

        assert store.find_run("k3x").id == "k3x9q2"
        assert store.find_run("101503").id == "council-20261115-101503"
        assert store.find_run("flow").id == "flow-20261115-101502"
        assert store.find_run("council-20261115-101502").id == "council-20261115-101502"
        with pytest.raises(AmbiguousReference) as ambiguous:
            store.find_run("101502")
        assert set(ambiguous.value.candidates) == {
            "council-20261115-101502",
            "flow-20261115-101502",
        }
        for absent in (
            "",
            "zzz",
            "%",
            "a longer reference than any id in this record is",
        ):
            with pytest.raises(NotFound):
                store.find_run(absent)


class PendingSuite:
    def test_a_question_becomes_an_open_item_with_a_number(
        self, store: Store, place: Place
    ) -> None:
        asked = question(
            "k1",
            project="/p",
            run_id="r1",
            schema={"type": "object"},
            context={"phase": 1},
        )

        item = store.open_pending(asked)

        assert (item.id, item.question, item.state, item.answer) == (
            "q-1",
            asked,
            PendingState.OPEN,
            None,
        )
        assert item.opened_at == iso_ms(place.clock.now())
        assert store.open_pending(question("k2"), AT).id == "q-2"
        assert (
            store.pending_item("q-1")
            == item
            == store.pending_item(QuestionKey.of(asked))
        )
        (opened, _) = store.events(EventFilter(kinds=("pending.opened",)))
        assert (opened.event.part, opened.event.project, opened.event.run_id) == (
            Part.FLOWS,
            "/p",
            "r1",
        )
        assert opened.event.data == {
            "id": "q-1", "kind": "flow_request", "origin": "flow", "title": "Which one?"
        }  # fmt: skip

    def test_the_same_key_is_the_same_question_per_part_and_project(
        self, store: Store
    ) -> None:
        first = store.open_pending(question("k1"))

        assert store.open_pending(question("k1")) == first
        assert store.open_pending(question("k1", project="/p")).id == "q-2"
        assert store.open_pending(question("k1", part=Part.COUNCIL)).id == "q-3"
        assert len(noted(store, "pending.opened")) == 3

    def test_an_open_question_takes_the_newest_wording_and_keeps_its_place(
        self, store: Store
    ) -> None:
        first = store.open_pending(question("k1"), "2026-11-15T10:00:00.000Z")

        again = store.open_pending(
            question("k1", title="Now which?"), "2026-11-15T11:00:00.000Z"
        )

        assert (again.id, again.opened_at, again.question.title) == (
            first.id,
            first.opened_at,
            "Now which?",
        )
        assert noted(store, "pending.opened")[1]["again"] is True

    def test_an_answered_question_stays_answered_when_asked_again(
        self, store: Store
    ) -> None:
        item = store.open_pending(question("k1"))
        answered = store.answer_pending(
            item.id, Answer(text="this one", by="ann", at=AT)
        )

        assert store.open_pending(question("k1", title="Now which?")) == answered

    def test_a_withdrawn_question_is_open_again_when_asked_again(
        self, store: Store
    ) -> None:
        item = store.open_pending(question("k1"))
        store.withdraw_pending(item.id, reason="cancelled")

        again = store.open_pending(question("k1"), "2026-11-15T11:00:00.000Z")

        assert (again.id, again.state, again.opened_at) == (
            item.id,
            PendingState.OPEN,
            "2026-11-15T11:00:00.000Z",
        )

    @pytest.mark.parametrize(
        "changes",
        [
            {"key": ""},
            {"title": ""},
            {"key": "a\0b"},
            {"project": LONE_SURROGATE},
            {"prompt": LONE_SURROGATE},
            {"expires_at": "soon"},
            {"context": {"x": object()}},
        ],
    )
    def test_a_question_that_cannot_be_recorded_is_refused(
        self, store: Store, changes: dict[str, Any]
    ) -> None:
        before = store.last_seq()

        with pytest.raises(Unrecordable):
            store.open_pending(msgspec.structs.replace(question("k1"), **changes))
        with pytest.raises(Unrecordable):
            store.open_pending(question("k1"), "yesterday")

        assert (store.pending(), store.last_seq()) == ([], before)

    def test_an_answer_is_taken_once_and_noted_without_its_text(
        self, store: Store, place: Place
    ) -> None:
        item = store.open_pending(question("k1"))

        answered = store.answer_pending(item.id, Answer(text="this one", by="ann"))

        expected = Answer(text="this one", by="ann", at=iso_ms(place.clock.now()))
        assert (answered.state, answered.answer) == (PendingState.ANSWERED, expected)
        assert store.pending_item(item.id) == answered
        assert noted(store, "pending.answered") == [
            {"id": item.id, "status": "success", "by": "ann"}
        ]
        with pytest.raises(AlreadyAnswered, match="by ann"):
            store.answer_pending(item.id, Answer(text="that one", by="bob"))
        assert store.pending_item(item.id) == answered
        assert len(noted(store, "pending.answered")) == 1

    def test_an_answer_may_say_why_there_is_none(self, store: Store) -> None:
        item = store.open_pending(question("k1", choices=("yes", "no")))

        given = Answer(status=AnswerStatus.CANCELLED, message="not needed", at=AT)

        assert store.answer_pending(item.id, given).answer == given

    @pytest.mark.parametrize(
        ("answer", "complaint"),
        [
            (Answer(text="maybe"), "must be one of: yes, no"),
            (Answer(text="  "), "empty"),
            (Answer(), "empty"),
            (Answer(status=AnswerStatus.ERROR), "needs a message"),
        ],
    )
    def test_an_answer_that_does_not_fit_leaves_the_question_open(
        self, store: Store, answer: Answer, complaint: str
    ) -> None:
        item = store.open_pending(question("k1", choices=("yes", "no")))

        with pytest.raises(UserError, match=complaint):
            store.answer_pending(item.id, answer)

        assert store.pending() == [item]

    @pytest.mark.parametrize(
        "answer",
        [Answer(text=LONE_SURROGATE), Answer(text="yes", at="now")],
        ids=["not Unicode", "no time"],
    )
    def test_an_answer_that_cannot_be_recorded_leaves_the_question_open(
        self, store: Store, answer: Answer
    ) -> None:
        item = store.open_pending(question("k1"))

        with pytest.raises(Unrecordable):
            store.answer_pending(item.id, answer)

        assert store.pending() == [item]

    def test_an_expired_question_takes_no_answer_until_it_is_asked_with_more_time(
        self, store: Store, place: Place
    ) -> None:
        deadline = iso_ms(place.clock.now())
        item = store.open_pending(question("k1", expires_at=deadline))
        place.clock.advance(0.001)

        with pytest.raises(UserError, match=r"q-1 expired at 2026"):
            store.answer_pending(item.id, Answer(text="late"))

        store.open_pending(question("k1", expires_at=iso_ms(place.clock.now())))
        assert (
            store.answer_pending(item.id, Answer(text="at the last moment")).state
            is PendingState.ANSWERED
        )

    @pytest.mark.parametrize(
        "unknown", ["q-9", "q-0", "q-", "9", "", "q-1 ", "q-99999999999999999999"]
    )
    def test_an_unknown_item_is_not_found(self, store: Store, unknown: str) -> None:
        uses: list[Callable[[], object]] = [
            lambda: store.pending_item(unknown),
            lambda: store.answer_pending(unknown, Answer(text="x")),
            lambda: store.withdraw_pending(unknown, reason="x"),
            lambda: store.pending_item(QuestionKey(part=Part.BUS, key=unknown)),
        ]
        for use in uses:
            with pytest.raises(UnknownItem):
                use()

    def test_a_question_is_withdrawn_by_id_or_by_key_with_its_reason(
        self, store: Store
    ) -> None:
        by_id, by_key = (
            store.open_pending(question("k1")),
            store.open_pending(question("k2")),
        )

        first = store.withdraw_pending(by_id.id, reason="flow cancelled")
        second = store.withdraw_pending(
            QuestionKey.of(by_key.question), reason="codex answered"
        )

        assert first.state is second.state is PendingState.WITHDRAWN
        assert store.pending() == []
        assert [data["reason"] for data in noted(store, "pending.withdrawn")] == [
            "flow cancelled",
            "codex answered",
        ]
        with pytest.raises(UserError, match="was withdrawn"):
            store.answer_pending(by_id.id, Answer(text="x"))

    def test_withdrawing_what_is_closed_changes_nothing(self, store: Store) -> None:
        item = store.open_pending(question("k1"))
        answered = store.answer_pending(item.id, Answer(text="x", at=AT))
        before = store.last_seq()

        assert store.withdraw_pending(item.id, reason="too late") == answered
        assert store.last_seq() == before

    def test_pending_is_listed_newest_first_filtered_and_paged(
        self, store: Store
    ) -> None:
        store.open_pending(question("k1", project="/p"))
        store.open_pending(
            question(
                "k2", part=Part.COUNCIL, kind=PendingKind.HALTED_RUNTIME, project="/p"
            )
        )
        store.open_pending(question("k3", run_id="r1"))
        store.answer_pending("q-3", Answer(text="x"))
        store.open_pending(question("k4"))
        store.withdraw_pending("q-4", reason="x")

        def listed(where: PendingFilter, **page: Any) -> list[str]:
            return [item.id for item in store.pending(where, **page)]

        everything = PendingFilter(states=())
        assert [item.id for item in store.pending()] == ["q-2", "q-1"]
        assert listed(everything) == ["q-4", "q-3", "q-2", "q-1"]
        assert listed(everything, limit=2, before="q-4") == ["q-3", "q-2"]
        assert listed(PendingFilter(kinds=(PendingKind.HALTED_RUNTIME,))) == ["q-2"]
        assert listed(PendingFilter(parts=(Part.FLOWS,), project="/p")) == ["q-1"]
        assert listed(PendingFilter(states=(PendingState.ANSWERED,), run_id="r1")) == [
            "q-3"
        ]

    def test_a_person_may_leave_out_what_is_clear(self, store: Store) -> None:
        for n in range(1, 13):
            store.open_pending(question(f"k{n}"))

        assert store.find_pending("q-12").id == "q-12"
        assert store.find_pending("12").id == store.find_pending(" Q-12 ").id == "q-12"
        assert (
            store.find_pending("2").id == "q-2"
        )  # its own number, though 12 ends in 2 too
        assert store.find_pending("02").id == "q-2"
        for unknown in ("13", "q-13", "", "twelve", "1;2"):
            with pytest.raises(UnknownItem):
                store.find_pending(unknown)

    def test_an_ending_several_items_share_is_ambiguous(self, store: Store) -> None:
        for n in range(1, 21):
            store.open_pending(question(f"k{n}"))

        with pytest.raises(AmbiguousReference, match="'0' could mean q-20, q-10"):
            store.find_pending("0")
        assert store.find_pending("20").id == "q-20"

    def test_exactly_one_of_several_threads_gets_its_answer_in(
        self, place: Place
    ) -> None:
        item = place.open().open_pending(question("k1"))

        def try_answering(who: int) -> bool:
            try:
                place.open().answer_pending(item.id, Answer(text="mine", by=str(who)))
            except AlreadyAnswered:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            taken = [
                who
                for who, won in enumerate(threads.map(try_answering, range(8)))
                if won
            ]

        kept = place.open().pending_item(item.id).answer
        assert kept is not None and [kept.by] == [str(who) for who in taken]


class LifeSuite:
    def test_a_store_opened_for_reading_writes_nothing(self, place: Place) -> None:
        place.open().open_pending(question("k1"))
        reader = place.open(read_only=True)
        before = (reader.events(), reader.pending())

        for write in (
            lambda: reader.append([event("e1")]),
            lambda: reader.save_run(run("r1")),
            lambda: reader.open_pending(question("k2")),
            lambda: reader.answer_pending("q-1", Answer(text="x")),
            lambda: reader.withdraw_pending("q-1", reason="x"),
        ):
            with pytest.raises(RecordReadOnly, match="opened for reading"):
                write()

        assert (reader.events(), reader.pending()) == before

    def test_a_reader_keeps_up_with_a_writer(self, place: Place) -> None:
        writer, stop = place.open(), threading.Event()
        reader = writer if writer.where == "memory:" else place.open(read_only=True)
        following = reader.follow(writer.last_seq(), stop=stop, poll_seconds=0.01)

        for n in range(3):
            writer.append([event(f"e{n}")])
            assert next(following).event.id == f"e{n}"
        stop.set()

        assert list(following) == []

    def test_a_closed_store_says_so(self, place: Place) -> None:
        with place.open() as store:
            store.append([event("e1")])
        store.close()

        for use in (store.last_seq, store.pending, lambda: store.append([event("e2")])):
            with pytest.raises(RecordClosed):
                use()


OLD = "2026-01-01T00:00:00.000Z"
BEFORE = "2026-06-01T00:00:00.000Z"


def ended_run(run_id: str, **changes: Any) -> Run:
    return run(
        run_id,
        **{
            "state": RunState.COMPLETED,
            "started_at": OLD,
            "updated_at": OLD,
            **changes,
        },
    )


def of_run(run_id: str, **changes: Any) -> Event:
    return event(
        f"of {run_id}",
        **{
            "kind": "council.event",
            "part": Part.COUNCIL,
            "run_id": run_id,
            "at": OLD,
            **changes,
        },
    )


class PruneSuite:
    """What is deleted, and what never is. The clock stands in November, what is old is of January."""

    def test_what_ended_long_ago_goes_and_what_is_recent_stays(
        self, store: Store
    ) -> None:
        store.append(
            [
                event("old", kind="doctor.checked", part=Part.RECORD, at=OLD),
                event("new", kind="doctor.checked"),
            ]
        )
        store.save_run(ended_run("old"), events=[of_run("old")])
        store.save_run(
            ended_run("new", started_at=AT, updated_at=AT),
            events=[of_run("new", at=AT)],
        )
        newest = store.last_seq()

        would = store.prune(BEFORE, dry_run=True)
        assert (would, store.last_seq()) == (
            {"runs": 1, "pending": 0, "events": 2},
            newest,
        )
        assert store.prune(BEFORE) == would

        assert [one.id for one in store.runs()] == ["new"]
        assert [
            one.event.id
            for one in store.events()
            if not one.event.kind.startswith("record.")
        ] == ["new", "of new"]
        assert noted(store, "record.pruned") == [{"before": BEFORE, **would}]
        assert [one.kind for one in (store.events()[0].event,)] == ["record.created"]
        assert store.prune(BEFORE) == {"runs": 0, "pending": 0, "events": 0}
        assert len(noted(store, "record.pruned")) == 1

    @pytest.mark.parametrize("state", [RunState.RUNNING, RunState.WAITING])
    def test_a_run_that_has_not_ended_stays_with_its_events(
        self, store: Store, state: RunState
    ) -> None:
        store.save_run(ended_run("old", state=state), events=[of_run("old")])
        store.save_run(ended_run("latest", started_at=AT, updated_at=AT))

        assert not any(store.prune(AT).values())

    @pytest.mark.parametrize("prefix", ["", "council-"])
    def test_an_open_item_stays_with_its_run_and_their_events(
        self, store: Store, prefix: str
    ) -> None:
        store.save_run(ended_run("old"), events=[of_run("old")])
        store.save_run(ended_run("latest", started_at=AT, updated_at=AT))
        store.open_pending(question("k1", run_id=f"{prefix}old"), OLD)
        for key in ("k2", "k3"):
            store.open_pending(question(key), OLD)

        assert not any(store.prune(AT).values())
        assert [item.question.key for item in store.pending()] == ["k3", "k2", "k1"]
        assert len(noted(store, "pending.opened")) == 3

    @pytest.mark.parametrize("prefix", ["", "council-"])
    def test_an_answer_nobody_may_have_read_keeps_item_and_run(
        self, store: Store, prefix: str
    ) -> None:
        store.save_run(ended_run("old"), events=[of_run("old")])
        store.save_run(ended_run("latest", started_at=AT, updated_at=AT))
        items = [
            store.open_pending(question(key, run_id=of), OLD)
            for key, of in (("k1", f"{prefix}old"), ("k2", None))
        ]
        for item in items:
            store.answer_pending(item.id, Answer(text="yes"))  # just now, by the clock
        store.open_pending(question("k3"))

        store.prune(BEFORE)

        assert store.run("old") is not None
        assert [store.pending_item(item.id).state for item in items] == [
            PendingState.ANSWERED
        ] * 2

    def test_closed_items_go_and_their_numbers_are_not_given_out_again(
        self, store: Store
    ) -> None:
        for key in ("k1", "k2"):
            store.withdraw_pending(
                store.open_pending(question(key), OLD).id, reason="gone"
            )

        store.prune(BEFORE)

        assert [item.id for item in store.pending(PendingFilter(states=()))] == ["q-2"]
        assert store.open_pending(question("k3")).id == "q-3"

    def test_the_latest_run_of_a_project_and_the_last_event_of_a_clone_stay(
        self, store: Store
    ) -> None:
        for project in ("/a", "/b"):
            store.save_run(ended_run(f"1{project}", project=project))
            store.save_run(ended_run(f"2{project}", project=project, started_at=BEFORE))
            store.append(
                [
                    event(f"{name}{project}", project=project, at=OLD)
                    for name in ("first", "last")
                ]
            )

        store.prune(AT)

        assert sorted(one.id for one in store.runs()) == ["2/a", "2/b"]
        assert ids(store.events(SENT)) == ["last/a", "last/b"]

    def test_numbers_go_on_and_followers_see_what_comes(self, store: Store) -> None:
        store.append(
            [
                event(f"e{n}", kind="doctor.checked", part=Part.RECORD, at=OLD)
                for n in range(5)
            ]
        )
        newest = store.last_seq()

        store.prune(BEFORE)
        store.compact()

        (added,) = store.append([event("added")])
        assert added.seq > newest
        assert ids(store.events(after=newest))[-1:] == ["added"]


class StoreSuite(
    EventSuite, EventSearchSuite, RunSuite, PendingSuite, LifeSuite, PruneSuite
):
    """Everything a store owes."""


def _append_singly(opened: Callable[[], Store], writer: int, count: int) -> None:
    store = opened()
    for n in range(count):
        store.append([event(f"{writer}-{n}")])
