"""WebSockets by the protocol core of `websockets`: pure Python, for Unix sockets and where picows is not installed."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as HandshakeRequest
from websockets.http11 import Response as HandshakeResponse
from websockets.protocol import OPEN
from websockets.protocol import Protocol as Core
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from bridgehead.bus.sockets.base import (
    ABNORMAL,
    CLOSE_WAIT_S,
    ENDED,
    TOO_BIG,
    UNREAD_PONGS,
    Conversation,
    Upgrade,
    shown_certificate,
)

_HANDSHAKE_S: Final = 5.0


class WebsocketsPeer(asyncio.Protocol):
    """One WebSocket: passes what arrives to its conversation and sends what that says."""

    def __init__(self, core: Core, conversation: Conversation, max_message_bytes: int) -> None:
        self._core: Any = core
        self._conversation = conversation
        self._max_message_bytes = max_message_bytes
        self._parts = bytearray()
        self._parts_are_text = True
        self._transport: asyncio.Transport
        self._is_open = False
        self._reading_stopped = False
        self._cutting_off: asyncio.TimerHandle | None = None
        self.allowance = float("inf")
        self.handshake: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- asyncio calls these --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.allowance -= len(data)
        if self.allowance < 0:
            self.abort()
            return
        self._core.receive_data(data)
        self._digest()

    def eof_received(self) -> None:
        self._core.receive_eof()
        self._digest()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(ConnectionResetError("the connection ended during the handshake"))
        if self._cutting_off is not None:
            self._cutting_off.cancel()
        if self._is_open:
            self._is_open = False
            conversation, self._conversation = self._conversation, ENDED
            said = self._core.close_rcvd or self._core.close_sent
            conversation.closed(*((said.code, said.reason) if said else (ABNORMAL, "")))

    def pause_writing(self) -> None:
        self._conversation.paused()

    def resume_writing(self) -> None:
        if self._reading_stopped:
            self._reading_stopped = False
            self.resume_reading()
        self._conversation.resumed()

    # -- the conversation calls these -----------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def certificate(self) -> bytes | None:
        return shown_certificate(self._transport)

    def send(self, payload: bytes) -> None:
        if self._core.state is OPEN:
            self._core.send_text(payload)
            self._flush()

    def write(self, frames: bytes) -> None:
        if self._core.state is OPEN:
            self._transport.write(frames)

    def ping(self) -> None:
        if self._core.state is OPEN:
            self._core.send_ping(b"")
            self._flush()

    def lift_allowance(self) -> None:
        self.allowance = float("inf")

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self, code: int, reason: str = "") -> None:
        if self._core.state is OPEN:
            self._core.send_close(code, reason)
            self._flush()
        if self._cutting_off is None:
            self._cutting_off = asyncio.get_running_loop().call_later(CLOSE_WAIT_S, self.abort)

    def abort(self) -> None:
        self._transport.abort()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _digest(self) -> None:
        for event in self._core.events_received():
            if isinstance(event, HandshakeRequest):
                self._accept(event)
            elif isinstance(event, HandshakeResponse):
                self._answered()
            elif self._is_open:
                self._take_frame(event)
        self._flush()
        if self._is_open:
            self._conversation.caught_up()

    def _accept(self, request: HandshakeRequest) -> None:
        self._core.send_response(self._core.accept(request))
        self._flush()
        if self._core.state is OPEN:
            self._open()

    def _answered(self) -> None:
        if self._core.handshake_exc is not None:
            self.handshake.set_exception(self._core.handshake_exc)
        else:
            self._open()

    def _open(self) -> None:
        self._is_open = True
        if not self.handshake.done():
            self.handshake.set_result(None)
        self._conversation.opened(self)

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._conversation.ponged()
        elif frame.opcode is Opcode.PING and not self._reading_stopped and self.unsent > UNREAD_PONGS:
            self._reading_stopped = True
            self.pause_reading()
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._parts_are_text = frame.opcode is Opcode.TEXT
        self._parts += frame.data
        if len(self._parts) > self._max_message_bytes:
            self._parts = bytearray()
            self._core.fail(TOO_BIG, "message too big")
        elif frame.fin:
            message, self._parts = bytes(self._parts), bytearray()
            self._conversation.received(message, text=self._parts_are_text)

    def _flush(self) -> None:
        for data in self._core.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


def take_over(transport: asyncio.Transport, head: bytes, upgrade: Upgrade) -> None:
    """Go on with a connection whose request head has been read and found acceptable."""
    offered = [Subprotocol(upgrade.subprotocol)] if upgrade.subprotocol else None
    core = ServerProtocol(subprotocols=offered, max_size=upgrade.max_message_bytes)
    peer = WebsocketsPeer(core, upgrade.conversation, upgrade.max_message_bytes)
    peer.connection_made(transport)
    transport.set_protocol(peer)
    # The request first: the protocol core must have accepted it before it sees frames.
    request, end, frames = head.partition(b"\r\n\r\n")
    peer.data_received(request + end)
    peer.allowance = upgrade.first_bytes
    if frames:
        peer.data_received(frames)


async def call(
    transport: asyncio.Transport,
    host: str,
    path: str,
    headers: list[tuple[str, str]],
    conversation: Conversation,
    max_message_bytes: int,
) -> None:
    """Ask the server at the other end of an open connection for a WebSocket."""
    core = ClientProtocol(parse_uri(f"ws://{host}{path}"), max_size=max_message_bytes)
    request = core.connect()
    for name, value in headers:
        request.headers[name] = value
        if name.lower() == "sec-websocket-protocol":
            core.available_subprotocols = [Subprotocol(value)]
    peer = WebsocketsPeer(core, conversation, max_message_bytes)
    peer.connection_made(transport)
    transport.set_protocol(peer)
    core.send_request(request)
    peer._flush()
    async with asyncio.timeout(_HANDSHAKE_S):
        await peer.handshake
