"""Who a participant is in a deployment and which source it has (bus §13), settled by
compare-and-set in one bucket.

Whoever was first keeps it, over restarts, until the bridge that enrolled it revokes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.bus.access.credentials import Credential
from bridgehead.bus.transports.nats_client import token
from bridgehead.errors import BridgeheadError

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

_log: Final = logging.getLogger("bridgehead.bus.nats")
ASKING_S: Final = 5.0
"""How long somebody who wants a source waits for a register that is away."""


class Owner(msgspec.Struct, frozen=True):
    """Whose an identity or a source is: the bridge that enrolled the participant, and a
    digest of its credential.
    """

    bridge: str
    participant: str
    proof: str

    def is_same(self, other: Owner) -> bool:
        """Whether both are one participant, which may be enrolled at several bridges,
        with one credential.
        """
        return self.participant == other.participant and (
            self.bridge == other.bridge or self.proof == other.proof
        )


class NameOwners:
    """The bucket `owners` as one bridge sees it."""

    def __init__(self, bridge: str, there: asyncio.Event) -> None:
        """`there` is set while the register can be asked."""
        self._bridge = bridge
        self._there = there
        self.bucket: KeyValue
        self.secret = b""
        self._owners: dict[str, Owner] = {}
        """By key: `id.<participant>` is who a participant is, `name.<source>` who has a
        source.
        """
        self.enrolled: Callable[[], Mapping[str, Credential]] = dict
        """Participants of this bridge and what they prove it with.

        A new mapping when something changes.
        """
        self._registered: Mapping[str, Credential] | None = None

    def noted(self, key: str, value: bytes | None) -> None:
        """The bucket says so."""
        self._owners.pop(key, None)
        if value is not None:
            self._owners[key] = msgspec.json.decode(value, type=Owner)

    def owner_of(self, name: str) -> str | None:
        """Return the participant a source belongs to, or that is enrolled under this
        name at some bridge.
        """
        owner = self._owners.get(_name_key(name)) or self._owners.get(_id_key(name))
        return None if owner is None else owner.participant

    def own(self, participant_id: str, source: str) -> Coroutine[Any, Any, bool] | None:
        """Make a source the participant's: None if it is, else what to wait for."""
        us = self._owner(participant_id)
        identity = self._owners.get(_id_key(participant_id))
        named = self._owners.get(_name_key(source))
        is_known = identity is not None and identity.proof == us.proof
        if is_known and named is not None and named.participant == participant_id:
            return None
        return self._own(us, source)

    async def _own(self, us: Owner, source: str) -> bool:
        from nats.errors import Error

        try:
            async with asyncio.timeout(ASKING_S):
                await self._there.wait()
                await self._own_identity(us)
                return (
                    await self._first_to_write(_name_key(source), us)
                ).participant == us.participant
        except (TimeoutError, Error) as error:
            why = str(error) or "it does not answer"
            raise BridgeheadError(
                f"{us.participant!r} cannot join until the deployment's registry "
                f"answers: {why}",
                hint="check the NATS server; the participant retries automatically",
            ) from error

    async def register_enrolled(self) -> None:
        """Nobody else in the deployment is who our participants are, also before they
        have joined.
        """
        enrolled = self.enrolled()
        if enrolled is self._registered:
            return
        for participant in [
            name for name, credential in enrolled.items() if not credential.revoked
        ]:
            us = self._owner(participant)
            if self._owners.get(_id_key(participant)) != us:
                try:
                    await self._own_identity(us)
                except ParticipantElsewhere as error:
                    _log.warning("%s", error)
        self._registered = enrolled

    async def _own_identity(self, us: Owner) -> None:
        key = _id_key(us.participant)
        found = await self._first_to_write(key, us)
        if not us.is_same(found):
            raise ParticipantElsewhere(us.participant, found.bridge)
        # It has a new credential.
        if us.bridge == found.bridge and us.proof != found.proof:
            await self.bucket.put(key, msgspec.json.encode(us))
            self._owners[key] = us

    async def _first_to_write(self, key: str, owner: Owner) -> Owner:
        """Return whose the entry is now: that of whoever came first."""
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        while True:
            try:
                await self.bucket.create(key, msgspec.json.encode(owner))
                self._owners[key] = owner
            except KeyWrongLastSequenceError:
                try:
                    self.noted(key, (await self.bucket.get(key)).value)
                except KeyNotFoundError:  # given up in between
                    continue
            return self._owners[key]

    def _owner(self, participant_id: str) -> Owner:
        credential = self.enrolled().get(participant_id, Credential())
        return Owner(self._bridge, participant_id, credential.digest(self.secret))

    async def give_up(self, participant_id: str) -> bool:
        """Its credential was withdrawn.

        Only the bridge that enrolled it lets go of who it was.
        """
        identity = self._owners.get(_id_key(participant_id))
        if identity is None or identity.bridge != self._bridge:
            return False
        for key in [
            key
            for key, owner in self._owners.items()
            if owner.participant == participant_id
        ]:
            await self.bucket.delete(key)
            self._owners.pop(key, None)
        return True


def _id_key(participant_id: str) -> str:
    return f"id.{token(participant_id)}"


def _name_key(source: str) -> str:
    return f"name.{token(source)}"


class ParticipantElsewhere(BridgeheadError):
    """Two bridges enrolled two participants under one name."""

    def __init__(self, participant_id: str, bridge: str) -> None:
        super().__init__(
            f"{participant_id!r} is a participant of bridge {bridge} in this "
            "deployment, with another credential",
            hint=(
                "use another name, or revoke it there; if that bridge is gone, set "
                f"bridge_id = {bridge!r} here"
            ),
        )
