"""Core NATS for the fabric between hubs (bus §13): connecting, publishing in order, following, and the subjects.

Identifiers of participants may hold characters that are not legal in subjects, so they travel as base32 tokens.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.bus.settings import without_credentials
from bridgehead.bus.transports.base import Audience, HubRefused
from bridgehead.errors import BridgeheadError, ConfigError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription

_log: Final = logging.getLogger("bridgehead.bus.nats")
CONNECT_S: Final = 5
CLOSE_S: Final = 3.0
PING_S: Final = 20


async def open_nats(url: str, lost: Callable[[str], None], *, name: str) -> Client:
    """Connect; `lost` is called once when the connection ends by itself."""
    try:
        import nats
        from nats.errors import Error
    except ImportError as error:
        raise NatsMissing from error
    reported = False

    async def ended(*_reason: object) -> None:
        nonlocal reported
        if not reported:
            reported = True
            lost("the NATS server went away")

    async def noted(error: Exception) -> None:
        _log.warning("nats: %s", error)

    try:
        return await nats.connect(
            url,
            name=name,
            allow_reconnect=False,
            connect_timeout=CONNECT_S,
            disconnected_cb=ended,
            closed_cb=ended,
            error_cb=noted,
            ping_interval=PING_S,
            no_echo=True,
        )
    except (TimeoutError, Error, OSError) as error:
        if "authorization" in str(error).lower():
            raise HubRefused(without_credentials(url), str(error)) from error
        raise NatsUnreachable(url, str(error) or type(error).__name__) from error


async def close_nats(client: Client | None) -> None:
    """Close without complaint, whatever state it is in."""
    if client is None or client.is_closed:
        return
    from nats.errors import Error

    try:
        # The library may wait for a server that is gone; our own end must not.
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    except (Error, OSError, TimeoutError) as error:
        _log.debug("nats: closing: %s", error)


class Publisher:
    """Publishes in order without making the caller wait; bounded."""

    def __init__(self, client: Client, *, limit: int = 10_000) -> None:
        self._client = client
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(limit)
        self._task = asyncio.get_running_loop().create_task(self._publish())

    def put(self, subject: str, payload: bytes) -> bool:
        """Whether it will be sent; False when it is too large for the server or too much waits already."""
        if len(payload) > self._client.max_payload or self._client.is_closed:
            return False
        try:
            self._waiting.put_nowait((subject, payload))
        except asyncio.QueueFull:
            return False
        return True

    async def _publish(self) -> None:
        from nats.errors import Error

        while True:
            subject, payload = await self._waiting.get()
            try:
                await self._client.publish(subject, payload)
            except Error as error:
                _log.warning("nats: %s was not published: %s", subject, error)

    def stop(self) -> None:
        self._task.cancel()


class Follower:
    """Subscribed to everything that is for those a bridge serves, and to nothing else."""

    def __init__(self, client: Client, subjects: Subjects, deliver: Callable[[bytes], None]) -> None:
        self._client = client
        self._subjects = subjects
        self._deliver = deliver
        self._followed: dict[str, Subscription] = {}
        self._audience: Audience | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    def expect(self, audience: Audience | None) -> None:
        self._audience = audience
        self._changed.set()

    async def begin(self, url: str) -> None:
        """Follow everybody there is at the start; a server that goes away meanwhile was never reached."""
        from nats.errors import Error

        try:
            await self.catch_up()
        except Error as error:
            raise NatsUnreachable(url, str(error)) from error

    async def catch_up(self) -> None:
        """Subscribe to whom we serve now, and no longer to whom we do not; the server knows when this returns."""
        async with self._turn:
            self._changed.clear()
            wanted = self._wanted()
            new = {
                subject: await self._client.subscribe(subject, cb=self._received)
                for subject in wanted - self._followed.keys()
            }
            if new:
                await self._client.flush()
            self._followed |= new
            for subject in self._followed.keys() - wanted:
                await self._followed.pop(subject).unsubscribe()

    def _wanted(self) -> set[str]:
        if self._audience is None:
            return set()
        wanted = {self._subjects.for_source(source) for source in self._audience.sources()}
        return wanted | {self._subjects.for_site(site) for site in self._audience.sites()}

    async def _keep_up(self) -> None:
        from nats.errors import Error

        while True:
            await self._changed.wait()
            try:
                await self.catch_up()
            except Error as error:  # the connection is going down, and its owner is told by it
                _log.debug("nats: %s", error)

    async def _received(self, delivered: Any) -> None:
        self._deliver(delivered.data)

    def stop(self) -> None:
        self._task.cancel()


class Subjects(msgspec.Struct, frozen=True):
    """The subjects of one deployment."""

    deployment: str
    """Stands in them as it is, so that permissions of a server can name it."""

    def said_by(self, source: str) -> str:
        """Messages from one participant."""
        return f"bh.{self.deployment}.in.{token(source)}"

    @property
    def said_by_anybody(self) -> str:
        return f"bh.{self.deployment}.in.*"

    def for_source(self, source: str) -> str:
        """Deliveries to one participant."""
        return f"bh.{self.deployment}.out.{token(source)}"

    def for_site(self, site: str) -> str:
        """Deliveries to one group."""
        return f"bh.{self.deployment}.site.{token(site)}"

    def bucket(self, name: str) -> str:
        """A key-value bucket of the registry."""
        return f"bh-{self.deployment}-{name}"


def token(identifier: str) -> str:
    """An identifier as one token of a subject or one key of a bucket."""
    return (
        base64.b32encode(identifier.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=").lower()
        or "0"
    )


def untoken(text: str) -> str:
    """The identifier a token stands for."""
    if text == "0":
        return ""
    padded = text.upper() + "=" * (-len(text) % 8)
    try:
        return base64.b32decode(padded).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not a token: {text!r}") from error


class NatsMissing(ConfigError):
    """The extra is not installed."""

    def __init__(self) -> None:
        super().__init__("NATS support is not installed", hint="pip install 'bridgehead[nats]'")


class NatsUnreachable(BridgeheadError):
    """No NATS server answers."""

    def __init__(self, url: str, cause: str) -> None:
        shown = without_credentials(url)
        super().__init__(f"{shown} cannot be reached: {cause}", hint="check the address of the NATS server")
