"""The gateway (bus §10) decides who may connect, before it reads anything they say.

One listener serves the framed and the bare profile, the chat page, webhooks, pairing
and metrics. A request is judged by its `Host`, its `Origin`, its address and its
credential, in this order; only then is a WebSocket opened.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

import msgspec

from bridgehead.bus.access.certificates import FRAMED_PATH, certified_participant
from bridgehead.bus.access.credentials import (
    NO_BINDING,
    Challenge,
    FailedAttempts,
    RefusalCount,
    bearer_token,
    certificate_binding,
)
from bridgehead.bus.access.enrolled import EnrolledParticipants
from bridgehead.bus.gateway.connections import FramedConnection, RawConnection
from bridgehead.bus.gateway.http_turns import HttpTurns
from bridgehead.bus.gateway.pending_answers import PendingAnswers
from bridgehead.bus.interfaces import Announcer, Approvals, LogAnnouncer, Notices
from bridgehead.bus.participants.record import HARD_FRAME_BYTES, ParticipantRecord, Role
from bridgehead.bus.relay import Relay
from bridgehead.bus.sockets.base import (
    NOT_FOUND,
    PING_S,
    SILENCE_S,
    Answer,
    Heartbeat,
    Request,
    Site,
    Upgrade,
    WaitingConnections,
    share_of,
)
from bridgehead.bus.sockets.origin import own_names, refusal
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.frames import from_base64
from bridgehead.host.clock import Clock, SystemClock, iso_ms

_log: Final = logging.getLogger("bridgehead.bus")

RAW_PATH: Final = "/bridge/raw"
CLAIM_HEADER: Final = "x-bridgehead-claimed-id"
HANDSHAKE_BYTES: Final = 8192
RELOAD_S: Final = 0.5

UNAUTHORIZED: Final = Answer(
    401, b"not authenticated\n", headers=(("WWW-Authenticate", "Bearer"),)
)
NO_FRAMES: Final = Answer(400, b"the subprotocol bridgehead.v1 is spoken here\n")
TOO_MANY: Final = Answer(
    429, b"too many failed attempts\n", headers=(("Retry-After", "60"),)
)
BUSY: Final = Answer(503, b"too many strangers at the door\n")


class GatewaySettings(msgspec.Struct, frozen=True):
    """How a gateway treats those who connect."""

    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    client_certificates: bool = False
    """Use mutual TLS instead of keys and tokens."""
    max_handshakes: int = 256
    failed_attempts: int = 20
    ping_s: float = PING_S
    silence_s: float = SILENCE_S


class Gateway(Site):
    """The site behind one listener."""

    def __init__(
        self,
        relay: Relay,
        directory: EnrolledParticipants,
        settings: GatewaySettings | None = None,
        *,
        binding: bytes = NO_BINDING,
        approvals: Approvals | None = None,
        notices: Notices | None = None,
        announcer: Announcer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.relay = relay
        self.directory = directory
        self.settings = settings or GatewaySettings()
        self.bindings: tuple[bytes, ...] = (binding,)
        """Bindings of the certificate in use and of the previous one, because a client
        may have connected while it changed.
        """
        self.heartbeat = Heartbeat(
            ping_s=self.settings.ping_s, silence_s=self.settings.silence_s
        )
        self.endpoints: dict[str, Site] = {}
        """What is served below each first segment of a path."""
        self.pending_answers = PendingAnswers(relay.bridge.known, approvals, notices)
        self.http_turns = HttpTurns()
        relay.hears_answer = self.pending_answers.hears
        relay.hub_refused = lambda reason: self.refused("the hub", reason)
        self._announcer = announcer or LogAnnouncer()
        self._clock = clock or SystemClock()
        self._names = own_names(socket.gethostname(), self.settings.hosts)
        self._failures = FailedAttempts(limit=self.settings.failed_attempts)
        self._refusals = RefusalCount()
        self.handshakes: WaitingConnections[FramedConnection] = WaitingConnections(
            self.settings.max_handshakes
        )
        """Connections that have not authenticated yet."""
        self._watching: asyncio.Task[None] | None = None

    # -- Site -----------------------------------------------------------------

    def upgrade(self, request: Request) -> Upgrade | Answer:
        endpoint = self.endpoints.get(_first_segment(request.path))
        is_endpoint = endpoint is not None
        # Endpoints admit the pages we serve; the participants' paths admit only pages
        # whose origin is listed.
        turned_away = refusal(
            request.headers,
            names=self._names,
            listed=() if is_endpoint else self.settings.origins,
            same_origin=is_endpoint,
            secure=request.secure,
        )
        if turned_away is not None:
            self.refused(request.address, "origin")
            return turned_away
        if endpoint is not None:
            return endpoint.upgrade(request)
        if request.path not in (FRAMED_PATH, RAW_PATH):
            return NOT_FOUND
        if request.path == FRAMED_PATH and not _offers_frames(request):
            return NO_FRAMES
        return self._admit(request)

    def body_limit(self, request: Request) -> int | Answer:
        endpoint = self.endpoints.get(_first_segment(request.path))
        if endpoint is None:
            return super().body_limit(request)
        return endpoint.body_limit(request)

    async def respond(self, request: Request) -> Answer:
        turned_away = refusal(
            request.headers, names=self._names, same_origin=True, secure=request.secure
        )
        if turned_away is not None:
            return turned_away
        endpoint = self.endpoints.get(_first_segment(request.path))
        if endpoint is not None:
            return await endpoint.respond(request)
        if request.path in (FRAMED_PATH, RAW_PATH):
            return Answer(426, b"this is a WebSocket\n")
        return NOT_FOUND

    def _admit(self, request: Request) -> Upgrade | Answer:
        # Whoever was added or revoked a moment ago is known or unknown from now on.
        self.reload()
        token = bearer_token(request.headers.get("authorization"))
        if self.settings.client_certificates:
            record = self._certified(request)
        elif token is not None:
            record = self.directory.by_token(token, self._clock.now())
        elif request.path == FRAMED_PATH:
            return self._challenge(request)
        else:
            record = None
        if record is None:
            return self.turn_away(request.address)
        return self._open(request, record)

    def _certified(self, request: Request) -> ParticipantRecord | None:
        if request.peer_certificate is None:
            return None
        participant_id = certified_participant(request.peer_certificate)
        if participant_id is None:
            return None
        return self.directory.by_certificate(participant_id)

    def _challenge(self, request: Request) -> Upgrade | Answer:
        connection = FramedConnection(self, None, None, request.address)
        return Upgrade(
            connection, HARD_FRAME_BYTES, frames.SUBPROTOCOL, HANDSHAKE_BYTES
        )

    def _open(self, request: Request, record: ParticipantRecord) -> Upgrade | Answer:
        claim = request.headers.get(CLAIM_HEADER)
        if request.path == FRAMED_PATH:
            connection: RawConnection = FramedConnection(
                self, record, claim, request.address
            )
            return Upgrade(connection, HARD_FRAME_BYTES, frames.SUBPROTOCOL)
        if record.role is Role.PEER:
            # Without frames nobody counts hops, and a message could circulate between
            # two bridges for ever (B-56).
            return Answer(403, b"a peer needs the framed profile\n")
        return Upgrade(RawConnection(self, record, claim), HARD_FRAME_BYTES)

    # -- authentication -------------------------------------------------------

    def shows(self, certificate: bytes) -> None:
        """Note the certificate with which connections are secured from now on."""
        self.bindings = (certificate_binding(certificate), self.bindings[0])

    def timestamp(self) -> str:
        return iso_ms(self._clock.now())

    def is_blocked(self, address: str) -> bool:
        return self._failures.too_many(share_of(address), self._clock.monotonic())

    def prove(self, challenge: Challenge, mac: bytes) -> ParticipantRecord | None:
        """Return the participant whose key made `mac`, or None."""
        self.reload()
        return self.directory.by_mac(challenge, mac)

    def answer_to(self, challenge: Challenge) -> bytes:
        """Return the server's own proof for a participant that has proved itself."""
        key = from_base64(self.directory.credentials[challenge.participant].key)
        assert key is not None
        return challenge.server_mac(key)

    def authentication_failed(self, address: str) -> None:
        self._failures.note(share_of(address), self._clock.monotonic())
        self.refused(address, "not_authenticated")

    def turn_away(self, address: str) -> Answer:
        """Return the answer to a request without a valid credential.

        A valid one is admitted however many attempts from its address have failed:
        many clients may share an address, and what prevents guessing is the length of
        keys and tokens.
        """
        answer = TOO_MANY if self.is_blocked(address) else UNAUTHORIZED
        self.authentication_failed(address)
        return answer

    def refused(self, address: str, reason: str) -> None:
        """Note that somebody was turned away.

        Refusals are reported in summaries, because strangers decide how many there are.
        """
        self._refusals.note(address, reason)
        self._report_refusals()

    def _report_refusals(self) -> None:
        summary = self._refusals.take(self._clock.monotonic())
        if summary is None:
            return
        _log.warning(
            "refused %d connections or messages, the last from %s: %s",
            summary.count,
            summary.address,
            summary.reason,
        )
        self._announce("bus.refused", **msgspec.structs.asdict(summary))

    def _announce(self, kind: str, **facts: object) -> None:
        self._announcer.announce(kind, {"at": self.timestamp(), **facts})

    # -- live reload ----------------------------------------------------------

    def watch_files(self) -> None:
        """Apply changes to records and credentials as they appear."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_S)
            await asyncio.to_thread(self.directory.read_ahead)
            self.reload()
            self._report_refusals()

    def reload(self) -> None:
        change = self.directory.reload(self._clock.monotonic())
        for record in change.changed:
            self.relay.change_record(record)
            self._announce("bus.changed", participant=record.id)
        expired = [
            name
            for name in self.directory.expired(self._clock.now())
            if name in self.relay.connected
        ]
        for participant_id in (*change.revoked, *expired):
            self.relay.revoke(participant_id)
            self._announce(
                "bus.revoked",
                participant=participant_id,
                reason="expired" if participant_id in expired else "revoked",
            )

    async def stop(self) -> None:
        self.heartbeat.stop()
        self.pending_answers.close()
        if self._watching is not None:
            self._watching.cancel()


def _offers_frames(request: Request) -> bool:
    offered = request.headers.get("sec-websocket-protocol", "").split(",")
    return frames.SUBPROTOCOL in [name.strip() for name in offered]


def _first_segment(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else ""
