"""Settle who a participant is in a deployment and which source it has (bus §13).

Identities and sources are entries in one bucket, written by compare-and-set. Whoever
writes first keeps the entry, across restarts, until the bridge that enrolled the
participant revokes it.
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
"""How long a joining participant waits for a registry that does not answer."""


class Owner(msgspec.Struct, frozen=True):
    """The participant an identity or a source belongs to."""

    bridge: str
    """The bridge that enrolled the participant."""
    participant: str
    proof: str
    """A digest of its credential."""

    def is_same(self, other: Owner) -> bool:
        """Return whether both are the same participant.

        It may be enrolled at several bridges with one credential.
        """
        if self.participant != other.participant:
            return False
        return self.bridge == other.bridge or self.proof == other.proof


class NameOwners:
    """The bucket `owners` as one bridge sees it."""

    def __init__(self, bridge: str, is_connected: asyncio.Event) -> None:
        """Start with no entries; `is_connected` is set while the registry answers."""
        self._bridge = bridge
        self._is_connected = is_connected
        self.bucket: KeyValue
        self.secret = b""
        self._owners: dict[str, Owner] = {}
        """By key: `id.<participant>` says who a participant is, `name.<source>` who has
        a source.
        """
        self.enrolled: Callable[[], Mapping[str, Credential]] = dict
        """Returns the participants of this bridge and their credentials.

        It is a new mapping whenever something has changed.
        """
        self._registered: Mapping[str, Credential] | None = None

    def noted(self, key: str, value: bytes | None) -> None:
        """Take an entry of the bucket; no value means that it was deleted."""
        self._owners.pop(key, None)
        if value is not None:
            self._owners[key] = msgspec.json.decode(value, type=Owner)

    def owner_of(self, name: str) -> str | None:
        """Return the participant that has this source or is enrolled under this name,
        at any bridge.
        """
        owner = self._owners.get(_name_key(name)) or self._owners.get(_id_key(name))
        return None if owner is None else owner.participant

    def own(self, participant_id: str, source: str) -> Coroutine[Any, Any, bool] | None:
        """Claim a source for a participant.

        Return None if the participant has it already, else a coroutine that asks the
        registry and returns whether the participant got it.
        """
        owner = self._owner(participant_id)
        identity = self._owners.get(_id_key(participant_id))
        source_owner = self._owners.get(_name_key(source))
        has_identity = identity is not None and identity.proof == owner.proof
        has_source = (
            source_owner is not None and source_owner.participant == participant_id
        )
        if has_identity and has_source:
            return None
        return self._own(owner, source)

    async def _own(self, owner: Owner, source: str) -> bool:
        from nats.errors import Error

        try:
            async with asyncio.timeout(ASKING_S):
                await self._is_connected.wait()
                await self._own_identity(owner)
                source_owner = await self._first_to_write(_name_key(source), owner)
                return source_owner.participant == owner.participant
        except (TimeoutError, Error) as error:
            cause = str(error) or "it does not answer"
            raise BridgeheadError(
                f"{owner.participant!r} cannot join until the deployment's registry "
                f"answers: {cause}",
                hint="check the NATS server; the participant retries automatically",
            ) from error

    async def register_enrolled(self) -> None:
        """Claim the identities of our participants, before they join.

        From then on no other bridge can enrol a different participant under the name.
        """
        enrolled = self.enrolled()
        if enrolled is self._registered:
            return
        for participant, credential in enrolled.items():
            if credential.revoked:
                continue
            owner = self._owner(participant)
            if self._owners.get(_id_key(participant)) == owner:
                continue
            try:
                await self._own_identity(owner)
            except ParticipantElsewhere as error:
                _log.warning("%s", error)
        self._registered = enrolled

    async def _own_identity(self, owner: Owner) -> None:
        key = _id_key(owner.participant)
        first = await self._first_to_write(key, owner)
        if not owner.is_same(first):
            raise ParticipantElsewhere(owner.participant, first.bridge)
        has_new_credential = owner.bridge == first.bridge and owner.proof != first.proof
        if has_new_credential:
            await self.bucket.put(key, msgspec.json.encode(owner))
            self._owners[key] = owner

    async def _first_to_write(self, key: str, owner: Owner) -> Owner:
        """Create an entry unless somebody else has; return whose it is."""
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        while True:
            try:
                await self.bucket.create(key, msgspec.json.encode(owner))
                self._owners[key] = owner
            except KeyWrongLastSequenceError:
                try:
                    self.noted(key, (await self.bucket.get(key)).value)
                except KeyNotFoundError:  # deleted since we failed to create it
                    continue
            return self._owners[key]

    def _owner(self, participant_id: str) -> Owner:
        credential = self.enrolled().get(participant_id, Credential())
        return Owner(self._bridge, participant_id, credential.digest(self.secret))

    async def give_up(self, participant_id: str) -> bool:
        """Delete the entries of a participant whose credential was revoked.

        Only the bridge that enrolled it does so; return whether that is this one.
        """
        identity = self._owners.get(_id_key(participant_id))
        if identity is None or identity.bridge != self._bridge:
            return False
        keys = [
            key
            for key, owner in self._owners.items()
            if owner.participant == participant_id
        ]
        for key in keys:
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
