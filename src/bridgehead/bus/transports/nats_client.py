"""Core NATS for the fabric between hubs (bus §13).

Connects, publishes in order, keeps subscriptions and names the subjects. Participant
ids may contain characters that are not legal in subjects, so they travel as base32
tokens.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.bus.settings import without_credentials
from bridgehead.bus.transports.base import Audience, HubRefused
from bridgehead.errors import BridgeheadError, ConfigError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription

_log: Final = logging.getLogger("bridgehead.bus.nats")
CONNECT_S: Final = 2
CLOSE_S: Final = 3.0
FLUSH_S: Final = 10
WATCH_S: Final = 0.5
PING_S: Final = 2
"""A server that vanished is noticed after two of these."""


_watching: Final[set[asyncio.Task[None]]] = set()


class NatsAccess(msgspec.Struct, frozen=True):
    """The addresses of a fabric's servers and what we authenticate with."""

    urls: tuple[str, ...]
    credentials: str | None = None
    """A credentials file (user JWT and seed)."""
    ca: str | None = None
    """A file with the certificate authority of the servers, if it is not public."""

    @classmethod
    def parse(
        cls, text: str, credentials: str | None = None, ca: str | None = None
    ) -> NatsAccess:
        """Read `nats://one:4222,nats://two:4222`; `tls://` insists on TLS."""
        urls = tuple(part.strip() for part in text.split(",") if part.strip())
        return cls(urls, credentials, ca)

    def __str__(self) -> str:
        return ", ".join(map(without_credentials, self.urls))


async def open_nats(
    access: NatsAccess, lost: Callable[[str], None], *, name: str
) -> Client:
    """Connect to the first server that answers.

    `lost` is called once when the connection ends without our closing it.
    """
    problems = []
    for url in access.urls:
        try:
            return await _open_url(url, access, lost, name)
        except NatsUnreachable as error:
            problems.append(error.cause)
    raise NatsUnreachable(str(access), "; ".join(dict.fromkeys(problems)))


async def _open_url(
    url: str, access: NatsAccess, lost: Callable[[str], None], name: str
) -> Client:
    try:
        from nats.errors import Error
    except ImportError as error:
        raise ConfigError(
            "NATS support is not installed", hint="pip install 'bridgehead[nats]'"
        ) from error
    options = _login_options(access, url)
    events = _ConnectionEvents(lost)
    client = _strict_client(needs_tls="tls" in options)
    try:
        await client.connect(
            url,
            name=name,
            allow_reconnect=False,
            connect_timeout=CONNECT_S,
            disconnected_cb=events.report_end,
            closed_cb=events.report_end,
            error_cb=events.note_error,
            ping_interval=PING_S,
            # Otherwise the library dials a dead address for ever without saying why
            # it is dead.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            no_echo=True,
            **options,
        )
    except BaseException as error:  # also when we are cancelled
        events.is_end_reported = True  # a connection that never was is not lost
        await close_nats(client)
        if not isinstance(error, TimeoutError | Error | OSError):
            raise
        cause = str(events.last_error or error)
        has_credentials = access.credentials is not None or "@" in url
        wants_credentials = bool(client._server_info.get("auth_required"))
        raise _connection_error(
            url, cause, lacks_credentials=wants_credentials and not has_credentials
        ) from error
    task = asyncio.get_running_loop().create_task(events.watch_end(client))
    _watching.add(task)
    task.add_done_callback(_watching.discard)
    return client


def _login_options(access: NatsAccess, url: str) -> dict[str, Any]:
    """Return what the library needs to authenticate, and for TLS if we insist on it."""
    options: dict[str, Any] = {}
    if access.credentials:
        options |= _credential_options(Path(access.credentials))
    if access.ca is not None or url.startswith("tls://"):
        options["tls"] = ssl.create_default_context(cafile=access.ca)
    return options


def _connection_error(
    url: str, cause: str, *, lacks_credentials: bool
) -> HubRefused | NatsUnreachable:
    """Return the error that explains why a server could not be connected to."""
    address = without_credentials(url)
    # The server's refusal may be lost with the connection, so what it said about
    # credentials at the beginning comes first.
    if lacks_credentials:
        return HubRefused(address, "it asks for credentials, and none are configured")
    if "authorization" in cause.lower():
        return HubRefused(address, cause)
    return NatsUnreachable(address, cause or "it does not answer")


class _ConnectionEvents:
    """Takes what the library reports about one connection."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self.is_end_reported = False
        self.last_error: Exception | None = None
        """The last error that has a text."""

    async def note_error(self, error: Exception) -> None:
        _log.info("nats: %s", error)
        if str(error):
            self.last_error = error

    async def report_end(self, *_reason: object) -> None:
        if not self.is_end_reported:
            self.is_end_reported = True
            self._lost("the NATS server closed the connection")

    async def watch_end(self, client: Client) -> None:
        """Report the end even if the library fails while closing and calls nobody."""
        while not client.is_closed:
            await asyncio.sleep(WATCH_S)
        await self.report_end()


def _strict_client(*, needs_tls: bool) -> Client:
    """Return a client that, if TLS is needed, sends no credentials without it."""
    from nats.aio.client import Client as NatsClient
    from nats.errors import Error

    class StrictClient(NatsClient):
        def _connect_command(self) -> bytes:
            """Return the command that carries our credentials.

            The library leaves it to the server whether there is TLS.
            """
            if needs_tls and not self._server_info.get("tls_required"):
                raise Error("the server does not offer TLS")
            return super()._connect_command()

        async def flush(self, timeout: int = FLUSH_S) -> None:
            """Return when the server has everything that was sent so far.

            The library's ping may overtake what its flusher has not written yet, an
            unsubscription for example. When that ping is answered, everything before
            it has been written, so a second ping arrives last.
            """
            await super().flush(timeout)
            await super().flush(timeout)

    return StrictClient()


def _credential_options(path: Path) -> dict[str, Any]:
    """Return the callbacks that authenticate us with a credentials file.

    The file holds the user's JWT and the seed of the key to sign with.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        blocks = re.findall(
            r"-+BEGIN [A-Z ]+-+\s*(\S+)\s*-+END", path.read_text("ascii")
        )
        encoded_seed = blocks[1]
        seed = base64.b32decode(_padded(encoded_seed))
        key = Ed25519PrivateKey.from_private_bytes(seed[2:34])
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(
            f"{path} is not a credentials file: {error!s}",
            hint="it must contain a user JWT and a seed, as written by nsc",
        ) from error
    return {
        "user_jwt_cb": lambda: blocks[0].encode(),
        "signature_cb": lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    }


async def close_nats(client: Client | None) -> None:
    """Close a client in whatever state it is, without raising."""
    if client is None or client.is_closed:
        return
    from nats.errors import Error

    try:
        # The library may wait for a server that is gone.
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    except (Error, OSError, TimeoutError) as error:
        _log.debug("nats: closing: %s", error)


class Publisher:
    """Publishes in order without making the caller wait; bounded."""

    def __init__(self, client: Client, *, limit: int = 10_000) -> None:
        self._client = client
        self._waiting: asyncio.Queue[tuple[str, bytes, str]] = asyncio.Queue(limit)
        self._task = asyncio.get_running_loop().create_task(self._publish())

    def put(self, subject: str, payload: bytes, reply: str = "") -> bool:
        """Queue a message and return whether it will be sent.

        It is not if it is too large for the server or too many are waiting.
        """
        if len(payload) > self._client.max_payload or self._client.is_closed:
            return False
        try:
            self._waiting.put_nowait((subject, payload, reply))
        except asyncio.QueueFull:
            return False
        return True

    async def _publish(self) -> None:
        from nats.errors import Error

        while True:
            subject, payload, reply = await self._waiting.get()
            try:
                await self._client.publish(subject, payload, reply)
            except Error as error:
                _log.warning("nats: %s was not published: %s", subject, error)

    def stop(self) -> None:
        self._task.cancel()


class Follower:
    """Keeps subscriptions for exactly the sources and sites a bridge serves."""

    def __init__(
        self, client: Client, subjects: Subjects, deliver: Callable[[bytes], None]
    ) -> None:
        self._client = client
        self._subjects = subjects
        self._deliver = deliver
        self.followed: dict[str, Subscription] = {}
        self._audience: Audience | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    def expect(self, audience: Audience | None) -> None:
        self._audience = audience
        self._changed.set()

    async def begin(self, access: NatsAccess) -> None:
        """Subscribe for the first time; raise NatsUnreachable if the server goes."""
        from nats.errors import Error

        try:
            await self.catch_up()
        except Error as error:
            raise NatsUnreachable(str(access), str(error)) from error

    async def catch_up(self) -> None:
        """Subscribe for those we serve now and unsubscribe for those we do not.

        When this returns, the server knows.
        """
        async with self._turn:
            self._changed.clear()
            wanted = self._wanted()
            new = {
                subject: await self._client.subscribe(subject, cb=self._received)
                for subject in wanted - self.followed.keys()
            }
            if new:
                await self._client.flush()
            self.followed |= new
            gone = self.followed.keys() - wanted
            # Drain, to take what the server has already sent: nobody else could report
            # speech for a participant that just left.
            await asyncio.gather(*(self.followed[subject].drain() for subject in gone))  # type: ignore[no-untyped-call]
            for subject in gone:
                del self.followed[subject]

    def _wanted(self) -> set[str]:
        if self._audience is None:
            return set()
        sources = self._audience.sources()
        sites = self._audience.sites()
        wanted = {self._subjects.for_source(source) for source in sources}
        return wanted | {self._subjects.for_site(site) for site in sites}

    async def _keep_up(self) -> None:
        from nats.errors import Error

        while True:
            await self._changed.wait()
            try:
                await self.catch_up()
            except Error as error:
                # The connection is going down; its owner hears of that elsewhere.
                _log.debug("nats: %s", error)

    async def _received(self, delivered: Any) -> None:
        self._deliver(delivered.data)

    def stop(self) -> None:
        self._task.cancel()


class Subjects(msgspec.Struct, frozen=True):
    """The subjects of one deployment."""

    deployment: str
    """Part of each subject, unencoded, so that a server's permissions can name it."""

    def said_by(self, source: str) -> str:
        """Return the subject of messages from one participant."""
        return f"bh.{self.deployment}.in.{token(source)}"

    @property
    def said_by_anybody(self) -> str:
        return f"bh.{self.deployment}.in.*"

    def for_source(self, source: str) -> str:
        """Return the subject of deliveries to one participant."""
        return f"bh.{self.deployment}.out.{token(source)}"

    def for_site(self, site: str) -> str:
        """Return the subject of deliveries to one group."""
        return f"bh.{self.deployment}.site.{token(site)}"

    def taken(self, bridge: str, number: int | str) -> str:
        """Return the subject on which a hub says that it has taken a question."""
        return f"bh.{self.deployment}.taken.{bridge}.{number}"

    @property
    def hubs(self) -> str:
        """Return the subject on which hubs say that they are running."""
        return f"bh.{self.deployment}.hubs"

    @property
    def reports(self) -> str:
        """Return the subject on which bridges report undelivered messages."""
        return f"bh.{self.deployment}.reports"

    def bucket(self, name: str) -> str:
        """Return the name of a key-value bucket of the registry."""
        return f"bh-{self.deployment}-{name}"


def token(identifier: str) -> str:
    """Return an identifier as one token of a subject or one key of a bucket."""
    encoded = base64.b32encode(identifier.encode("utf-8", "surrogatepass"))
    return encoded.decode("ascii").rstrip("=").lower() or "0"


def untoken(text: str) -> str:
    """Return the identifier a token stands for."""
    if text == "0":
        return ""
    try:
        encoded = _padded(text.upper())
        return base64.b32decode(encoded).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not a token: {text!r}") from error


def _padded(base32: str) -> str:
    return base32 + "=" * (-len(base32) % 8)


class NatsUnreachable(BridgeheadError):
    """No NATS server answers."""

    def __init__(self, url: str, cause: str, *, is_temporary: bool = False) -> None:
        address = without_credentials(url)
        super().__init__(
            f"{address} cannot be reached: {cause}",
            hint="check the address of the NATS server",
        )
        self.cause = cause
        self.is_temporary = is_temporary
