"""Carry out what a bridge decides, on one event loop, in order.

Participants' connections and the hub talk to the relay. The relay feeds the bridge,
writes to the hub, passes messages to connections, counts outcomes, stores what must be
remembered, and wakes up when a grace period ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, get_args

from bridgehead.bus import actions
from bridgehead.bus.bridge.admission import ABSENT
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.counters import BATCH, OutcomeCounters
from bridgehead.bus.bridge.state_store import StateStore
from bridgehead.bus.interfaces import (
    Announcer,
    ItemAnswered,
    LogAnnouncer,
    ShownQuestions,
)
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.transports.base import HubListener, Transport
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import RESERVED_TOPIC
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import Clock, SystemClock, iso_ms

_log: Final = logging.getLogger("bridgehead.bus")

HearsAnswer = Callable[[str, str, ShownQuestions, Callable[[ItemAnswered], None]], bool]
"""Takes a participant, what it said, the questions it was shown, and how to reply."""


class ParticipantConnection(Protocol):
    """A participant's current connection, of whatever kind."""

    def welcome(self, source: str) -> None: ...

    def deliver(self, delivery: actions.Delivery) -> None: ...

    def refuse(self, code: str, details: dict[str, Any]) -> None: ...

    def close(self, code: actions.CloseCode) -> None: ...

    @property
    def listens(self) -> bool:
        """Return whether it takes messages that are not answers, too."""
        ...


class Relay(HubListener):
    """Runs one bridge."""

    def __init__(
        self,
        bridge: Bridge,
        transport: Transport,
        *,
        counters: OutcomeCounters | None = None,
        state: StateStore | None = None,
        announcer: Announcer | None = None,
        clock: Clock | None = None,
        debug: bool = False,
    ) -> None:
        self.bridge = bridge
        self.counters = counters or OutcomeCounters()
        self._transport = transport
        self._debug = debug
        self._state = state or StateStore()
        self._announcer = announcer or LogAnnouncer()
        self._clock = clock or SystemClock()
        self._now = self._clock.monotonic
        self._connections: dict[str, ParticipantConnection] = {}
        self._joining: ParticipantConnection | None = None
        self._audience_changes = 0
        self._changes: list[actions.StateChange] = []
        self._saving: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: float | None = None
        self.holds_back: Callable[[Message], bool] | None = None
        """Returns whether to keep a hub message from participants, for escalation to an
        upstream bridge (bus §7).
        """
        self.overhearing: list[Callable[[Message], bool]] = []
        """Called with what participants say before it reaches the hub; one that returns
        True has taken the message.
        """
        self.hears_answer: HearsAnswer = lambda *_answer: False
        """Takes what is said at a door, and returns True, if it answers a pending item.
        """
        self.hub_refused: Callable[[str], None] = lambda _reason: None
        """Called about messages that nobody may send over the hub."""
        self.watcher: Callable[[Message], None] | None = None
        """Called with what the hub carries, while the operator watches."""
        self._carry_out: dict[type, Callable[[Any], None]] = {
            actions.ToBus: self._write,
            actions.Later: self._write_later,
            actions.Delivery: self._deliver,
            actions.Outcome: self._count,
            actions.Refused: self._refuse,
            actions.Joined: self._joined,
            actions.Left: self._left,
            actions.Close: self._close,
            actions.Undelivered: self._undelivered,
            actions.HubIgnored: self._hub_ignored,
            **dict.fromkeys(get_args(actions.StateChange), self._keep),
        }

    # -- participants ---------------------------------------------------------

    def join(
        self,
        record: ParticipantRecord,
        connection: ParticipantConnection,
        claim: object = None,
    ) -> asyncio.Task[BridgeheadError | None] | None:
        """Welcome an authenticated participant with its source.

        If the deployment must be asked for the source, return a task that welcomes the
        participant later; its result says why that failed, or is None.
        """
        if not record.ephemeral and self.bridge.known.get(record.id) is None:
            self.bridge.recall(record, self._state.recall(record.id), self._now())
        # Before anything else, because joining raises if the bridge is full.
        self._execute(self.bridge.tick(self._now()))
        if not record.ephemeral:
            asking = self._state.own(record.id, self.bridge.reserve(record, claim))
            if asking is not None:
                return asyncio.get_running_loop().create_task(
                    self._enter_later(record, connection, claim, asking)
                )
        self._enter(record, connection, claim)
        return None

    def _enter(
        self,
        record: ParticipantRecord,
        connection: ParticipantConnection,
        claim: object,
    ) -> None:
        effects = self.bridge.connected(record, self._now(), claim=claim)
        self._joining = connection
        self._execute(effects)

    async def _enter_later(
        self,
        record: ParticipantRecord,
        connection: ParticipantConnection,
        claim: object,
        asking: Coroutine[Any, Any, bool] | None,
    ) -> BridgeheadError | None:
        try:
            while asking is not None and not await asking:
                self._execute(self.bridge.release(record.id, self._now()))
                asking = self._state.own(record.id, self.bridge.reserve(record, claim))
            self._enter(record, connection, None)
        except BridgeheadError as error:
            _log.warning("%s", error)
            return error
        return None

    def leave(
        self,
        participant_id: str,
        connection: ParticipantConnection,
        *,
        goodbye: bool = False,
    ) -> None:
        """Note that a connection ended, unless it was replaced before."""
        if self._connections.get(participant_id) is not connection:
            return
        del self._connections[participant_id]
        self._execute(
            self.bridge.disconnected(participant_id, self._now(), goodbye=goodbye)
        )

    def take(
        self,
        participant_id: str,
        frame: bytes,
        value: object = ABSENT,
        hops: object = 0,
    ) -> None:
        """Take a frame of a participant.

        `value` is its message if it is already decoded.
        """
        now = self._now  # a function, not a method: see Bridge.received
        self._execute(self.bridge.received(participant_id, frame, now(), value, hops))

    def admits(self, participant_id: str) -> bool:
        """Return whether the participant's rate allows one more frame that is not a
        message, such as a ping.
        """
        refusal = self.bridge.charged(participant_id, self._now())
        self._execute(refusal)
        return not refusal

    def stalled(self, participant_id: str, connection: ParticipantConnection) -> None:
        if self._connections.get(participant_id) is connection:
            self.bridge.stalled(participant_id)

    def drained(self, participant_id: str, connection: ParticipantConnection) -> None:
        if self._connections.get(participant_id) is connection:
            self._execute(self.bridge.drained(participant_id, self._now()))

    def revoke(self, participant_id: str) -> None:
        """Disconnect and forget a participant that was revoked (bus §10.3)."""
        self._execute(self.bridge.revoked(participant_id, self._now()))
        self.counters.forget(participant_id)

    def moved(self, participant_id: str) -> None:
        """Drop a participant that is now at another bridge of the deployment."""
        self._execute(self.bridge.moved(participant_id, self._now()))

    def clean_up(self, hub_session: str, skill_id: str) -> None:
        """Deregister a skill whose host is no longer present at any bridge."""
        self._execute(self.bridge.clean_up(hub_session, skill_id, self._now()))

    def change_record(self, record: ParticipantRecord) -> None:
        self.bridge.record_changed(record, self._now())

    @property
    def connected(self) -> Iterable[str]:
        return self._connections.keys()

    def listens(self, participant_id: str) -> bool:
        """Return whether the participant takes messages that are not answers."""
        connection = self._connections.get(participant_id)
        return connection is not None and connection.listens

    # -- the hub --------------------------------------------------------------

    def received(self, message: Message) -> None:
        """Take a message that the hub carried."""
        if self.watcher is not None:
            self.watcher(message)
        if self.holds_back is None or not self.holds_back(message):
            now = self._now  # a function, not a method: see Bridge.received
            self._execute(self.bridge.hub_sent(message, now()))

    def offer(self, message: Message) -> None:
        """Offer a hub message to the participants it concerns."""
        self._execute(self.bridge.hub_sent(message, self._now()))

    def _hub_ignored(self, effect: actions.HubIgnored) -> None:
        self.ignored(effect.reason)
        if effect.reason == RESERVED_TOPIC:
            self.hub_refused(effect.reason)

    def ignored(self, reason: str) -> None:
        self.counters.hub_ignored[reason] += 1

    def opened(self) -> None:
        """Note that the hub can be written to."""
        self._execute(self.bridge.hub_opened(self._now()))
        self._set_alarm()

    def lost(self, reason: str) -> None:
        """Note that the hub cannot be written to."""
        self._execute(self.bridge.hub_lost())

    def turn_lost(self, message: Message) -> None:
        """Tell the participant that asked that the hub with its question is gone."""
        self._execute(self.bridge.turn_lost(message))

    def inject(self, message: Message, *, author: str, hops: int) -> None:
        """Put a message of an upstream bridge on the hub.

        The participants it names get it like any other.
        """
        self._execute(self.bridge.relayed(message, author, hops, self._now()))

    def tell(self, participant_id: str, message: Message) -> None:
        """Send a participant a message of the gateway, bypassing the hub."""
        self._execute(self.bridge.tell(participant_id, message, self._now()))

    def publish(self, message: Message) -> bool:
        """Put a message of the bridge itself on the hub; return whether it took it."""
        return self._transport.send(message)

    # -- time and end ---------------------------------------------------------

    def _wake(self) -> None:
        self._alarm = self._alarm_at = None
        self._execute(self.bridge.tick(self._now()))
        self._set_alarm()

    def _set_alarm(self) -> None:
        deadline = self.bridge.next_deadline()
        if deadline is None:
            return
        if self._alarm_at is not None and self._alarm_at <= deadline:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        delay = max(0.0, deadline - self._now())
        self._alarm = asyncio.get_running_loop().call_later(delay, self._wake)

    async def stop(self) -> None:
        """Drop what waits, close every connection, and save what must be remembered."""
        self._execute(self.bridge.stop(self._now()))
        for connection in list(self._connections.values()):
            connection.close(actions.CloseCode.GOING_AWAY)
        if self._alarm is not None:
            self._alarm.cancel()
        await self.saved()

    async def saved(self) -> None:
        """Return once everything that must be remembered is on disk."""
        while self._saving is not None:
            await asyncio.shield(self._saving)

    # -- carrying out ---------------------------------------------------------

    def _execute(self, effects: list[actions.Effect]) -> None:
        # An embedded hub sends back at once what is written to it, so this method is
        # called again from inside the loop.
        carry_out = self._carry_out
        for effect in effects:
            carry_out[type(effect)](effect)
        if len(self.counters.noted) >= BATCH:
            self.counters.add_up()
        if self.bridge.known.changes != self._audience_changes:
            self._audience_changes = self.bridge.known.changes
            self._transport.expect(self.bridge.known)

    def _write(self, effect: actions.ToBus) -> None:
        message = effect.message
        omits_echo = effect.concerns_author
        if self._is_overheard(message):
            omits_echo = False
            written = True
        else:
            if omits_echo and self.watcher is not None:
                self.watcher(message)
            written = self._transport.send(message, not omits_echo)
        if effect.author is None:
            return
        if not written:
            self._refuse(actions.Refused(effect.author, "hub_down"))
            self._count(effect.outcome("hub_down"))
            return
        self.counters.noted.append((effect.author, "in", "delivered", None, 0.0))
        if omits_echo:
            self.bridge.offered += 1
            self.counters.noted.append((effect.author, "out", "dropped", "echo", 0.0))
        if self._debug:
            self._announce_outcome(effect.outcome())
            if omits_echo:
                self._announce_outcome(effect.echo_outcome())

    def _is_overheard(self, message: Message) -> bool:
        """Return whether somebody in this process takes the message for itself."""
        return any(takes(message) for takes in self.overhearing)

    def _write_later(self, effect: actions.Later) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(
            effect.delay_s,
            lambda: self._execute(self.bridge.due(effect.message, self._now())),
        )

    def _deliver(self, effect: actions.Delivery) -> None:
        connection = self._connections.get(effect.participant)
        if connection is not None:
            connection.deliver(effect)
        self.counters.noted.append(
            (effect.participant, "out", "delivered", None, effect.waited_s)
        )
        if self._debug:
            self._announce_outcome(effect.outcome())

    def _refuse(self, effect: actions.Refused) -> None:
        connection = self._connections.get(effect.participant)
        if connection is not None:
            connection.refuse(effect.code, effect.details)

    def _close(self, effect: actions.Close) -> None:
        connection = self._connections.pop(effect.participant, None)
        if connection is not None:
            connection.close(effect.code)

    def _joined(self, effect: actions.Joined) -> None:
        assert self._joining is not None
        connection = self._joining
        self._joining = None
        self._connections[effect.participant] = connection
        connection.welcome(effect.source)
        self._state.present(effect.participant)
        self._announce(
            "bus.joined",
            participant=effect.participant,
            source=effect.source,
            first=effect.first,
        )

    def _left(self, effect: actions.Left) -> None:
        self._announce(
            "bus.left",
            participant=effect.participant,
            gone=effect.gone,
            reason=effect.reason,
        )
        self._set_alarm()

    def _count(self, outcome: actions.Outcome) -> None:
        self.counters.count(outcome)
        if self._debug:
            self._announce_outcome(outcome)

    def _announce_outcome(self, outcome: actions.Outcome) -> None:
        self._announce(
            "bus.message.outcome",
            participant=outcome.participant,
            direction=outcome.direction,
            topic=outcome.topic,
            session_id=outcome.session_id,
            outcome=outcome.outcome,
            reason=outcome.reason,
            bytes=outcome.size,
            waited_ms=round(outcome.waited_s * 1000, 3),
        )

    def unheard(self, participant_id: str) -> None:
        """Note that speech for a participant of another bridge reached nobody."""
        self._undelivered(actions.Undelivered(participant_id, "absent"))

    def _undelivered(self, effect: actions.Undelivered) -> None:
        if self._state.is_elsewhere(effect.participant):
            return
        self.counters.hub_ignored["undelivered"] += 1
        self._announce(
            "bus.undelivered", participant=effect.participant, reason=effect.reason
        )
        self._execute(self.bridge.tell_undelivered(effect, self._now()))

    def _announce(self, kind: str, **data: Any) -> None:
        bridge_id = self.bridge.settings.bridge_id
        self._announcer.announce(
            kind, {"at": iso_ms(self._clock.now()), "bridge": bridge_id, **data}
        )

    # -- remembering ----------------------------------------------------------

    def _keep(self, change: actions.StateChange) -> None:
        self._changes.append(change)
        if self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save())

    async def _save(self) -> None:
        try:
            while self._changes:
                changes = self._changes
                self._changes = []
                await asyncio.to_thread(self._state.apply, changes)
        except BridgeheadError as error:
            # A bridge that cannot remember still works until the next restart.
            _log.error("%s", error)
        finally:
            self._saving = None
