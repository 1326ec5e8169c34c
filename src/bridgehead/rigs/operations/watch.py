"""Snapshot at a bridge again and again, and say what is new as numbered events (rigs §12)."""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from bridgehead.errors import BridgeheadError, UserError
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue, wanted_thread
from bridgehead.rigs.operations.inbox import inbox_contents
from bridgehead.rigs.operations.status import standing_freezes, status
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.operations.thread import thread, verify_listed
from bridgehead.rigs.repositories.errors import FetchFailed
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.causality import Divergence
from bridgehead.rigs.threads.freeze import Freeze
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.obligations import DebtState
from bridgehead.rigs.threads.quarantine import quarantine_state
from bridgehead.rigs.views.listings import Debt, Notice
from bridgehead.rigs.views.result_format import LINE_PREFIX, SCHEMA_VERSION, stamped
from bridgehead.rigs.views.terminal import PLAIN, Style

HEARTBEAT_MS = 30_000
Event: TypeAlias = dict[str, object]
DEFAULT_INTERVAL = 2.0
LEAST_INTERVAL = 0.2
LEAST_FETCH_INTERVAL = 5.0
DEFAULT_TIMEOUT = 600.0
MOST_TIMEOUT = 86_400


class WaitRequest(NamedTuple):
    """Until what is to be waited; all of it is limited by the time."""

    thread_id: str | None = None
    types: frozenset[str] = frozenset()  # empty: any
    timeout_seconds: float = DEFAULT_TIMEOUT
    interval_seconds: float = LEAST_FETCH_INTERVAL


class Waited(NamedTuple):
    """What there was to wait for: questions to this rig that it has not taken on, and answers nobody looked at."""

    arrived: tuple[Notice, ...]
    problem: str | None = None  # why the remote could not be asked, the last time

    def lines(self, style: Style = PLAIN) -> list[str]:
        return [
            f"{LINE_PREFIX}wait arrived={len(self.arrived)}",
            *(
                f"{notice.line(style)}{notice.summary(style)}"
                for notice in self.arrived
            ),
        ]

    def json_object(self) -> dict[str, object]:
        return stamped(
            "wait", envelopes=[notice.json_object() for notice in self.arrived]
        )


def wait(rig: Rig, request: WaitRequest) -> Waited:
    """Look, fetch and look again until something is there for this rig, or until the time is over."""
    deadline = rig.now_ms() + int(request.timeout_seconds * 1000)
    problem: str | None = None
    while True:
        try:
            sync(rig, SyncRequest(auto=True, quiet=True))
            problem = None
        except BridgeheadError as error:
            if error.message != problem:
                rig.tell(f"warning: {error.message}")
            problem = error.message
        found = inbox_contents(rig)
        fresh = [
            *found.delivered,
            *(debt.asked for debt in found.owes if debt.owed.state is DebtState.OPEN),
        ]
        arrived = [
            notice
            for notice in fresh
            if request.thread_id in (None, notice.turn.thread_id)
            and (not request.types or notice.turn.type in request.types)
        ]
        left = (deadline - rig.now_ms()) / 1000
        if arrived or left <= 0:
            return Waited(tuple(arrived), problem)
        rig.sleep(min(request.interval_seconds, left))


def parse_timeout(typed: str | None) -> float:
    """Seconds to wait at most, also given as `30m` or `2h`."""
    if typed is None:
        return DEFAULT_TIMEOUT
    units = {"s": 1, "m": 60, "h": 3600}
    number, factor = (
        (typed[:-1], units[typed[-1]]) if typed[-1:] in units else (typed, 1)
    )
    if (
        not number.isdecimal()
        or not number.isascii()
        or int(number) * factor > MOST_TIMEOUT
    ):
        raise UserError(
            f'--timeout must be seconds, or like 30m or 2h, up to a day (got "{typed}")'
        )
    return float(int(number) * factor)


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
    look = _Look(rig, request)
    first: Mapping[str, object] = {}
    while not first:
        try:
            first = _one_shot(rig, request)
        except (
            FetchFailed
        ) as error:  # a watch that is started before the network is up waits for it
            yield events.error(type(error).__name__, error.message, rig.now_ms())
            rig.sleep(request.interval_seconds)
    yield events.begin(look.again(events.is_new), first, rig.now_ms())
    while True:
        rig.sleep(request.interval_seconds)
        try:
            if request.op == "sync":
                yield from _synced(rig, events, request)
            news = events.update(look.again(events.is_new), rig.now_ms())
            for late in (event for event in news if event["event"] == "overdue"):
                rig.announce(
                    "rig.overdue", thread=late["thread_id"], debtor=late["debtor"]
                )
        except BridgeheadError as error:
            news = [events.error(type(error).__name__, error.message, rig.now_ms())]
        yield from news


def _synced(rig: Rig, events: "Watch", request: WatchRequest) -> Iterator[Event]:
    outcome = sync(rig, request.sync._replace(told=events.refused_head, quiet=True))
    if outcome.moved:
        yield events.pulled(outcome.json_object(), rig.now_ms())
    elif (
        outcome.refusal is not None
        and outcome.report.remote_head != events.refused_head
    ):
        yield events.refused(outcome.json_object(), rig.now_ms())


def _one_shot(rig: Rig, request: WatchRequest) -> Mapping[str, object]:
    shots: dict[str, Callable[[], Mapping[str, object]]] = {
        "status": lambda: status(rig).json_object(),
        "thread": lambda: thread(
            rig, wanted_thread(rig, request.thread_id)
        ).json_object(),
        "sync": lambda: sync(rig, request.sync).json_object(),
    }
    return shots[request.op]()


class _Look:
    """Looks at the threads that changed since it looked last; what it knows of the others is all it keeps."""

    def __init__(self, rig: Rig, request: WatchRequest) -> None:
        self._rig = rig
        self._thread_id = request.thread_id
        self._marks: dict[str, object] = {}
        self._apart = ""
        self._closed: set[str] = set()
        self._divergences: dict[str, Divergence] = {}

    def again(self, is_new: Callable[[str], bool]) -> "Snapshot":
        """Return how the bridge stands, with those envelopes only whose paths are new."""
        known = catalogue(self._rig, self._thread_id)
        fresh = [
            envelope
            for name in self._changed(known)
            for envelope in self._look_at(known, name, is_new)
        ]
        notices = zip(fresh, verify_listed(self._rig, known, fresh), strict=True)
        freezes = standing_freezes(self._rig).items()
        return Snapshot(
            envelopes={
                listed.path: Notice(listed.turn, verdict) for listed, verdict in notices
            },
            closed=frozenset(self._closed),
            divergences=dict(self._divergences),
            overdue=_overdue(self._rig, known),
            freezes={
                name: freeze
                for name, freeze in freezes
                if self._thread_id in (None, name)
            },
        )

    def _changed(self, known: Catalogue) -> list[str]:
        """The threads to look at; what is kept apart decides what is listed in all of them."""
        marks = known.marks()
        apart = quarantine_state(self._rig.repository.private_dir)
        before = self._marks if apart == self._apart else {}
        self._marks = dict(marks)
        self._apart = apart
        return [
            name
            for name in known.thread_ids()
            if name not in before or before[name] != marks.get(name)
        ]

    def _look_at(
        self, known: Catalogue, name: str, is_new: Callable[[str], bool]
    ) -> list[ListedEnvelope]:
        fresh = [
            envelope
            for envelope in known.listing(name).envelopes
            if is_new(envelope.path)
        ]
        divergence = known.causality(name).divergence()
        self._divergences.pop(name, None)
        self._divergences |= {name: divergence} if divergence else {}
        (self._closed.add if known.is_closed(name) else self._closed.discard)(name)
        known.let_go(name)
        return fresh


def _overdue(rig: Rig, known: Catalogue) -> dict[str, Debt]:
    """Debts past their time that this rig has, or answers for, by question and debtor."""
    if rig.settings is None:
        return {}
    found = inbox_contents(rig, known)
    now = rig.now_ms()
    late = [
        debt for debt in (*found.owes, *found.entrusted) if debt.owed.is_overdue(now)
    ]
    return {f"{debt.asked.turn.path} {debt.owed.debtor}": debt for debt in late}


class Watch:
    """One run of `--watch`: remembers what it has announced, numbers what it says."""

    def __init__(self, op: str, *, heartbeat: bool = True) -> None:
        self._op = op
        self._heartbeat = heartbeat
        self._sequence = 0
        self._last_ms = 0
        self._seen = _EMPTY
        self._announced: set[int] = set()  # there may be very many
        self._has_begun = False
        self.refused_head: str | None = (
            None  # the remote head whose refusal was told last
        )

    def begin(
        self, snapshot: "Snapshot", one_shot: Mapping[str, object], now_ms: int
    ) -> Event:
        """Return the first event: what the command prints without `--watch`."""
        for path in snapshot.envelopes:
            self._is_first("envelope", path)
        for thread_id in snapshot.closed:
            self._is_first("thread_closed", thread_id)
        self._seen = snapshot
        self._has_begun = True
        self._note_refusal(one_shot)
        return self._event("snapshot", now_ms, one_shot)

    def is_new(self, path: str) -> bool:
        """Tell whether an envelope has to be announced; what is there at the beginning has not."""
        return (
            hash(("envelope", path)) not in self._announced
            if self._has_begun
            else not self._is_first("envelope", path)
        )

    def update(self, snapshot: "Snapshot", now_ms: int) -> list[Event]:
        """Return what is new, or a heartbeat when nothing has been said for long."""
        events = [
            self._event(name, now_ms, fields) for name, fields in self._news(snapshot)
        ]
        self._seen = snapshot
        if not events and self._heartbeat and now_ms - self._last_ms >= HEARTBEAT_MS:
            events.append(self._event("heartbeat", now_ms, {}))
        return events

    def pulled(self, fields: Mapping[str, object], now_ms: int) -> Event:
        """Return the event for envelopes that were taken in."""
        return self._event("pulled", now_ms, fields)

    def refused(self, fields: Mapping[str, object], now_ms: int) -> Event:
        """Return the event for a pull that was refused; the caller asks once per state of the remote."""
        self._note_refusal(fields)
        return self._event("refused", now_ms, fields)

    def _note_refusal(self, fields: Mapping[str, object]) -> None:
        if fields.get("reason"):
            self.refused_head = str(fields.get("remote_head"))

    def error(self, category: str, message: str, now_ms: int) -> Event:
        """Return the event for a failure that does not end the watch."""
        return self._event("error", now_ms, {"category": category, "message": message})

    def _event(self, name: str, now_ms: int, fields: Mapping[str, object]) -> Event:
        self._sequence += 1
        self._last_ms = now_ms
        head = {"schema_version": SCHEMA_VERSION, "op": self._op, "event": name}
        stamp = {"at": iso_timestamp(now_ms), "seq": self._sequence}
        return {
            **head,
            **stamp,
            **{key: value for key, value in fields.items() if key not in head},
        }

    def _news(self, snapshot: "Snapshot") -> Iterator[tuple[str, Mapping[str, object]]]:
        fresh = [
            notice
            for path, notice in snapshot.envelopes.items()
            if self._is_first("envelope", path)
        ]
        for notice in sorted(
            fresh, key=lambda notice: (*notice.turn.order_key(), notice.turn.thread_id)
        ):
            yield "envelope", notice.json_object()
        for thread_id in sorted(snapshot.closed):
            if self._is_first("thread_closed", thread_id):
                yield "thread_closed", {"thread_id": thread_id}
        for thread_id, divergence in sorted(snapshot.divergences.items()):
            if divergence != self._seen.divergences.get(thread_id):
                yield "divergence", {"thread_id": thread_id, **divergence.json_object()}
        for what, debt in sorted(snapshot.overdue.items()):
            if self._is_first("overdue", what):
                yield "overdue", debt.json_object(sys.maxsize)
        before = self._seen.freezes
        after = snapshot.freezes
        for thread_id, freeze in sorted(after.items()):
            if freeze != before.get(thread_id):
                yield "frozen", {"thread_id": thread_id, **freeze.json_object()}
        for thread_id in sorted(before.keys() - after.keys()):
            yield "thawed", {"thread_id": thread_id}

    def _is_first(self, name: str, subject: str) -> bool:
        """Tell whether this is news in this run, however often it comes and goes."""
        known = (what := hash((name, subject))) in self._announced
        self._announced.add(what)
        return not known


class Snapshot(NamedTuple):
    """A bridge as it stood at one moment."""

    # By path, perhaps those only that were not there before.
    envelopes: Mapping[str, Notice]
    closed: frozenset[str]  # thread ids
    divergences: Mapping[str, Divergence]  # by thread id
    freezes: Mapping[str, Freeze]  # by thread id
    overdue: Mapping[str, Debt] = MappingProxyType({})  # by question and debtor


_EMPTY = Snapshot({}, frozenset(), {}, {})
