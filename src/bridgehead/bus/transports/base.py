"""What a bridge needs of a hub: to get every message in order, and to put messages on
it.
"""

from __future__ import annotations

from typing import Final, Protocol

from bridgehead.bus.wire.message import Message
from bridgehead.errors import BridgeheadError

_ENCRYPTED_KEYS: Final = {"ciphertext", "tag", "nonce"}


class HubListener:
    """Gets what the hub carries and what becomes of the link to it.

    Each notices what it cares for.

    Called on the event loop, in the order of the hub.
    """

    def opened(self) -> None:
        """Note that the hub can be written to."""

    def received(self, message: Message) -> None: ...

    def ignored(self, reason: str) -> None:
        """Note that a frame that is no message was dropped."""

    def lost(self, reason: str) -> None:
        """Note that the connection ended; the transport may be connected again."""

    def turn_lost(self, message: Message) -> None:
        """Note that the hub that had this question is gone; no answer will come."""


class Audience(Protocol):
    """Those a bridge serves at this moment."""

    def sources(self) -> frozenset[str]: ...

    def sites(self) -> frozenset[str]: ...


class Transport(Protocol):
    """One way to reach a hub."""

    async def connect(self, listener: HubListener) -> None:
        """Be on the hub when this returns.

        Raises `HubRefused` or any other `BridgeheadError`.
        """
        ...

    def send(self, message: Message, echo: bool = True) -> bool:
        """Put a message on the hub without waiting; False when it takes nothing more.

        Our own leave the echo out.
        """
        ...

    def expect(self, audience: Audience) -> None:
        """Note whom this bridge serves now.

        Only a fabric that delivers selectively needs to know.
        """
        ...

    async def close(self) -> None: ...


def is_encrypted(value: object) -> bool:
    """Whether a decoded frame is an encrypted message of the reference bus."""
    return isinstance(value, dict) and value.keys() >= _ENCRYPTED_KEYS


class HubRefused(BridgeheadError):
    """The hub does not accept who we are."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"the hub at {url} refused the connection: {cause}",
            hint="check the token of this hub",
        )
