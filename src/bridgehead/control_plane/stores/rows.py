"""Turn values into rows of the tables, and rows into values, for every store.

Everything is checked before a transaction begins. Structured values are JSON text: what
JSON cannot tell apart (a tuple and a list) comes back as JSON knows it.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import Part, PendingState, RunState
from bridgehead.control_plane.questions import item_id
from bridgehead.control_plane.records import Run, Unrecordable, moment_text, plain_text
from bridgehead.control_plane.stores.migrations import Row

MAX_JSON_BYTES: Final = 128 * 1024 * 1024

_data = msgspec.json.Decoder(dict[str, Any])
_question = msgspec.json.Decoder(Question)
_answer = msgspec.json.Decoder(Answer)


class UnreadableRow(Exception):
    """A row holds something that no known version of this program has written."""


# What decoding a row may raise.
UNREADABLE: Final = (
    ValueError,
    TypeError,
    msgspec.MsgspecError,
)


def row_sum(row: Sequence[str | None]) -> int:
    """Return the check sum of a row's columns.

    The number that the database gives a row is not part of it.
    """
    columns = ["\1" if column is None else column for column in row]
    return crc32("\0".join(columns).encode()) & 0x7FFFFFFF


def event_row(event: Event) -> Row:
    """Return the columns id, kind, part, at, project, run_id, data."""
    what = f"event {event.id!r}"
    if not event.id or not event.kind:
        raise Unrecordable(what, "its id and kind must not be empty")
    return (
        plain_text(event.id, what),
        plain_text(event.kind, what),
        Part(event.part).value,
        moment_text(event.at, what),
        plain_text(event.project, what),
        None if event.run_id is None else plain_text(event.run_id, what),
        _json(event.data, what),
    )


def recorded_event(row: Sequence[Any]) -> RecordedEvent:
    """Return the event of the columns seq, then those of `event_row`."""
    seq, event_id, kind, part, at, project, run_id, data = row
    try:
        facts = _data.decode(data)
        event = Event(
            id=event_id,
            kind=kind,
            part=Part(part),
            at=at,
            project=project,
            run_id=run_id,
            data=facts,
        )
    except UNREADABLE as error:
        raise UnreadableRow(f"event {seq}: {error}") from error
    return RecordedEvent(seq=seq, event=event)


def run_row(run: Run) -> Row:
    """Return the columns of a run, which are its fields in their order.

    They are id, part, kind, title, state, started_at, updated_at, project,
    ended_at, data.
    """
    what = f"run {run.id!r}"
    if not run.id:
        raise Unrecordable(what, "its id must not be empty")
    return (
        plain_text(run.id, what),
        Part(run.part).value,
        plain_text(run.kind, what),
        plain_text(run.title, what),
        RunState(run.state).value,
        moment_text(run.started_at, what),
        moment_text(run.updated_at, what),
        plain_text(run.project, what),
        None if run.ended_at is None else moment_text(run.ended_at, what),
        _json(run.data, what),
    )


def run_of(row: Sequence[Any]) -> Run:
    """Return the run of the columns of `run_row`."""
    try:
        columns = (*row[:-1], _data.decode(row[-1]))
        return msgspec.convert(
            dict(zip(Run.__struct_fields__, columns, strict=True)), Run
        )
    except UNREADABLE as error:
        raise UnreadableRow(f"run {row[0]}: {error}") from error


def checked_question(question: Question) -> Question:
    """Return `question` as the record will give it back, if it can be recorded."""
    what = f"question {question.key!r}"
    if not question.key or not question.title:
        raise Unrecordable(what, "its key and title must not be empty")
    for text in (question.key, question.project, question.run_id or ""):
        plain_text(text, what)
    if question.expires_at is not None:
        moment_text(question.expires_at, what)
    return _question.decode(_json(question, what))


def checked_answer(answer: Answer, full_id: str) -> Answer:
    """Return `answer` if it can be recorded."""
    what = f"the answer to {full_id}"
    if answer.at:
        moment_text(answer.at, what)
    return _answer.decode(_json(answer, what))


def item_row(item: PendingItem) -> Row:
    """Return the columns of an item without its number.

    They are part, project, key, kind, state, run_id, question, opened_at, answer.
    """
    question = item.question
    what = f"question {question.key!r}"
    return (
        Part(question.part).value,
        question.project,
        question.key,
        question.kind.value,
        item.state.value,
        question.run_id,
        _json(question, what),
        moment_text(item.opened_at, what),
        None if item.answer is None else _json(item.answer, what),
    )


def item_of(row: Sequence[Any]) -> PendingItem:
    """Return the item of the columns number, state, question, opened_at, answer."""
    number, state, question, opened_at, answer = row
    try:
        return PendingItem(
            id=item_id(number),
            question=_question.decode(question),
            state=PendingState(state),
            opened_at=opened_at,
            answer=None if answer is None else _answer.decode(answer),
        )
    except UNREADABLE as error:
        raise UnreadableRow(f"{item_id(number)}: {error}") from error


def _json(value: object, what: str) -> str:
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise Unrecordable(
            what, "it is not valid Unicode (half a surrogate pair)"
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Unrecordable(what, f"it cannot be written as JSON ({error})") from error
    if len(encoded) > MAX_JSON_BYTES:
        raise Unrecordable(
            what, f"it is larger than {MAX_JSON_BYTES // 1024 // 1024} MiB"
        )
    return encoded.decode()
