"""Look again and again, and say what is new (rigs §12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bridgehead.errors import BridgeheadError, UserError
from bridgehead.rigs.inbox_view import Notice
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.status import standing_freezes, status_of
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.operations.thread import thread, verify_listed
from bridgehead.rigs.operations.wanted_thread import wanted_thread
from bridgehead.rigs.thread_view import thread_object
from bridgehead.rigs.watch import Event, Look, Watch

DEFAULT_INTERVAL = 2.0
LEAST_INTERVAL = 0.2
LEAST_FETCH_INTERVAL = 5.0


class WatchRequest(NamedTuple):
    """`op` is status, thread or sync; a thread limits what is looked at."""

    op: str
    thread_id: str | None = None
    interval_seconds: float = DEFAULT_INTERVAL
    heartbeat: bool = True
    sync: SyncRequest = SyncRequest()


def parse_interval(typed: str | None, *, fetching: bool) -> float:
    """Seconds between two looks; a fetch every few seconds is the most a remote should have to bear."""
    least = LEAST_FETCH_INTERVAL if fetching else LEAST_INTERVAL
    if typed is None:
        return max(DEFAULT_INTERVAL, least)
    try:
        seconds = float(typed)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UserError(f'--interval must be a number of seconds (got "{typed}")')
    return max(seconds, least)


def watch(rig: Rig, request: WatchRequest) -> Iterator[Event]:
    """The events of one run; it goes on until the caller stops asking."""
    events = Watch(request.op, heartbeat=request.heartbeat)
    yield events.begin(_look(rig, request), _one_shot(rig, request), rig.now_ms())
    while True:
        rig.sleep(request.interval_seconds)
        try:
            if request.op == "sync":
                yield from _synced(rig, events, request)
            news = events.look(_look(rig, request), rig.now_ms())
        except BridgeheadError as error:
            news = [events.error(type(error).__name__, error.message, rig.now_ms())]
        yield from news


def _synced(rig: Rig, events: Watch, request: WatchRequest) -> Iterator[Event]:
    outcome = sync(rig, request.sync)
    if outcome.moved:
        yield events.pulled(outcome.json_object(), rig.now_ms())


def _one_shot(rig: Rig, request: WatchRequest) -> Mapping[str, object]:
    shots: dict[str, Callable[[], Mapping[str, object]]] = {
        "status": lambda: status_of(rig, catalogue(rig, with_findings=True)).json_object(),
        "thread": lambda: _thread_object(rig, request.thread_id),
        "sync": lambda: sync(rig, request.sync).json_object(),
    }
    return shots[request.op]()


def _thread_object(rig: Rig, thread_id: str | None) -> dict[str, object]:
    shown = thread(rig, wanted_thread(rig, thread_id))
    return thread_object(shown.thread_id, shown.envelopes, shown.divergences)


def _look(rig: Rig, request: WatchRequest) -> Look:
    known = catalogue(rig, request.thread_id, with_findings=True)
    divergences = {name: known.causality(name).divergence() for name in known.thread_ids()}
    return Look(
        envelopes=_notices(rig, known),
        closed=frozenset(name for name in known.thread_ids() if known.is_closed(name)),
        divergences={name: found for name, found in divergences.items() if found is not None},
        freezes={
            name: freeze
            for name, freeze in standing_freezes(rig).items()
            if request.thread_id in (None, name)
        },
    )


def _notices(rig: Rig, known: Catalogue) -> dict[str, Notice]:
    envelopes = known.envelopes()
    verdicts = verify_listed(rig, known, envelopes)
    return {
        listed.path: Notice(listed.turn, verdict) for listed, verdict in zip(envelopes, verdicts, strict=True)
    }
