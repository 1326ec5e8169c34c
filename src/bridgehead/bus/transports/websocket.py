"""A hub behind a WebSocket: ours in another process, or ovos-messagebus (bus §11.1)."""

from __future__ import annotations

from typing import Final

from bridgehead.bus.sockets.base import (
    PING_S,
    SILENCE_S,
    Heartbeat,
    Peer,
    WatchedConversation,
)
from bridgehead.bus.sockets.dial import DialRefused, Target, dial
from bridgehead.bus.transports.base import (
    Audience,
    HubListener,
    HubRefused,
    is_encrypted,
)
from bridgehead.bus.wire.message import (
    Malformed,
    Message,
    decode_json,
    encode,
    read_value,
)

MAX_UNSENT_BYTES: Final = 32 * 1024 * 1024


class WebSocketTransport:
    """One connection to a hub."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ping_s: float = PING_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._url = url
        self._headers = (("Authorization", f"Bearer {token}"),) if token else ()
        self._heartbeat = Heartbeat(ping_s=ping_s, silence_s=silence_s)
        self._conversation: _HubConversation | None = None

    async def connect(self, listener: HubListener) -> None:
        conversation = _HubConversation(self._url, listener, self._heartbeat)
        try:
            await dial(Target(self._url, self._headers), conversation)
        except DialRefused as refused:
            if refused.status in (401, 403):
                raise HubRefused(self._url, f"HTTP {refused.status}") from refused
            raise
        self._conversation = conversation

    def send(self, message: Message, echo: bool = True) -> bool:
        return self._conversation is not None and self._conversation.send(message)

    def expect(self, audience: Audience) -> None:
        pass

    async def close(self) -> None:
        if self._conversation is not None:
            self._conversation.leave()
            self._conversation = None
        self._heartbeat.stop()


class _HubConversation(WatchedConversation):
    """A conversation with a hub; ends if the hub stops answering pings."""

    def __init__(self, url: str, listener: HubListener, heartbeat: Heartbeat) -> None:
        self._url = url
        self._listener: HubListener | None = listener
        self._heartbeat = heartbeat
        self._is_open = False

    def send(self, message: Message) -> bool:
        if not self._is_open:
            return False
        if not self._keeps_up and self._peer.unsent > MAX_UNSENT_BYTES:
            # The hub does not read. Dialling again shows whether it is alive.
            self._peer.abort()
            return False
        self._peer.send(encode(message))
        return True

    def leave(self) -> None:
        self._listener = None
        if self._is_open:
            self._peer.close(1000, "leaving")

    def opened(self, peer: Peer) -> None:
        self._peer = peer
        self._is_open = True
        self._heartbeat.watch(self)

    def received(self, payload: bytes, *, text: bool) -> None:
        if self._listener is None:
            return
        value = decode_json(payload)
        read = read_value(value)
        if not isinstance(read, Malformed):
            self._listener.received(read.message)
        elif is_encrypted(value):
            # The members of this hub share a key. It can be used once
            # websocket.secret_key is unset and its port is protected otherwise.
            self._end(
                f"the hub at {self._url} carries encrypted payloads "
                "(websocket.secret_key), which are not supported"
            )
        else:
            self._listener.ignored("malformed")

    def closed(self, code: int, reason: str) -> None:
        self._heartbeat.forget(self)
        self._is_open = False
        self._end(f"closed ({code}{' ' + reason if reason else ''})")

    def _end(self, reason: str) -> None:
        if self._listener is not None:
            listener = self._listener
            self._listener = None
            listener.lost(reason)
        if self._is_open:
            self._peer.close(1000, "")
