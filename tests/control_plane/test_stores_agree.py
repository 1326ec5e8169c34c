"""Whatever is done in whatever order, the stores answer alike: plain lists are the model, SQLite is checked."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
    RunState,
)
from bridgehead.control_plane.records import (
    EventFilter,
    PendingFilter,
    QuestionKey,
    RunFilter,
)
from bridgehead.control_plane.stores.base import MAX_PAGE, Store
from bridgehead.control_plane.stores.sqlite import SqliteStore
from bridgehead.errors import UserError
from bridgehead.host.clock import ManualClock
from control_plane.model_store import ModelStore
from control_plane.store_suite import event, question, run

FAST_FOLDER = (
    "/dev/shm" if Path("/dev/shm").is_dir() else None
)  # hundreds of records are made

texts = st.text(max_size=8)
names = st.sampled_from(["a", "b", "ab", "q-1", "grün", "x\0y", "\udcff", ""])
projects = st.sampled_from(["", "/p", "/q"])
parts = st.sampled_from(list(Part))
moments = st.integers(0, 59).map(lambda second: f"2026-11-15T10:15:{second:02d}.000Z")
item_ids = st.integers(0, 6).map(lambda number: f"q-{number}")
documents = st.dictionaries(
    texts, st.none() | st.booleans() | st.integers() | st.floats() | texts, max_size=3
)

events = st.builds(
    event,
    names,
    kind=st.sampled_from(["rig.sent", "flow.paused"]),
    part=parts,
    at=moments,
    project=projects,
    run_id=st.none() | names,
    data=documents,
)
runs = st.builds(
    run,
    names,
    part=parts,
    kind=names,
    state=st.sampled_from(list(RunState)),
    started_at=moments,
    updated_at=moments,
    project=projects,
    data=documents,
)
asked = st.builds(
    question,
    names,
    part=parts,
    kind=st.sampled_from(list(PendingKind)),
    title=texts,
    project=projects,
    choices=st.sampled_from([(), ("yes", "no")]),
    expires_at=st.none() | moments,
    context=documents,
)
answers = st.builds(
    Answer,
    status=st.sampled_from(list(AnswerStatus)),
    text=st.none() | st.just("yes") | texts,
    message=st.none() | texts,
    by=texts,
)
event_filters = st.builds(
    EventFilter,
    kinds=st.sampled_from([(), ("rig.sent",)]),
    parts=st.tuples() | st.tuples(parts),
    project=projects,
    since=st.none() | moments,
    until=st.none() | moments,
    text=st.sampled_from(["", "RIG", "%", "_", "\\", '"', "grün"]),
)
bounds = st.integers(-1, 30)
limits = st.integers(0, 5)


def operation(
    name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> Any:
    """A call of the store's method of this name: the name, arguments and options."""
    return st.tuples(
        st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options)
    )


operations = st.one_of(
    operation("append", st.lists(events, max_size=3)),
    operation(
        "events",
        event_filters,
        after=bounds,
        before=st.none() | bounds,
        limit=limits,
        newest_first=st.booleans(),
    ),
    operation("save_run", runs, events=st.lists(events, max_size=2)),
    operation("run", names),
    operation(
        "runs",
        st.builds(
            RunFilter,
            states=st.just(()) | st.tuples(st.sampled_from(list(RunState))),
            project=projects,
        ),
        limit=limits,
        before=st.none() | names,
    ),
    operation("find_run", names),
    operation("open_pending", asked, st.none() | moments),
    operation("answer_pending", item_ids, answers),
    operation("withdraw_pending", item_ids, reason=texts),
    operation("pending_item", item_ids),
    operation(
        "find_pending", names | item_ids | st.sampled_from(["1", "2", "0", "01"])
    ),
    operation(
        "pending",
        st.builds(PendingFilter, states=st.just(()), project=st.none() | projects),
        limit=limits,
    ),
    operation("last_seq"),
    operation("prune", moments, dry_run=st.booleans()),
)


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def outcome(store: Store, call: Call) -> object:
    """What a call returned, or what it refused with; events by rank, because a seq may skip numbers."""
    name, arguments, options = call
    if name == "events":
        seqs = [one.seq for one in store.events(limit=MAX_PAGE)]
        options = {
            **options,
            **{bound: _seq_at(seqs, options[bound]) for bound in ("after", "before")},
        }
    try:
        returned = getattr(store, name)(*arguments, **options)
    except UserError as error:
        return type(error), str(error).replace(store.where, "the record")
    return (
        ranked(store, returned)
        if name in ("append", "events", "last_seq")
        else returned
    )


def ranked(store: Store, returned: Any) -> object:
    ranks = {one.seq: rank for rank, one in enumerate(store.events(limit=MAX_PAGE))}
    if isinstance(returned, int):
        return ranks[returned]
    return [(ranks[one.seq], one.event) for one in returned]


def _seq_at(seqs: list[int], rank: int | None) -> int | None:
    """The seq of the event with this rank; a rank nobody has is a bound beyond them all."""
    if rank is None:
        return None
    return seqs[rank] if 0 <= rank < len(seqs) else rank * 1000


def contents(store: Store) -> object:
    everything = PendingFilter(states=())
    return (
        ranked(store, store.events(limit=MAX_PAGE)),
        store.runs(limit=MAX_PAGE),
        store.pending(everything, limit=MAX_PAGE),
    )


def numbered() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"id-{next(numbers)}"


@settings(deadline=None)
@given(st.lists(operations, max_size=25), st.lists(st.integers(0, 20), max_size=5))
def test_property_model_and_sqlite_answer_every_sequence_of_calls_alike(
    calls: list[Call], pauses: list[int]
) -> None:
    with tempfile.TemporaryDirectory(dir=FAST_FOLDER) as folder:
        path, clocks = Path(folder) / "record.db", (ManualClock(), ManualClock())
        model = ModelStore(clock=clocks[0], new_id=numbered())
        with SqliteStore(path, clock=clocks[1], new_id=numbered()) as store:
            for turn, call in enumerate(calls):
                for clock in clocks:
                    clock.advance(pauses[turn] if turn < len(pauses) else 0)
                assert outcome(store, call) == outcome(model, call)
            assert contents(store) == contents(model)
        with SqliteStore(path, read_only=True) as again:
            assert contents(again) == contents(model)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(["ask", "answer", "withdraw"])
        ),
        max_size=30,
    )
)
def test_property_an_answer_once_taken_is_never_lost_or_replaced(
    steps: list[tuple[str, str]],
) -> None:
    store = ModelStore(clock=ManualClock())
    first: dict[str, Answer | None] = {}
    for turn, (key, step) in enumerate(steps):
        which = QuestionKey(part=Part.FLOWS, key=key)
        try:
            if step == "ask":
                store.open_pending(question(key, title=f"turn {turn}"))
            elif step == "answer":
                answered = store.answer_pending(
                    store.pending_item(which).id, Answer(text=f"turn {turn}")
                )
                assert first.setdefault(key, answered.answer) == answered.answer
            else:
                store.withdraw_pending(which, reason=f"turn {turn}")
        except UserError:
            continue
    for key, answer in first.items():
        kept = store.pending_item(QuestionKey(part=Part.FLOWS, key=key))
        assert (kept.state, kept.answer) == (PendingState.ANSWERED, answer)
