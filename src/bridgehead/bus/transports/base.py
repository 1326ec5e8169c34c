"""What a bridge needs of a hub: receive every message in order, and send messages."""

from __future__ import annotations

from typing import Final, Protocol

from bridgehead.bus.wire.message import Message
from bridgehead.errors import BridgeheadError

_ENCRYPTED_KEYS: Final = {"ciphertext", "tag", "nonce"}


class HubListener:
    """Receives what the hub carries and hears what becomes of the link to it.

    Methods are called on the event loop, in the hub's order. A subclass overrides
    those it needs.
    """

    def opened(self) -> None:
        """Note that the hub can be written to."""

    def received(self, message: Message) -> None: ...

    def ignored(self, reason: str) -> None:
        """Note that a frame was dropped because it is not a message."""

    def lost(self, reason: str) -> None:
        """Note that the connection ended; the transport may be connected again."""

    def turn_lost(self, message: Message) -> None:
        """Note that the hub that had this question is gone; no answer will come."""


class Audience(Protocol):
    """The sources and sites a bridge serves at this moment."""

    def sources(self) -> frozenset[str]: ...

    def sites(self) -> frozenset[str]: ...


class Transport(Protocol):
    """One way to reach a hub."""

    async def connect(self, listener: HubListener) -> None:
        """Connect to the hub; raise `HubRefused` or another `BridgeheadError`."""
        ...

    def send(self, message: Message, echo: bool = True) -> bool:
        """Send a message without waiting; return False if the hub takes no more.

        Without `echo` a hub of ours does not send the message back.
        """
        ...

    def expect(self, audience: Audience) -> None:
        """Note whom this bridge serves now.

        Only a fabric that delivers selectively needs to know.
        """
        ...

    async def close(self) -> None: ...


def is_encrypted(value: object) -> bool:
    """Return whether a decoded frame is an encrypted message of the reference bus."""
    return isinstance(value, dict) and value.keys() >= _ENCRYPTED_KEYS


class HubRefused(BridgeheadError):
    """The hub does not accept who we are."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"the hub at {url} refused the connection: {cause}",
            hint="check the token of this hub",
        )
