"""Take part in another bridge, to ask there what is not understood here (bus §7)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.bridge.escalation import (
    Escalate,
    Escalation,
    EscalationEffect,
    PutOnHub,
    Release,
)
from bridgehead.bus.client.participant import (
    Incoming,
    MessageRefused,
    NotAdmitted,
    Satellite,
)
from bridgehead.bus.hub.reconnect import HubLink
from bridgehead.bus.relay import Relay
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.transports.base import HubListener, HubRefused
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import to_spec

_log: Final = logging.getLogger("bridgehead.bus")
AUTHOR: Final = "upstream bridge"
MAX_SENDING: Final = 256


class Upstream(HubListener):
    """The connection to the upstream bridge, and the escalations that use it."""

    def __init__(
        self,
        relay: Relay,
        join: JoinFile,
        announce: Any,
        escalation: Escalation | None = None,
    ) -> None:
        self._relay = relay
        self._join = join
        self._escalation = escalation or Escalation(
            hop_limit=relay.bridge.settings.hop_limit
        )
        self._satellite: Satellite | None = None
        self._reading: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self.link = HubLink(self, self, announce)

    def start(self) -> None:
        self._relay.holds_back = self._holds_back
        self.link.start()

    async def stop(self) -> None:
        self._relay.holds_back = None
        await self.link.stop()
        if self._alarm is not None:
            self._alarm.cancel()

    def _holds_back(self, message: Message) -> bool:
        spec_message = to_spec(message)
        if spec_message is None:
            return False
        hops = self._relay.bridge.hops_in(context_session_id(spec_message.context))
        is_held_back = self._escalation.holds_back(spec_message, self._now(), hops=hops)
        self._carry_out(self._escalation.take_due())
        return is_held_back

    # -- Dialled --------------------------------------------------------------

    async def connect(self, listener: HubLink) -> None:
        try:
            self._satellite = await Satellite.connect(self._join, reconnect=False)
        except NotAdmitted as error:
            raise HubRefused(self._join.url, error.message) from error
        self._reading = asyncio.get_running_loop().create_task(
            self._read(self._satellite, listener)
        )

    async def close(self) -> None:
        for task in self._sending:
            task.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._satellite is not None:
            await self._satellite.close()

    async def _read(self, satellite: Satellite, listener: HubLink) -> None:
        try:
            while True:
                event = await satellite.receive()
                if isinstance(event, Incoming):
                    self._escalation.answered(event.message, event.hops)
                    self._carry_out(self._escalation.take_due())
                elif isinstance(event, MessageRefused):
                    _log.warning(
                        "the upstream bridge refused a message: %s %s",
                        event.code,
                        event.details,
                    )
        except ConnectionEnded as ended:
            listener.lost(ended.message)

    # -- HubListener ----------------------------------------------------------

    def opened(self) -> None:
        self._escalation.upstream(there=True)

    def lost(self, reason: str) -> None:
        self._satellite = None
        self._escalation.upstream(there=False)
        self._carry_out(self._escalation.take_due())

    # -- carrying out ---------------------------------------------------------

    def _carry_out(self, effects: list[EscalationEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Escalate):
                self._escalate(effect)
            elif isinstance(effect, PutOnHub):
                self._relay.inject(effect.message, author=AUTHOR, hops=effect.hops)
            elif isinstance(effect, Release):
                self._relay.offer(effect.message)
        self._set_alarm()

    def _escalate(self, effect: Escalate) -> None:
        if len(self._sending) >= MAX_SENDING:
            _log.warning(
                "the upstream bridge is too slow; a question was answered here"
            )
            return
        task = asyncio.get_running_loop().create_task(self._send(effect))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, effect: Escalate) -> None:
        if self._satellite is None:
            return
        # If the connection has ended, `_read` notices and reports that it is lost.
        with suppress(ConnectionEnded):
            await self._satellite.send(effect.message, hops=effect.hops)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self._escalation.next_deadline()
        if deadline is not None:
            self._alarm = asyncio.get_running_loop().call_at(deadline, self._wake)

    def _wake(self) -> None:
        self._escalation.tick(self._now())
        self._carry_out(self._escalation.take_due())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
