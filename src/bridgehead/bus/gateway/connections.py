"""Participants' WebSockets at the gateway (bus §10.2, §10.4).

There are two profiles: `bridgehead.v1`, which is framed, and the bare one.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final, Protocol

import msgspec

from bridgehead.bus.access.credentials import NONCE_BYTES, Challenge
from bridgehead.bus.actions import CloseCode, Delivery
from bridgehead.bus.gateway.pending_answers import PendingAnswers
from bridgehead.bus.interfaces import ItemAnswer, ItemAnswered
from bridgehead.bus.participants.participants import TooManyParticipants
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.relay import Relay
from bridgehead.bus.sockets.base import (
    UNSUPPORTED,
    Heartbeat,
    Peer,
    WaitingConnections,
    WatchedConversation,
    share_of,
)
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.frames import from_base64
from bridgehead.bus.wire.message import Malformed, Message, encode
from bridgehead.bus.wire.topics import REFUSED
from bridgehead.errors import BridgeheadError

AUTHENTICATION_S: Final = 5.0
TRY_LATER: Final = 1013
MOST_REASON: Final = 100
"""Characters; a closing frame has room for 123 bytes."""
NOT_YOUR_FAULT: Final = ("hub_down", "turn_lost", "shutdown")
"""Refusals that even a program without frames is told about, because a person is
waiting for an answer.
"""
UNREAD_BYTES: Final = 1024 * 1024
"""How much a client may leave unread before it gets no more pongs and errors."""


class ConnectionGateway(Protocol):
    """What a connection needs of the gateway it came through."""

    relay: Relay
    heartbeat: Heartbeat
    pending_answers: PendingAnswers
    bindings: tuple[bytes, ...]
    handshakes: WaitingConnections[FramedConnection]

    def timestamp(self) -> str: ...

    def prove(self, challenge: Challenge, mac: bytes) -> ParticipantRecord | None: ...

    def answer_to(self, challenge: Challenge) -> bytes: ...

    def authentication_failed(self, address: str) -> None: ...


class RawConnection(WatchedConversation):
    """A connection that carries bare messages, for programs of the bus itself.

    Also the base of the framed one.
    """

    listens = True

    def __init__(
        self,
        gateway: ConnectionGateway,
        record: ParticipantRecord | None,
        claim: object,
    ) -> None:
        self._gateway = gateway
        self._record = record
        self._claim = claim
        self._participant = ""
        self._joined = False
        self._entering: asyncio.Task[BridgeheadError | None] | None = None

    # -- Conversation ---------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        self._peer = peer
        self._gateway.heartbeat.watch(self)
        self._enter()

    def received(self, payload: bytes, *, text: bool) -> None:
        if not text:
            self._peer.close(UNSUPPORTED, "text frames only")
        elif self._joined:
            self._gateway.relay.take(self._participant, payload)

    def paused(self) -> None:
        if self._joined:
            self._gateway.relay.stalled(self._participant, self)

    def resumed(self) -> None:
        if self._joined:
            self._gateway.relay.drained(self._participant, self)

    def closed(self, code: int, reason: str) -> None:
        self._gateway.heartbeat.forget(self)
        self._depart(goodbye=False)

    # -- ParticipantConnection ------------------------------------------------

    def welcome(self, source: str) -> None:
        pass

    def deliver(self, delivery: Delivery) -> None:
        self._peer.send(delivery.body)

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        if code in NOT_YOUR_FAULT:
            self._reply(encode(Message(REFUSED, {"code": code, **details}, {})))

    def close(self, code: CloseCode) -> None:
        self._joined = False
        self._peer.close(code, code.reason)

    # -- inside ---------------------------------------------------------------

    def _reply(self, payload: bytes) -> None:
        """Send something that is not a delivery; cut off a client that does not read
        (B-43).
        """
        if self._peer.unsent > UNREAD_BYTES:
            self._peer.abort()
        else:
            self._peer.send(payload)

    def _enter(self) -> None:
        assert self._record is not None
        self._participant = self._record.id
        try:
            self._joined = True
            self._entering = self._gateway.relay.join(self._record, self, self._claim)
        except TooManyParticipants as full:
            self._turn_away(full)
        if self._entering is not None:
            self._joined = False
            self._peer.pause_reading()
            self._entering.add_done_callback(self._entered)

    def _entered(self, entering: asyncio.Task[BridgeheadError | None]) -> None:
        self._entering = None
        if entering.cancelled():
            return
        error = entering.result()
        if error is not None:
            self._turn_away(error)
        else:
            self._joined = True
        self._peer.resume_reading()

    def _turn_away(self, error: BridgeheadError) -> None:
        self._joined = False
        self._peer.close(TRY_LATER, error.message[:MOST_REASON])

    def _depart(self, *, goodbye: bool) -> None:
        if self._entering is not None:
            self._entering.cancel()
        if self._joined:
            self._joined = False
            self._gateway.relay.leave(self._participant, self, goodbye=goodbye)


class FramedConnection(RawConnection):
    """A connection of the profile `bridgehead.v1`: one frame per WebSocket message.

    Without a record it begins with the HMAC challenge.
    """

    def __init__(
        self,
        gateway: ConnectionGateway,
        record: ParticipantRecord | None,
        claim: object,
        address: str,
    ) -> None:
        super().__init__(gateway, record, claim)
        self._address = address
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._server_mac: bytes | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._ref: object = msgspec.UNSET
        """The reference of the current frame, which an error about it repeats."""

    # -- Conversation ---------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        if self._record is not None:
            super().opened(peer)
            return
        self._peer = peer
        leaving = self._gateway.handshakes.add(share_of(self._address), self)
        if leaving is not None:
            leaving.give_way()
        self._deadline = asyncio.get_running_loop().call_later(
            AUTHENTICATION_S, self._fail
        )
        peer.send(frames.challenge(self._nonce, self._gateway.timestamp()))

    def received(self, payload: bytes, *, text: bool) -> None:
        if not text:
            self._peer.close(UNSUPPORTED, "text frames only")
        elif self._joined and (sent := frames.read_message(payload)) is not None:
            self._ref = sent.ref
            self._gateway.relay.take(self._participant, payload, sent.m, sent.hops)
        else:
            self._take_other_frame(payload)

    def _take_other_frame(self, payload: bytes) -> None:
        """Take a frame that is not simply a message."""
        self._ref = msgspec.UNSET
        frame = frames.read(payload)
        if not self._joined:
            self._authenticate(frame)
        elif isinstance(frame, Malformed):
            self._take(payload, frame, 0, msgspec.UNSET)
        elif frame.l2 == "msg":
            message = None if frame.m is msgspec.UNSET else frame.m
            self._take(payload, message, frame.hops, frame.ref)
        elif frame.l2 not in ("ping", "pong", "bye", "answer"):
            self._take(payload, Malformed("type_missing_or_not_string"), 0, frame.ref)
        elif self._gateway.relay.admits(self._participant):
            self._handle(frame)

    def closed(self, code: int, reason: str) -> None:
        self._disarm()
        super().closed(code, reason)

    # -- ParticipantConnection ------------------------------------------------

    def welcome(self, source: str) -> None:
        self._peer.send(frames.welcome(source, self._server_mac))

    def deliver(self, delivery: Delivery) -> None:
        self._peer.send(frames.message(delivery.body, delivery.hops))

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        # A lost turn has nothing to do with the current frame.
        ref = msgspec.UNSET if code == "turn_lost" else self._ref
        self._reply(frames.error(code, details, ref))

    def close(self, code: CloseCode) -> None:
        if code is CloseCode.GOING_AWAY:
            self._peer.send(frames.bye("going_away"))
        super().close(code)

    def ping(self) -> None:
        self._peer.send(frames.ping(round(asyncio.get_running_loop().time(), 3)))

    # -- authentication -------------------------------------------------------

    def _authenticate(self, frame: frames.Frame | Malformed) -> None:
        """Take the first frame, which must prove who the participant is."""
        if self._deadline is None:
            return
        record = self._prove(frame)
        if record is None:
            self._fail()
            return
        self._disarm()
        self._record = record
        self._peer.lift_allowance()
        self._gateway.heartbeat.watch(self)
        self._enter()

    def _prove(self, frame: frames.Frame | Malformed) -> ParticipantRecord | None:
        """Return the participant that a frame proves, or None."""
        if isinstance(frame, Malformed) or frame.l2 != "auth":
            return None
        client_nonce = from_base64(frame.nonce, NONCE_BYTES)
        mac = from_base64(frame.mac)
        if client_nonce is None or mac is None:
            return None
        if not isinstance(frame.participant, str):
            return None
        for binding in self._gateway.bindings:
            challenge = Challenge(frame.participant, self._nonce, client_nonce, binding)
            record = self._gateway.prove(challenge, mac)
            if record is not None:
                self._server_mac = self._gateway.answer_to(challenge)
                self._claim = frame.claimed_id
                return record
        return None

    def _fail(self) -> None:
        self._disarm()
        self._gateway.authentication_failed(self._address)
        self._peer.send(frames.error("not_authenticated", {}))
        self._peer.close(
            CloseCode.NOT_AUTHENTICATED, CloseCode.NOT_AUTHENTICATED.reason
        )

    def give_way(self) -> None:
        """Close before authentication, to make room for others."""
        self._disarm()
        self._peer.close(TRY_LATER, "too many unauthenticated connections")

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._gateway.handshakes.discard(share_of(self._address), self)

    # -- frames ---------------------------------------------------------------

    def _take(self, payload: bytes, value: object, hops: object, ref: object) -> None:
        self._ref = ref
        self._gateway.relay.take(self._participant, payload, value, hops)

    def _handle(self, frame: frames.Frame) -> None:
        """Take a frame that is not a message; a pong needs no reaction."""
        if frame.l2 == "ping":
            self._reply(frames.pong(frame.t))
        elif frame.l2 == "bye":
            self._depart(goodbye=True)
            self._peer.close(1000, "bye")
        elif frame.l2 == "answer":
            self._answer(frame)

    def _answer(self, frame: frames.Frame) -> None:
        """Take an answer to a pending item; needs the grant `approve`."""
        item = frame.id
        text = frame.text
        shown = frame.shown if isinstance(frame.shown, str) else ""
        if not isinstance(item, str) or not isinstance(text, str):
            self._answered(
                ItemAnswered(str(item)[:64], False, "an answer needs id and text")
            )
            return
        self._gateway.pending_answers.answer(
            self._participant, ItemAnswer(item, text, shown), self._answered
        )

    def _answered(self, result: ItemAnswered) -> None:
        self._reply(frames.answered(result.to_data()))
