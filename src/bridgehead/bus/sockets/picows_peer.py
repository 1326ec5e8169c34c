"""WebSockets by picows, which parses and unmasks frames in C; the hub's speed rests on
that.

picows delivers frames, not messages, so we join fragments and refuse reserved bits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import weakref
from typing import Any, Final

from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeResponse,
)
from picows import WSUpgradeResponseWithListener as Accepted
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined]

from bridgehead.bus.sockets.base import (
    ABNORMAL,
    CLOSE_WAIT_S,
    ENDED,
    PROTOCOL_ERROR,
    TOO_BIG,
    UNREAD_PONGS,
    Conversation,
    Upgrade,
    shown_certificate,
)

_log: Final = logging.getLogger("bridgehead.bus.picows")
# The conversation hears what goes wrong on its connection; the log need not.
_log.setLevel(logging.CRITICAL)
_READ_BUFFER: Final = 4096
_HANDSHAKE_S: Final = 5.0
_LAST_BYTES: Final = 64 * 1024


class PicowsPeer(WSListener):
    """Connects one WebSocket of picows with its conversation, both ways."""

    def __init__(self, conversation: Conversation, max_message_bytes: int) -> None:
        self._conversation = conversation
        self._max_message_bytes = max_message_bytes
        self._parts: bytearray | None = None
        self._parts_are_text = True
        self._reading_stopped = False
        self._transport: Any = None
        self._protocol: weakref.ref[_Protocol] | None = None
        self._cutting_off: asyncio.TimerHandle | None = None

    # -- picows calls these ---------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._conversation.opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if transport.is_close_frame_sent and kind != WSMsgType.CLOSE:
            return
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._fail(PROTOCOL_ERROR, "reserved bits")
        elif kind == WSMsgType.TEXT and frame.fin and self._parts is None:
            self._conversation.received(frame.get_payload_as_bytes(), text=True)
        elif kind == WSMsgType.PONG:
            self._conversation.ponged()
        elif kind == WSMsgType.PING:
            self._pong(frame)
        elif kind == WSMsgType.CLOSE:
            self._answer_close(frame)
        else:
            self._take_part(frame)
        if frame.last_in_buffer:
            self._conversation.caught_up()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self._cutting_off is not None:
            self._cutting_off.cancel()
        conversation = self._conversation
        self._conversation = ENDED
        handshake = transport.close_handshake
        closing = None
        if handshake is not None:
            closing = handshake.recv or handshake.sent
        if closing is None:
            conversation.closed(ABNORMAL, "")
        else:
            conversation.closed(_code(closing.code), closing.reason or "")

    def pause_writing(self) -> None:
        self._conversation.paused()

    def resume_writing(self) -> None:
        if self._reading_stopped:
            self._reading_stopped = False
            self.resume_reading()
        self._conversation.resumed()

    # -- the conversation calls these -----------------------------------------

    @property
    def is_open(self) -> bool:
        """Return whether the handshake is complete."""
        return self._transport is not None

    @property
    def unsent(self) -> int:
        return int(self._transport.underlying_transport.get_write_buffer_size())

    @property
    def certificate(self) -> bytes | None:
        return shown_certificate(self._transport.underlying_transport)

    def send(self, payload: bytes) -> None:
        self._transport.send(WSMsgType.TEXT, payload)

    def write(self, frames: bytes) -> None:
        if self._transport.is_close_frame_sent or self._transport.is_disconnected:
            return
        self._transport.underlying_transport.write(frames)

    def ping(self) -> None:
        self._transport.send_ping()

    def grant(self, protocol: _Protocol, allowance: float) -> None:
        """Let the other side send so many bytes before it is trusted."""
        # The protocol refers to its listener. A strong reference back would leave each
        # ended connection to the garbage collector.
        self._protocol = weakref.ref(protocol)
        protocol.allowance = allowance

    def lift_allowance(self) -> None:
        protocol = self._protocol() if self._protocol is not None else None
        if protocol is not None:
            protocol.allowance = float("inf")

    def pause_reading(self) -> None:
        if not self._transport.underlying_transport.is_closing():
            self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.underlying_transport.is_closing():
            self._transport.underlying_transport.resume_reading()

    def close(self, code: int, reason: str = "") -> None:
        self._transport.send_close(code, reason)
        # Written data still goes out, but a client that reads nothing is cut off.
        if self._cutting_off is None:
            self._cutting_off = asyncio.get_running_loop().call_later(
                CLOSE_WAIT_S, self.abort
            )

    def abort(self) -> None:
        self._transport.underlying_transport.abort()

    # -- inside ---------------------------------------------------------------

    def _pong(self, frame: WSFrame) -> None:
        self._transport.send_pong(frame.get_payload_as_bytes())
        if not self._reading_stopped and self.unsent > UNREAD_PONGS:
            self._reading_stopped = True
            self.pause_reading()

    def _answer_close(self, frame: WSFrame) -> None:
        if not self._transport.is_close_frame_sent:
            code = frame.get_close_code()
            self._transport.send_close(
                WSCloseCode.OK if code == WSCloseCode.NO_INFO else code
            )
        self._transport.disconnect()

    def _take_part(self, frame: WSFrame) -> None:
        """Take a fragment, or a whole binary message."""
        is_first = frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY)
        expects_first = self._parts is None
        if is_first is not expects_first:
            self._fail(PROTOCOL_ERROR, "fragments out of order")
            return
        if self._parts is None:
            self._parts = bytearray()
            self._parts_are_text = frame.msg_type == WSMsgType.TEXT
        parts = self._parts
        parts += frame.get_payload_as_memoryview()
        if len(parts) > self._max_message_bytes:
            self._parts = None
            self._fail(TOO_BIG, "message too big")
        elif frame.fin:
            self._parts = None
            self._conversation.received(bytes(parts), text=self._parts_are_text)

    def _fail(self, code: int, reason: str) -> None:
        self._transport.send_close(code, reason)
        self._transport.disconnect()


class _Protocol(WSProtocol):  # type: ignore[misc]
    """The protocol of picows, with a limit on the bytes of an unknown client."""

    allowance = float("inf")

    def buffer_updated(self, size: int) -> None:
        self.allowance -= size
        if self.allowance < 0:
            self.transport.underlying_transport.abort()
            return
        super().buffer_updated(size)
        # After an error picows would go on reading, but we expect only a close frame.
        if self.transport.is_close_frame_sent and self.allowance > _LAST_BYTES:
            self.allowance = _LAST_BYTES


def _code(code: Any) -> int:
    # picows uses an enum for the codes it knows, and plain numbers for ours.
    return int(code.value) if isinstance(code, WSCloseCode) else int(code)


class _WithoutTcp:
    """A Unix connection that ignores the TCP options picows sets on every socket."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self
        return self._transport.get_extra_info(name, default)

    def fileno(self) -> int:
        return int(self._transport.get_extra_info("socket").fileno())

    def setsockopt(self, *_option: int) -> None: ...

    def getsockopt(self, *_option: int) -> int:
        return 0


def take_over(transport: asyncio.Transport, head: bytes, upgrade: Upgrade) -> None:
    """Turn a connection whose request head was read and accepted into a WebSocket."""
    peer = PicowsPeer(upgrade.conversation, upgrade.max_message_bytes)
    headers = None
    if upgrade.subprotocol:
        headers = {"Sec-WebSocket-Protocol": upgrade.subprotocol}
    response = WSUpgradeResponse.create_101_response(headers)
    protocol = _protocol(
        None,
        None,
        False,
        lambda _request: Accepted(response, peer),
        upgrade.max_message_bytes,
    )
    # An event loop decides how to read when reading starts, so it must stop while we
    # change the protocol.
    transport.pause_reading()
    transport.set_protocol(protocol)
    family = transport.get_extra_info("socket").family
    is_unix = family == getattr(socket, "AF_UNIX", None)
    protocol.connection_made(_WithoutTcp(transport) if is_unix else transport)
    _feed(protocol, head)
    peer.grant(protocol, upgrade.first_bytes)
    if not transport.is_closing():
        transport.resume_reading()


async def call(
    transport: asyncio.Transport,
    host: str,
    path: str,
    headers: list[tuple[str, str]],
    conversation: Conversation,
    max_message_bytes: int,
) -> None:
    """Ask the server at the other end of an open connection for a WebSocket."""
    peer = PicowsPeer(conversation, max_message_bytes)
    protocol = _protocol(host, path, True, lambda: peer, max_message_bytes, headers)
    transport.pause_reading()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.resume_reading()
    await protocol.wait_until_handshake_complete()
    # picows takes a connection that ends during the handshake for a completed one.
    if not peer.is_open:
        raise ConnectionResetError(
            "the server ended the connection during the handshake"
        )


def _protocol(
    host: str | None,
    path: str | None,
    client: bool,
    listener_factory: Any,
    max_message_bytes: int,
    headers: list[tuple[str, str]] | None = None,
) -> Any:
    return _Protocol(
        host,
        path,
        client,
        listener_factory,
        _log,
        True,  # disconnect on exception
        _HANDSHAKE_S,
        False,  # pings are the conversation's business
        20,
        20,
        WSAutoPingStrategy.PING_WHEN_IDLE,
        False,  # so are pongs
        max_message_bytes,
        headers,
        _READ_BUFFER,
    )


def _feed(protocol: Any, head: bytes) -> None:
    rest = memoryview(head)
    while rest:
        buffer = protocol.get_buffer(-1)
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        rest = rest[size:]
        protocol.buffer_updated(size)
