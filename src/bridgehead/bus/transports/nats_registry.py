"""The registry that the bridges of a deployment share, in NATS key-value buckets
(bus §13).

Presence expires when a bridge stops renewing it. Sources, hub ids and skills do not
expire: a participant that comes back at another bridge keeps them, and the skills of
one that does not come back are cleaned up exactly once, by whichever bridge manages to
delete their entry. nats_owners.py settles who a participant is and which source it has.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.bus import actions
from bridgehead.bus.actions import StateChange
from bridgehead.bus.bridge.state_store import StateStore
from bridgehead.bus.participants.participants import RememberedState
from bridgehead.bus.transports import nats_client
from bridgehead.bus.transports.nats_client import token
from bridgehead.bus.transports.nats_owners import NameOwners
from bridgehead.errors import BridgeheadError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

_log: Final = logging.getLogger("bridgehead.bus.nats")
BUCKETS: Final = ("sources", "sessions", "skills", "owners")
RETRY_S: Final = 0.5
LAST_WRITES_S: Final = 3.0
MIRROR_S: Final = 10.0
REPLICAS: Final = 3
ELECTION_S: Final = 15.0
"""How long a cluster that is just starting may take to elect a JetStream leader."""
NO_LEADER: Final = 10008
MAX_UNWRITTEN: Final = 10_000


NoteEntry = Callable[[str, bytes | None], None]
"""Takes the key and value of an entry; None as the value means it was deleted."""


class RegisteredSession(msgspec.Struct, frozen=True):
    """The participant's session that a hub id stands for."""

    participant: str
    local: str


class _Mirror:
    """Reports the entries of one bucket and every change to them."""

    def __init__(self, watcher: Any, note: NoteEntry, known: set[str]) -> None:
        """`known` are the keys that were in the bucket when we last were connected."""
        self._watcher = watcher
        self._note = note
        self._known = known
        self.keys = set[str]()
        self.is_complete = asyncio.Event()

    async def take_next(self) -> None:
        """Wait for the next change, for a minute at most, and report it."""
        try:
            entry = await self._watcher.updates(timeout=60)
        except TimeoutError:
            return
        if entry is None:  # everything that was in the bucket has been read
            self._report_deleted()
            self.is_complete.set()
        elif entry.operation in ("DEL", "PURGE"):
            self.keys.discard(entry.key)
            self._note(entry.key, None)
        else:
            self.keys.add(entry.key)
            self._note(entry.key, entry.value)

    def _report_deleted(self) -> None:
        """Report what was deleted while we were not connected."""
        for key in self._known - self.keys:
            self._note(key, None)


class NatsRegistry(StateStore):
    """A state store shared by several bridges that also knows who is present where."""

    def __init__(
        self,
        access: nats_client.NatsAccess,
        deployment: str,
        bridge: str,
        grace_s: float,
    ) -> None:
        self._access = access
        self._subjects = nats_client.Subjects(deployment)
        self._instance = f"{bridge}-{secrets.token_hex(4)}"
        self._grace_s = max(1.0, grace_s)
        self._client: Client | None = None
        self._buckets: dict[str, KeyValue] = {}
        self._loop = asyncio.get_running_loop()
        self._mirrors: list[asyncio.Task[None]] = []
        self._keys: dict[str, set[str]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_connected = asyncio.Event()
        self._closing = False
        self._unwritten: deque[StateChange] = deque(maxlen=MAX_UNWRITTEN)
        self._something_to_write = asyncio.Event()
        self._arrived: set[str] = set()
        self._seen_elsewhere: dict[str, float] = {}
        """When another bridge last said that it has a participant."""
        self.reaches_others = True
        """False while the link of our own hub to the fabric is down."""
        self._renewal = asyncio.Event()
        self.sources: dict[str, str] = {}
        self.sessions: dict[str, RegisteredSession] = {}
        self.skills: dict[str, dict[tuple[str, str], None]] = {}
        self.owners = NameOwners(bridge, self._is_connected)
        self.moved: Callable[[str], None] = lambda _participant: None
        """Called when a participant is now present at another bridge."""
        self.unheard: Callable[[str], None] = lambda _participant: None
        """Called when speech reached no bridge, though one had said that it has the
        participant.
        """

    # -- connection -----------------------------------------------------------

    async def open(self) -> None:
        """Connect, create missing buckets, and read what is in them."""
        deadline = self._loop.time() + ELECTION_S
        while not self._is_connected.is_set():
            try:
                await self._connect()
            except nats_client.NatsUnreachable as error:
                if not error.is_temporary or self._loop.time() > deadline:
                    raise
                await asyncio.sleep(RETRY_S)
        self._tasks.append(self._loop.create_task(self._write()))

    async def _connect(self) -> None:
        from nats.errors import ConnectionClosedError, Error

        self._client = await nats_client.open_nats(
            self._access, self._lost, name="bridgehead registry"
        )
        try:
            await self._open_buckets(self._client.jetstream())
            await self._mirror_buckets()
            if self._client.is_closed:
                raise ConnectionClosedError
        except (TimeoutError, Error) as error:
            self._stop_mirrors()
            await nats_client.close_nats(self._client)
            cause = f"{error or 'no answer'}; the server needs JetStream (-js)"
            is_temporary = (
                isinstance(error, TimeoutError)
                or getattr(error, "err_code", None) == NO_LEADER
            )
            raise nats_client.NatsUnreachable(
                str(self._access), cause, is_temporary=is_temporary
            ) from error
        self._is_connected.set()

    async def _open_buckets(self, stream: JetStreamContext) -> None:
        for name in BUCKETS:
            self._buckets[name] = await _bucket(
                stream, self._subjects.bucket(name), None
            )
        self._buckets["presence"] = await _bucket(
            stream, self._subjects.bucket("presence"), self._grace_s
        )
        self.owners.bucket = self._buckets["owners"]

    async def _mirror_buckets(self) -> None:
        await self._mirror("sources", self._noted_source)
        await self._mirror("sessions", self._noted_session)
        await self._mirror("skills", self._noted_skill)
        await self._mirror("owners", self.owners.noted)
        await self._mirror("presence", self._noted_presence)

    async def shared_secret(self, own: bytes) -> bytes:
        """Return the secret that all bridges of the deployment use.

        With it, one participant has one hub id everywhere (B-24).
        """
        from nats.js.errors import KeyWrongLastSequenceError

        bucket = self._buckets["sources"]
        try:
            await bucket.create("secret", own)
        except KeyWrongLastSequenceError:
            own = (await bucket.get("secret")).value or own
        self.owners.secret = own
        return own

    async def _mirror(self, name: str, note: NoteEntry) -> None:
        """Keep a copy of a bucket in memory; return when all of it has been read."""
        watcher = await self._buckets[name].watchall()
        mirror = _Mirror(watcher, note, known=self._keys.get(name, set()))
        self._keys[name] = mirror.keys
        self._mirrors.append(self._loop.create_task(self._follow(mirror)))
        async with asyncio.timeout(MIRROR_S):
            await mirror.is_complete.wait()

    async def _follow(self, mirror: _Mirror) -> None:
        # See `shut` for why being cancelled does not always end this loop.
        while not self._closing:
            await mirror.take_next()

    def _lost(self, reason: str) -> None:
        """Reconnect, unless the connection was never complete: then `open` retries."""
        if self._is_connected.is_set() and not self._closing:
            self._is_connected.clear()
            _log.warning("nats: the registry cannot be reached: %s", reason)
            self._tasks.append(self._loop.create_task(self._reconnect()))

    async def _reconnect(self) -> None:
        self._stop_mirrors()
        while not self._is_connected.is_set() and not self._closing:
            await asyncio.sleep(RETRY_S)
            try:
                await self._connect()
            except BridgeheadError as error:
                _log.info("%s", error)

    def _stop_mirrors(self) -> None:
        while self._mirrors:
            self._mirrors.pop().cancel()

    async def shut(self) -> None:
        """Write what is left, for a few seconds at most, and disconnect."""
        try:
            async with asyncio.timeout(LAST_WRITES_S):
                while self._unwritten and self._is_connected.is_set():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning(
                "nats: %d changes were not written to the registry",
                len(self._unwritten),
            )
        # The library may turn the cancellation of a request into a timeout, so
        # cancelling a task is not enough to end its loop.
        self._closing = True
        self._renewal.set()
        self._something_to_write.set()
        self._stop_mirrors()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await nats_client.close_nats(self._client)

    # -- entries of the buckets -----------------------------------------------

    def _noted_source(self, key: str, value: bytes | None) -> None:
        if key == "secret":
            return
        self.sources.pop(nats_client.untoken(key), None)
        if value is not None:
            self.sources[nats_client.untoken(key)] = value.decode()

    def _noted_session(self, key: str, value: bytes | None) -> None:
        self.sessions.pop(nats_client.untoken(key), None)
        if value is not None:
            self.sessions[nats_client.untoken(key)] = msgspec.json.decode(
                value, type=RegisteredSession
            )

    def _noted_skill(self, key: str, value: bytes | None) -> None:
        participant, hub_id, skill = map(nats_client.untoken, key.split("."))
        tracked = self.skills.setdefault(participant, {})
        tracked.pop((hub_id, skill), None)
        if value is not None:
            tracked[hub_id, skill] = None

    def _noted_presence(self, key: str, value: bytes | None) -> None:
        participant = nats_client.untoken(key)
        self._seen_elsewhere.pop(participant, None)
        if value is not None and value.decode() != self._instance:
            self._seen_elsewhere[participant] = self._loop.time()
            self.moved(participant)

    # -- StateStore; nobody is ours until they join, so `load` stays empty ----

    def recall(self, participant_id: str) -> RememberedState:
        source = self.sources.get(participant_id)
        if source is None:
            return RememberedState()
        local_sessions = {
            hub_id: session.local
            for hub_id, session in self.sessions.items()
            if session.participant == participant_id
        }
        return RememberedState(
            {participant_id: source},
            {participant_id: local_sessions},
            {participant_id: tuple(self.skills.get(participant_id, {}))},
        )

    def is_elsewhere(self, participant_id: str) -> bool:
        last_seen = self._seen_elsewhere.get(participant_id)
        if last_seen is None or not self.reaches_others:
            return False
        return self._loop.time() - last_seen < self._grace_s

    def not_there(self, source: str) -> None:
        """Note that no bridge takes what is sent to this source.

        If we thought that its participant is at another bridge, call `unheard`.
        """
        owner = self.owners.owner_of(source)
        if owner is not None and self._seen_elsewhere.pop(owner, None) is not None:
            self.unheard(owner)

    def own(self, participant_id: str, source: str) -> Coroutine[Any, Any, bool] | None:
        return self.owners.own(participant_id, source)

    def apply(self, changes: Iterable[StateChange]) -> None:
        """Queue changes, from a worker thread.

        The event loop writes them as soon as the registry is connected.
        """
        self._loop.call_soon_threadsafe(self._enqueue, list(changes))

    def _enqueue(self, changes: list[StateChange]) -> None:
        self._unwritten.extend(changes)
        self._something_to_write.set()

    async def _write(self) -> None:
        from nats.errors import Error

        while not self._closing:
            await self._something_to_write.wait()
            await self._is_connected.wait()
            try:
                while self._unwritten:
                    await self._write_change(self._unwritten[0])
                    self._unwritten.popleft()
                self._something_to_write.clear()
            except (TimeoutError, Error) as error:
                _log.warning("nats: the registry was not written: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _write_change(self, change: StateChange) -> None:
        match change:
            case actions.RememberSource(participant, source):
                await self._buckets["sources"].put(token(participant), source.encode())
            case actions.ForgetSource(participant):
                if await self.owners.give_up(participant):
                    await self._buckets["sources"].delete(token(participant))
            case actions.RememberHubId(participant, hub_id, local):
                value = msgspec.json.encode(RegisteredSession(participant, local))
                await self._buckets["sessions"].put(token(hub_id), value)
            case actions.ForgetHubId(_, hub_id):
                await self._buckets["sessions"].delete(token(hub_id))
            case actions.RememberSkill(participant, hub_id, skill):
                await self._buckets["skills"].put(
                    _skill_key(participant, hub_id, skill), b"1"
                )
            case actions.ForgetSkill(participant, hub_id, skill):
                await self._buckets["skills"].delete(
                    _skill_key(participant, hub_id, skill)
                )

    def present(self, participant_id: str) -> None:
        """Announce at once that a participant is here; its former bridge drops it."""
        self._arrived.add(participant_id)
        self._renewal.set()

    # -- presence -------------------------------------------------------------

    def renew(
        self, present: Callable[[], Iterable[str]], orphaned: Callable[[str, str], None]
    ) -> None:
        """Keep announcing who is present here, and call `orphaned` with skills whose
        host is present nowhere.
        """
        self._tasks.append(self._loop.create_task(self._renew(present, orphaned)))

    async def _renew(
        self, present: Callable[[], Iterable[str]], orphaned: Callable[[str, str], None]
    ) -> None:
        from nats.errors import Error

        while not self._closing:
            await self._is_connected.wait()
            try:
                here = set(present())
                for participant in self._arrived or here:
                    await self._buckets["presence"].put(
                        token(participant), self._instance.encode()
                    )
                if not self._arrived:
                    await self.owners.register_enrolled()
                    await self._clean_up(here, orphaned)
                self._arrived.clear()
            except (TimeoutError, Error) as error:
                _log.warning("nats: presence was not renewed: %s", error)
            await self._pause()

    async def _pause(self) -> None:
        """Wait until it is time to renew or somebody has arrived."""
        if self._closing:
            return
        self._renewal.clear()
        if self._arrived:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s / 3):
                await self._renewal.wait()

    async def _clean_up(
        self, here: set[str], orphaned: Callable[[str, str], None]
    ) -> None:
        absent = [
            name
            for name, tracked in self.skills.items()
            if tracked and name not in here
        ]
        for participant in absent:
            if await self._is_present(participant):
                continue
            for hub_id, skill in list(self.skills[participant]):
                if await self._claim(_skill_key(participant, hub_id, skill)):
                    orphaned(hub_id, skill)

    async def _is_present(self, participant: str) -> bool:
        from nats.js.errors import KeyNotFoundError

        try:
            await self._buckets["presence"].get(token(participant))
        except KeyNotFoundError:
            return False
        return True

    async def _claim(self, key: str) -> bool:
        """Delete an entry; return True only to the one bridge that managed to."""
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        try:
            entry = await self._buckets["skills"].get(key)
            return await self._buckets["skills"].delete(key, last=entry.revision)
        except (KeyNotFoundError, KeyWrongLastSequenceError):
            return False


async def _bucket(stream: JetStreamContext, name: str, ttl_s: float | None) -> KeyValue:
    """Return the bucket, created if it does not exist.

    The lifetime of entries is the one the first bridge chose. The bucket is kept on
    three servers if there are that many, so that one of them may fail.
    """
    from nats.js.errors import APIError, NotFoundError

    try:
        bucket = await stream.key_value(name)
    except NotFoundError:
        return await _create_bucket(stream, name, ttl_s)
    config = (await bucket.status()).stream_info.config
    if (config.num_replicas or 1) < REPLICAS:
        with suppress(APIError):  # the cluster has not grown yet
            await stream.update_stream(config.evolve(num_replicas=REPLICAS))
    return bucket


async def _create_bucket(
    stream: JetStreamContext, name: str, ttl_s: float | None
) -> KeyValue:
    from nats.js.errors import APIError

    with suppress(APIError):  # there may be fewer than three servers
        return await stream.create_key_value(
            bucket=name, history=1, ttl=ttl_s, replicas=REPLICAS
        )
    with suppress(APIError):  # another bridge may have been faster
        return await stream.create_key_value(bucket=name, history=1, ttl=ttl_s)
    return await stream.key_value(name)


def _skill_key(participant: str, hub_id: str, skill: str) -> str:
    return f"{token(participant)}.{token(hub_id)}.{token(skill)}"
