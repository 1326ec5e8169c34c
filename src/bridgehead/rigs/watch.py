"""What changed between two looks at a bridge, as numbered events for `--watch` (rigs §12).

A Watch is fed with what was seen and the time; it returns the objects to print, one per line, and does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from bridgehead.rigs.causality import Divergence
from bridgehead.rigs.freeze import Freeze
from bridgehead.rigs.inbox_view import Notice
from bridgehead.rigs.result_format import SCHEMA_VERSION
from bridgehead.rigs.timestamps import iso_timestamp

HEARTBEAT_MS = 30_000

Event: TypeAlias = dict[str, object]


class Look(NamedTuple):
    """A bridge as it stood at one moment."""

    envelopes: Mapping[str, Notice]  # by path
    closed: frozenset[str]  # thread ids
    divergences: Mapping[str, Divergence]  # by thread id
    freezes: Mapping[str, Freeze]  # by thread id


_NOTHING = Look({}, frozenset(), {}, {})


class Watch:
    """One run of `--watch`: remembers what it has announced, numbers what it says."""

    def __init__(self, op: str, *, heartbeat: bool = True) -> None:
        self._op = op
        self._heartbeat = heartbeat
        self._sequence = 0
        self._last_ms = 0
        self._seen = _NOTHING
        self._announced: set[tuple[str, str]] = set()

    def begin(self, look: Look, one_shot: Mapping[str, object], now_ms: int) -> Event:
        """Return the first event: what the command prints without `--watch`."""
        self._announced.update(_once_only(look))
        self._seen = look
        return self._event("snapshot", now_ms, one_shot)

    def look(self, look: Look, now_ms: int) -> list[Event]:
        """Return what is new, or a heartbeat when nothing has been said for long."""
        events = [self._event(name, now_ms, fields) for name, fields in self._news(look)]
        self._seen = look
        if not events and self._heartbeat and now_ms - self._last_ms >= HEARTBEAT_MS:
            events.append(self._event("heartbeat", now_ms, {}))
        return events

    def pulled(self, fields: Mapping[str, object], now_ms: int) -> Event:
        """Return the event for envelopes that were taken in."""
        return self._event("pulled", now_ms, fields)

    def error(self, category: str, message: str, now_ms: int) -> Event:
        """Return the event for a failure that does not end the watch."""
        return self._event("error", now_ms, {"category": category, "message": message})

    def _event(self, name: str, now_ms: int, fields: Mapping[str, object]) -> Event:
        self._sequence += 1
        self._last_ms = now_ms
        head = {"schema_version": SCHEMA_VERSION, "op": self._op, "event": name}
        stamp = {"at": iso_timestamp(now_ms), "seq": self._sequence}
        return {**head, **stamp, **{key: value for key, value in fields.items() if key not in head}}

    def _news(self, look: Look) -> Iterator[tuple[str, Mapping[str, object]]]:
        fresh = [path for path in look.envelopes if self._is_first("envelope", path)]
        for notice in sorted((look.envelopes[path] for path in fresh), key=_by_time):
            yield "envelope", notice.json_object()
        for thread_id in sorted(look.closed):
            if self._is_first("thread_closed", thread_id):
                yield "thread_closed", {"thread_id": thread_id}
        for thread_id, divergence in sorted(look.divergences.items()):
            if divergence != self._seen.divergences.get(thread_id):
                yield "divergence", {"thread_id": thread_id, **divergence.json_object()}
        yield from _freeze_news(self._seen.freezes, look.freezes)

    def _is_first(self, name: str, subject: str) -> bool:
        """Tell whether this is news in this run, however often it comes and goes."""
        known = (name, subject) in self._announced
        self._announced.add((name, subject))
        return not known


def _once_only(look: Look) -> Iterator[tuple[str, str]]:
    yield from (("envelope", path) for path in look.envelopes)
    yield from (("thread_closed", thread_id) for thread_id in look.closed)


def _freeze_news(
    before: Mapping[str, Freeze], after: Mapping[str, Freeze]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    for thread_id, freeze in sorted(after.items()):
        if freeze != before.get(thread_id):
            yield "frozen", {"thread_id": thread_id, **freeze.json_object()}
    for thread_id in sorted(before.keys() - after.keys()):
        yield "thawed", {"thread_id": thread_id}


def _by_time(notice: Notice) -> tuple[object, ...]:
    return (*notice.turn.order_key(), notice.turn.thread_id)
