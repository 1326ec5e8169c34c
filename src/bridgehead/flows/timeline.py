"""The steps of a run in the order of their paths, with the time each took: what people look at. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bridgehead.flows.calls import Attempt, outstanding_calls
from bridgehead.flows.journals.base import Record
from bridgehead.flows.paths import parents_of

PART: Final = "part"
"""The kind of a step that has not ended and of which only what is inside has been recorded."""
WAITING: Final = "waiting"


class Step(NamedTuple):
    """One step, ask, phase or nested flow of a run."""

    path: str
    kind: str
    status: str
    """`completed`, `fallback`, `failed`; `pending` or `queued` for an open ask; `waiting` for what contains one."""
    started: str
    ended: str | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """Its own name, without the names it stands in and its number among equals."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def depth(self) -> int:
        return self.path.count("/")


def steps_of(records: Iterable[Record], attempts: Sequence[Attempt]) -> tuple[Step, ...]:
    """Every recorded step and every open ask, each before what it contains.

    A record knows when its last pass began. What contains other steps began with the first of them, an ask when it was
    first handed out, however often the run was resumed since.
    """
    asked = _first_asked(attempts)
    steps = {record.path: _recorded(record, asked.get(record.path)) for record in records}
    for path, call in outstanding_calls(attempts).items():
        steps[path] = Step(path, "ask", call.current.status.value, asked[path])
    for path, step in list(steps.items()):
        for parent in parents_of(path):
            steps[parent] = _containing(steps.get(parent), parent, step)
    places = _places(steps)
    return tuple(sorted(steps.values(), key=lambda step: places[step.path]))


def _first_asked(attempts: Iterable[Attempt]) -> dict[str, str]:
    asked: dict[str, str] = {}
    for attempt in attempts:
        asked.setdefault(attempt.path, str(attempt.document.get("created_at", "")))
    return asked


def _recorded(record: Record, asked: str | None) -> Step:
    error = None if record.error is None else ": ".join(str(part) for part in json.loads(record.error))
    return Step(record.path, record.kind, record.status, asked or record.started, record.ended, error)


def _containing(parent: Step | None, path: str, inside: Step) -> Step:
    if parent is None:
        parent = Step(path, PART, WAITING, inside.started)
    return parent._replace(started=min(parent.started, inside.started))


def _places(steps: Iterable[str]) -> dict[str, list[int]]:
    """Where each path stands: before what it contains; paths of one level as they were made."""
    earliest: dict[str, int] = {}
    for place, path in enumerate(steps):
        for parent in (*parents_of(path), path):
            earliest[parent] = min(place, earliest.get(parent, place))
    return {path: [earliest[parent] for parent in (*parents_of(path), path)] for path in earliest}
