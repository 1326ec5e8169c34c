"""The register of a deployment in NATS key-value buckets (bus §13), shared by its
bridges.

Presence ends by itself when a bridge stops renewing it. Sources, hub ids and skills
have no such end: a participant that comes back at another bridge keeps them, and skills
of one that does not come back are cleaned up exactly once, by whichever bridge manages
to delete their entry. Who a participant is and which source it has: nats_owners.py.
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
"""How long a cluster may take to agree on who leads its JetStream when everything
starts at once.
"""
NO_LEADER: Final = 10008
MAX_UNWRITTEN: Final = 10_000


class RegisteredSession(msgspec.Struct, frozen=True):
    """Whose session a hub id stands for."""

    participant: str
    local: str


class NatsRegistry(StateStore):
    """A state store that several bridges share; also knows who is present where."""

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
        self._lasting: list[asyncio.Task[None]] = []
        self._there = asyncio.Event()
        self._closing = False
        self._unwritten: deque[StateChange] = deque(maxlen=MAX_UNWRITTEN)
        self._something_to_write = asyncio.Event()
        self._arrived: set[str] = set()
        self._seen_elsewhere: dict[str, float] = {}
        """When another bridge last said that a participant is there."""
        self.reaches_others = True
        """False on a hub whose own link to the fabric is down."""
        self._renewal = asyncio.Event()
        self.sources: dict[str, str] = {}
        self.sessions: dict[str, RegisteredSession] = {}
        self.skills: dict[str, dict[tuple[str, str], None]] = {}
        self.owners = NameOwners(bridge, self._there)
        self.moved: Callable[[str], None] = lambda _participant: None
        """Told when a participant is now present at another bridge."""
        self.unheard: Callable[[str], None] = lambda _participant: None
        """Told when speech found its participant at no bridge, though one had said that
        it is there.
        """

    # -- life -----------------------------------------------------------------

    async def open(self) -> None:
        """Connect, make the buckets if they are not there, and read what is in them."""
        patience = self._loop.time() + ELECTION_S
        while not self._there.is_set():
            try:
                await self._connect()
            except nats_client.NatsUnreachable as error:
                if not error.is_temporary or self._loop.time() > patience:
                    raise
                await asyncio.sleep(RETRY_S)
        self._lasting.append(self._loop.create_task(self._write()))

    async def _connect(self) -> None:
        from nats.errors import ConnectionClosedError, Error

        self._client = await nats_client.open_nats(
            self._access, self._lost, name="bridgehead registry"
        )
        try:
            stream = self._client.jetstream()
            for name in BUCKETS:
                self._buckets[name] = await _bucket(
                    stream, self._subjects.bucket(name), None
                )
            self._buckets["presence"] = await _bucket(
                stream, self._subjects.bucket("presence"), self._grace_s
            )
            self.owners.bucket = self._buckets["owners"]
            for name, note in (
                ("sources", self._noted_source),
                ("sessions", self._noted_session),
                ("skills", self._noted_skill),
                ("owners", self.owners.noted),
                ("presence", self._noted_presence),
            ):
                await self._mirror(name, note)
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
        self._there.set()

    async def shared_secret(self, own: bytes) -> bytes:
        """Return the secret all bridges of the deployment use, so that one participant
        has one hub id everywhere (B-24).
        """
        from nats.js.errors import KeyWrongLastSequenceError

        bucket = self._buckets["sources"]
        try:
            await bucket.create("secret", own)
        except KeyWrongLastSequenceError:
            own = (await bucket.get("secret")).value or own
        self.owners.secret = own
        return own

    async def _mirror(
        self, name: str, note: Callable[[str, bytes | None], None]
    ) -> None:
        """Keep a copy of a bucket in memory.

        Returns when everything in it has been read.
        """
        watcher = await self._buckets[name].watchall()
        complete = asyncio.Event()
        before = self._keys.get(name, set())
        keys = set[str]()
        self._keys[name] = keys

        async def follow() -> None:
            while not self._closing:
                try:
                    entry = await watcher.updates(timeout=60)  # type: ignore[no-untyped-call]
                except TimeoutError:
                    continue
                if entry is None:
                    for gone in before - keys:  # deleted while we were away
                        note(gone, None)
                    complete.set()
                    continue
                is_gone = entry.operation in ("DEL", "PURGE")
                (keys.discard if is_gone else keys.add)(entry.key)
                note(entry.key, None if is_gone else entry.value)

        self._mirrors.append(self._loop.create_task(follow()))
        async with asyncio.timeout(MIRROR_S):
            await complete.wait()

    def _lost(self, reason: str) -> None:
        """Of a connection that was never complete, whoever made it tries again."""
        if self._there.is_set() and not self._closing:
            self._there.clear()
            _log.warning("nats: the registry cannot be reached: %s", reason)
            self._lasting.append(self._loop.create_task(self._come_back()))

    async def _come_back(self) -> None:
        self._stop_mirrors()
        while not self._there.is_set() and not self._closing:
            await asyncio.sleep(RETRY_S)
            try:
                await self._connect()
            except BridgeheadError as error:
                _log.info("%s", error)

    def _stop_mirrors(self) -> None:
        while self._mirrors:
            self._mirrors.pop().cancel()

    async def shut(self) -> None:
        """Write what is still to be written, within reason, and let go."""
        try:
            async with asyncio.timeout(LAST_WRITES_S):
                while self._unwritten and self._there.is_set():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning(
                "nats: %d changes were not written to the registry",
                len(self._unwritten),
            )
        # The library may answer a cancelled request with a timeout, so being cancelled
        # is not enough to end a loop.
        self._closing = True
        self._renewal.set()
        self._something_to_write.set()
        self._stop_mirrors()
        for task in self._lasting:
            task.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)
        await nats_client.close_nats(self._client)

    # -- what the buckets say -------------------------------------------------

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

    # -- StateStore; `load` stays empty: nobody is ours until they join here --

    def recall(self, participant_id: str) -> RememberedState:
        source = self.sources.get(participant_id)
        if source is None:
            return RememberedState()
        owned = {
            hub: s.local
            for hub, s in self.sessions.items()
            if s.participant == participant_id
        }
        return RememberedState(
            {participant_id: source},
            {participant_id: owned},
            {participant_id: tuple(self.skills.get(participant_id, {}))},
        )

    def is_elsewhere(self, participant_id: str) -> bool:
        seen = self._seen_elsewhere.get(participant_id)
        return (
            self.reaches_others
            and seen is not None
            and self._loop.time() - seen < self._grace_s
        )

    def not_there(self, source: str) -> None:
        """Nobody takes what is sent to this source.

        Whoever believed its participant elsewhere learns that.
        """
        owner = self.owners.owner_of(source)
        if owner is not None and self._seen_elsewhere.pop(owner, None) is not None:
            self.unheard(owner)

    def own(self, participant_id: str, source: str) -> Coroutine[Any, Any, bool] | None:
        return self.owners.own(participant_id, source)

    def apply(self, changes: Iterable[StateChange]) -> None:
        """Called in a worker thread.

        Written on the event loop as soon as the register is there.
        """
        self._loop.call_soon_threadsafe(self._wait_in_line, list(changes))

    def _wait_in_line(self, changes: list[StateChange]) -> None:
        self._unwritten.extend(changes)
        self._something_to_write.set()

    async def _write(self) -> None:
        from nats.errors import Error

        while not self._closing:
            await self._something_to_write.wait()
            await self._there.wait()
            try:
                while self._unwritten:
                    await self._write_one(self._unwritten[0])
                    self._unwritten.popleft()
                self._something_to_write.clear()
            except (TimeoutError, Error) as error:
                _log.warning("nats: the registry was not written: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _write_one(self, change: StateChange) -> None:
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
        """Say at once that a participant is here; another bridge lets go of it."""
        self._arrived.add(participant_id)
        self._renewal.set()

    # -- presence -------------------------------------------------------------

    def renew(
        self, present: Callable[[], Iterable[str]], orphaned: Callable[[str, str], None]
    ) -> None:
        """Keep saying who is present here, and look for skills whose host is present
        nowhere.
        """
        self._lasting.append(self._loop.create_task(self._renew(present, orphaned)))

    async def _renew(
        self, present: Callable[[], Iterable[str]], orphaned: Callable[[str, str], None]
    ) -> None:
        from nats.errors import Error

        while not self._closing:
            await self._there.wait()
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
        """Until it is time to renew, or somebody has just arrived."""
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
        for participant in [
            name
            for name, tracked in self.skills.items()
            if tracked and name not in here
        ]:
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
        """Delete an entry; True for the one bridge that managed to."""
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        try:
            entry = await self._buckets["skills"].get(key)
            return await self._buckets["skills"].delete(key, last=entry.revision)
        except (KeyNotFoundError, KeyWrongLastSequenceError):
            return False


async def _bucket(stream: JetStreamContext, name: str, ttl_s: float | None) -> KeyValue:
    """Return the bucket, made if it is not there.

    The lifetime the first bridge chose counts for all.

    It is kept on three servers where there are as many, so that one of them may fail.
    """
    from nats.js.errors import APIError, NotFoundError

    try:
        bucket = await stream.key_value(name)
    except NotFoundError:
        try:
            return await stream.create_key_value(
                bucket=name, history=1, ttl=ttl_s, replicas=REPLICAS
            )
        except APIError:
            with suppress(APIError):  # another bridge may have been faster
                return await stream.create_key_value(bucket=name, history=1, ttl=ttl_s)
            return await stream.key_value(name)
    config = (await bucket.status()).stream_info.config
    if (config.num_replicas or 1) < REPLICAS:
        with suppress(APIError):  # the cluster has not grown yet
            await stream.update_stream(config.evolve(num_replicas=REPLICAS))
    return bucket


def _skill_key(participant: str, hub_id: str, skill: str) -> str:
    return f"{token(participant)}.{token(hub_id)}.{token(skill)}"
