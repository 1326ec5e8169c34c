"""Wait for news in a bridge, or report them as numbered events (rigs §12)."""

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
    """What to wait for, and how long at most."""

    thread_id: str | None = None
    types: frozenset[str] = frozenset()  # empty: any
    timeout_seconds: float = DEFAULT_TIMEOUT
    interval_seconds: float = LEAST_FETCH_INTERVAL


class Waited(NamedTuple):
    """What arrived: open questions to this rig, and answers nobody has looked at."""

    arrived: tuple[Notice, ...]
    problem: str | None = None  # why the last fetch failed

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
    """Fetch and look until something is there for this rig, or the time is over."""
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
        arrived = _awaited_notices(rig, request)
        seconds_left = (deadline - rig.now_ms()) / 1000
        if arrived or seconds_left <= 0:
            return Waited(arrived, problem)
        rig.sleep(min(request.interval_seconds, seconds_left))


def _awaited_notices(rig: Rig, request: WaitRequest) -> tuple[Notice, ...]:
    """Return what is in the inbox that a request waits for."""
    inbox = inbox_contents(rig)
    notices = [*inbox.delivered]
    for debt in inbox.owes:
        if debt.owed.state is DebtState.OPEN:
            notices.append(debt.asked)
    if request.thread_id is not None:
        notices = [
            notice for notice in notices if notice.turn.thread_id == request.thread_id
        ]
    if request.types:
        notices = [notice for notice in notices if notice.turn.type in request.types]
    return tuple(notices)


def parse_timeout(typed: str | None) -> float:
    """Return the seconds to wait at most, which may be given as `30m` or `2h`."""
    if typed is None:
        return DEFAULT_TIMEOUT
    units = {"s": 1, "m": 60, "h": 3600}
    number = typed
    factor = 1
    if typed[-1:] in units:
        number = typed[:-1]
        factor = units[typed[-1]]
    is_number = number.isdecimal() and number.isascii()
    if not is_number or int(number) * factor > MOST_TIMEOUT:
        raise UserError(
            f'--timeout must be seconds, or like 30m or 2h, up to a day (got "{typed}")'
        )
    return float(int(number) * factor)


class WatchRequest(NamedTuple):
    """What to watch; `op` is status, thread or sync."""

    op: str
    thread_id: str | None = None
    interval_seconds: float = DEFAULT_INTERVAL
    heartbeat: bool = True
    sync: SyncRequest = SyncRequest()


def parse_interval(typed: str | None, *, fetching: bool) -> float:
    """Return the seconds between two looks.

    If they fetch, there is a lower limit for the sake of the remote.
    """
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
    """Yield the events of one run; it goes on until the caller stops asking."""
    events = Watch(request.op, heartbeat=request.heartbeat)
    observer = _Observer(rig, request)
    first: Mapping[str, object] = {}
    while not first:
        try:
            first = _one_shot(rig, request)
        except FetchFailed as error:
            # The network may come up after the watch has started.
            yield events.error(type(error).__name__, error.message, rig.now_ms())
            rig.sleep(request.interval_seconds)
    yield events.begin(observer.snapshot(events.is_new), first, rig.now_ms())
    while True:
        rig.sleep(request.interval_seconds)
        try:
            if request.op == "sync":
                yield from _synced(rig, events, request)
            news = events.update(observer.snapshot(events.is_new), rig.now_ms())
            for event in news:
                if event["event"] == "overdue":
                    rig.announce(
                        "rig.overdue", thread=event["thread_id"], debtor=event["debtor"]
                    )
        except BridgeheadError as error:
            news = [events.error(type(error).__name__, error.message, rig.now_ms())]
        yield from news


def _synced(rig: Rig, events: "Watch", request: WatchRequest) -> Iterator[Event]:
    known_refusal = events.refused_head
    outcome = sync(rig, request.sync._replace(reported_head=known_refusal, quiet=True))
    is_new_refusal = (
        outcome.refusal is not None and outcome.report.remote_head != known_refusal
    )
    if outcome.moved:
        yield events.pulled(outcome.json_object(), rig.now_ms())
    elif is_new_refusal:
        yield events.refused(outcome.json_object(), rig.now_ms())


def _one_shot(rig: Rig, request: WatchRequest) -> Mapping[str, object]:
    """Return what the command prints without `--watch`."""
    match request.op:
        case "status":
            return status(rig).json_object()
        case "thread":
            thread_id = wanted_thread(rig, request.thread_id)
            return thread(rig, thread_id).json_object()
        case "sync":
            return sync(rig, request.sync).json_object()
        case _:
            raise ValueError(f"{request.op} cannot be watched")


class _Observer:
    """Looks at a bridge repeatedly, and only at the threads that changed meanwhile."""

    def __init__(self, rig: Rig, request: WatchRequest) -> None:
        self._rig = rig
        self._thread_id = request.thread_id
        self._marks: dict[str, object] = {}
        self._quarantine = ""
        self._closed: set[str] = set()
        self._divergences: dict[str, Divergence] = {}

    def snapshot(self, is_new: Callable[[str], bool]) -> "Snapshot":
        """Return how the bridge stands, with only those envelopes that are new."""
        known = catalogue(self._rig, self._thread_id)
        fresh: list[ListedEnvelope] = []
        for name in self._changed(known):
            fresh += self._look_at(known, name, is_new)
        verdicts = verify_listed(self._rig, known, fresh)
        freezes = standing_freezes(self._rig).items()
        return Snapshot(
            envelopes={
                envelope.path: Notice(envelope.turn, verdict)
                for envelope, verdict in zip(fresh, verdicts, strict=True)
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
        """Return the threads to look at: all of them if the quarantine changed."""
        marks = known.marks()
        quarantine = quarantine_state(self._rig.repository.private_dir)
        before = self._marks if quarantine == self._quarantine else {}
        self._marks = dict(marks)
        self._quarantine = quarantine
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
        if divergence is None:
            self._divergences.pop(name, None)
        else:
            self._divergences[name] = divergence
        if known.is_closed(name):
            self._closed.add(name)
        else:
            self._closed.discard(name)
        known.let_go(name)
        return fresh


def _overdue(rig: Rig, known: Catalogue) -> dict[str, Debt]:
    """Return the overdue debts that this rig has, or answers for.

    The keys are question and debtor.
    """
    if rig.settings is None:
        return {}
    inbox = inbox_contents(rig, known)
    now = rig.now_ms()
    return {
        f"{debt.asked.turn.path} {debt.owed.debtor}": debt
        for debt in (*inbox.owes, *inbox.entrusted)
        if debt.owed.is_overdue(now)
    }


class Watch:
    """One run of `--watch`: it numbers events, and remembers what it announced."""

    def __init__(self, op: str, *, heartbeat: bool = True) -> None:
        self._op = op
        self._heartbeat = heartbeat
        self._sequence = 0
        self._last_ms = 0
        self._seen = _EMPTY
        self._announced: set[int] = set()  # hashes, because there may be very many
        self._has_begun = False
        # The remote head whose refusal was reported last.
        self.refused_head: str | None = None

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
        """Return whether an envelope must be announced.

        What is there at the beginning is only noted.
        """
        if self._has_begun:
            return hash(("envelope", path)) not in self._announced
        return not self._is_first("envelope", path)

    def update(self, snapshot: "Snapshot", now_ms: int) -> list[Event]:
        """Return what is new, or a heartbeat after a long silence."""
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
        """Return the event for a refused pull; there is one per state of the remote."""
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
        event = {**head, "at": iso_timestamp(now_ms), "seq": self._sequence}
        for key, value in fields.items():
            if key not in head:
                event[key] = value
        return event

    def _news(self, snapshot: "Snapshot") -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield the names and fields of the events that a snapshot gives rise to."""
        for notice in self._first_notices(snapshot):
            yield "envelope", notice.json_object()
        for thread_id in sorted(snapshot.closed):
            if self._is_first("thread_closed", thread_id):
                yield "thread_closed", {"thread_id": thread_id}
        for thread_id, divergence in sorted(snapshot.divergences.items()):
            if divergence != self._seen.divergences.get(thread_id):
                yield "divergence", {"thread_id": thread_id, **divergence.json_object()}
        for debt_key, debt in sorted(snapshot.overdue.items()):
            if self._is_first("overdue", debt_key):
                yield "overdue", debt.json_object(sys.maxsize)
        yield from self._freeze_news(snapshot.freezes)

    def _first_notices(self, snapshot: "Snapshot") -> list[Notice]:
        """Return the envelopes that were not announced yet, oldest first."""
        fresh = [
            notice
            for path, notice in snapshot.envelopes.items()
            if self._is_first("envelope", path)
        ]
        return sorted(
            fresh, key=lambda notice: (*notice.turn.order_key(), notice.turn.thread_id)
        )

    def _freeze_news(
        self, after: Mapping[str, Freeze]
    ) -> Iterator[tuple[str, Mapping[str, object]]]:
        before = self._seen.freezes
        for thread_id, freeze in sorted(after.items()):
            if freeze != before.get(thread_id):
                yield "frozen", {"thread_id": thread_id, **freeze.json_object()}
        for thread_id in sorted(before.keys() - after.keys()):
            yield "thawed", {"thread_id": thread_id}

    def _is_first(self, name: str, subject: str) -> bool:
        """Return whether this is news in this run, and note that it is no longer."""
        key = hash((name, subject))
        is_first = key not in self._announced
        self._announced.add(key)
        return is_first


class Snapshot(NamedTuple):
    """A bridge as it stood at one moment."""

    # By path; after the first snapshot only new ones.
    envelopes: Mapping[str, Notice]
    closed: frozenset[str]  # thread ids
    divergences: Mapping[str, Divergence]  # by thread id
    freezes: Mapping[str, Freeze]  # by thread id
    overdue: Mapping[str, Debt] = MappingProxyType({})  # by question and debtor


_EMPTY = Snapshot({}, frozenset(), {}, {})
