"""Core NATS for the fabric between hubs (bus §13): connecting, publishing in order,
following, and the subjects.

Identifiers of participants may hold characters that are not legal in subjects, so they
travel as base32 tokens.
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
"""A server that is gone without a word is noticed after two of these."""


_watching: Final[set[asyncio.Task[None]]] = set()


class NatsAccess(msgspec.Struct, frozen=True):
    """Where the servers of a fabric are, and how they are told who comes."""

    urls: tuple[str, ...]
    credentials: str | None = None
    """A credentials file (user JWT and seed)."""
    ca: str | None = None
    """File with the authority of servers whose certificates no public one vouches for.
    """

    @classmethod
    def parse(
        cls, text: str, credentials: str | None = None, ca: str | None = None
    ) -> NatsAccess:
        """Read `nats://one:4222,nats://two:4222`; `tls://` insists on TLS."""
        return cls(
            tuple(part.strip() for part in text.split(",") if part.strip()),
            credentials,
            ca,
        )

    def __str__(self) -> str:
        return ", ".join(map(without_credentials, self.urls))


async def open_nats(
    access: NatsAccess, lost: Callable[[str], None], *, name: str
) -> Client:
    """Connect to the first server that answers.

    `lost` is called once when the connection ends by itself.
    """
    problems = []
    for url in access.urls:
        try:
            return await _open_one(url, access, lost, name)
        except NatsUnreachable as error:
            problems.append(error.cause)
    raise NatsUnreachable(str(access), "; ".join(dict.fromkeys(problems)))


async def _open_one(
    url: str, access: NatsAccess, lost: Callable[[str], None], name: str
) -> Client:
    try:
        from nats.errors import Error
    except ImportError as error:
        raise ConfigError(
            "NATS support is not installed", hint="pip install 'bridgehead[nats]'"
        ) from error
    options = _shown_credentials(Path(access.credentials)) if access.credentials else {}
    if access.ca is not None or url.startswith("tls://"):
        options["tls"] = ssl.create_default_context(cafile=access.ca)
    ending = _Ending(lost)
    problems: list[Exception] = []

    async def note(error: Exception) -> None:
        problems.append(error)
        _log.info("nats: %s", error)

    client = _strict_client(needs_tls="tls" in options)
    try:
        await client.connect(
            url,
            name=name,
            allow_reconnect=False,
            connect_timeout=CONNECT_S,
            disconnected_cb=ending.report,
            closed_cb=ending.report,
            error_cb=note,
            ping_interval=PING_S,
            # The library would dial a dead address for ever, and say nothing of why it
            # is dead.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            no_echo=True,
            **options,
        )
    except BaseException as error:  # also when nobody waits for it any more
        ending.is_reported = True  # what was never there is not lost
        await close_nats(client)
        if not isinstance(error, TimeoutError | Error | OSError):
            raise
        shows_nothing = access.credentials is None and "@" not in url
        causes = [problem for problem in reversed(problems) if str(problem)]
        cause = str(causes[0] if causes else error)
        # The server's last word may be lost with the connection; that it asks who we
        # are was its first.
        if shows_nothing and client._server_info.get("auth_required"):
            raise HubRefused(
                without_credentials(url),
                "it asks for credentials, and none are configured",
            ) from error
        if "authorization" in cause.lower():
            raise HubRefused(without_credentials(url), cause) from error
        raise NatsUnreachable(
            without_credentials(url), cause or "it does not answer"
        ) from error
    task = asyncio.get_running_loop().create_task(ending.watch(client))
    _watching.add(task)
    task.add_done_callback(_watching.discard)
    return client


class _Ending:
    """Reports once that a connection has ended."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self.is_reported = False

    async def report(self, *_reason: object) -> None:
        if not self.is_reported:
            self.is_reported = True
            self._lost("the NATS server closed the connection")

    async def watch(self, client: Client) -> None:
        """Report the end also if the library fails while it closes and calls nobody."""
        while not client.is_closed:
            await asyncio.sleep(WATCH_S)
        await self.report()


def _strict_client(*, needs_tls: bool) -> Client:
    """Return a client that shows nothing without TLS if it is needed."""
    from nats.aio.client import Client as NatsClient
    from nats.errors import Error

    class StrictClient(NatsClient):
        def _connect_command(self) -> bytes:
            """Return what the client says about itself.

            The library leaves it to the server whether there is TLS.
            """
            if needs_tls and not self._server_info.get("tls_required"):
                raise Error("the server does not offer TLS")
            return super()._connect_command()

        async def flush(self, timeout: int = FLUSH_S) -> None:
            """Return when the server has all that was sent so far.

            The library writes its ping past what its flusher has not written yet, an
            unsubscription for example; once that ping has been answered everything
            before it is written, and a second one comes behind it.
            """
            await super().flush(timeout)
            await super().flush(timeout)

    return StrictClient()


def _shown_credentials(path: Path) -> dict[str, Any]:
    """Return what the library asks for, from a credentials file: the user's JWT, and
    its seed to sign with.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        found = re.findall(
            r"-+BEGIN [A-Z ]+-+\s*(\S+)\s*-+END", path.read_text("ascii")
        )
        seed = base64.b32decode(found[1] + "=" * (-len(found[1]) % 8))
        key = Ed25519PrivateKey.from_private_bytes(seed[2:34])
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(
            f"{path} is not a credentials file: {error!s}",
            hint="it must contain a user JWT and a seed, as written by nsc",
        ) from error
    return {
        "user_jwt_cb": lambda: found[0].encode(),
        "signature_cb": lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    }


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
        self._waiting: asyncio.Queue[tuple[str, bytes, str]] = asyncio.Queue(limit)
        self._task = asyncio.get_running_loop().create_task(self._publish())

    def put(self, subject: str, payload: bytes, reply: str = "") -> bool:
        """Whether it will be sent.

        False when it is too large for the server or too much waits already.
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
    """Subscriptions to everything for those a bridge serves, and nothing else."""

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
        """Follow everybody there is at the start.

        A server that goes away meanwhile was never reached.
        """
        from nats.errors import Error

        try:
            await self.catch_up()
        except Error as error:
            raise NatsUnreachable(str(access), str(error)) from error

    async def catch_up(self) -> None:
        """Subscribe to whom we serve now, and no longer to whom we do not.

        The server knows when this returns.
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
            # What the server has sent by now is still taken: of speech for whoever
            # left, nobody else could tell.
            await asyncio.gather(*(self.followed[subject].drain() for subject in gone))  # type: ignore[no-untyped-call]
            for subject in gone:
                del self.followed[subject]

    def _wanted(self) -> set[str]:
        if self._audience is None:
            return set()
        wanted = {
            self._subjects.for_source(source) for source in self._audience.sources()
        }
        return wanted | {
            self._subjects.for_site(site) for site in self._audience.sites()
        }

    async def _keep_up(self) -> None:
        from nats.errors import Error

        while True:
            await self._changed.wait()
            try:
                await self.catch_up()
            except (
                Error
            ) as error:  # the connection is going down, and its owner is told by it
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

    def taken(self, bridge: str, number: int | str) -> str:
        """Return the subject by which a hub says that it has taken a question."""
        return f"bh.{self.deployment}.taken.{bridge}.{number}"

    @property
    def hubs(self) -> str:
        """Return the subject by which hubs say that they are there."""
        return f"bh.{self.deployment}.hubs"

    @property
    def reports(self) -> str:
        """Return the subject by which bridges report what did not reach its
        participant.
        """
        return f"bh.{self.deployment}.reports"

    def bucket(self, name: str) -> str:
        """Return a key-value bucket of the registry."""
        return f"bh-{self.deployment}-{name}"


def token(identifier: str) -> str:
    """Return an identifier as one token of a subject or one key of a bucket."""
    return (
        base64.b32encode(identifier.encode("utf-8", "surrogatepass"))
        .decode("ascii")
        .rstrip("=")
        .lower()
        or "0"
    )


def untoken(text: str) -> str:
    """Return the identifier a token stands for."""
    if text == "0":
        return ""
    padded = text.upper() + "=" * (-len(text) % 8)
    try:
        return base64.b32decode(padded).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not a token: {text!r}") from error


class NatsUnreachable(BridgeheadError):
    """No NATS server answers."""

    def __init__(self, url: str, cause: str, *, is_temporary: bool = False) -> None:
        shown = without_credentials(url)
        super().__init__(
            f"{shown} cannot be reached: {cause}",
            hint="check the address of the NATS server",
        )
        self.cause = cause
        self.is_temporary = is_temporary
