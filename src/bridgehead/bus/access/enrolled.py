"""Who may take part: records and credentials in force, read anew when their files
change (bus §10.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from bridgehead.bus.access.credentials import (
    Challenge,
    Credential,
    is_expired,
    mac_fits,
    token_fits,
    token_participant,
)
from bridgehead.bus.access.state_folder import Stamp, StateFolder
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")

REST_S: Final = 0.4
LARGE_BYTES: Final = 128 * 1024
"""A longer file of records is read in a thread: on the loop everybody would wait for
it.
"""
Read = TypeVar("Read")


class EnrolmentChange(msgspec.Struct, frozen=True):
    """What a reload changed for participants that may be connected."""

    changed: tuple[ParticipantRecord, ...] = ()
    revoked: tuple[str, ...] = ()


_Compared = tuple[dict[str, ParticipantRecord], dict[str, Credential], EnrolmentChange]


class EnrolledParticipants:
    """Records and credentials of one bridge."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._stamp = folder.stamp()
        self.records: dict[str, ParticipantRecord] = folder.records()
        self.credentials: dict[str, Credential] = folder.credentials()
        self._ahead: tuple[Stamp, *_Compared] = (
            self._stamp,
            self.records,
            self.credentials,
            EnrolmentChange(),
        )
        self._missing: tuple[Stamp, float] = (self._stamp, 0.0)
        """Files in which records are missing, and when that was first seen."""
        self.problem: str | None = None
        """Why the files as they are now could not be taken over, None if they were."""

    def by_token(self, token: str, now: datetime) -> ParticipantRecord | None:
        """Return the participant a bearer token belongs to."""
        participant_id = token_participant(token)
        if not token_fits(self.credentials.get(participant_id), token, now):
            return None
        return self.records.get(participant_id)

    def by_mac(self, challenge: Challenge, mac: bytes) -> ParticipantRecord | None:
        """Return the participant that proved to have its key."""
        if not mac_fits(self.credentials.get(challenge.participant), challenge, mac):
            return None
        return self.records.get(challenge.participant)

    def by_certificate(self, participant_id: str) -> ParticipantRecord | None:
        """Return a participant an authority vouches for, unless it was revoked."""
        credential = self.credentials.get(participant_id)
        if credential is not None and credential.revoked:
            return None
        return self.records.get(participant_id)

    def read_ahead(self, more_than: int = LARGE_BYTES) -> None:
        """Read and compare records that are many.

        Called in a worker thread, `reload` takes them over.
        """
        stamp = self._folder.stamp()
        if stamp != self._ahead[0] and stamp[0][1] > more_than:
            self.problem = None
            self._ahead = (
                stamp,
                *self._compared(self._read(self._folder.records, self.records)),
            )

    def reload(self, now: float) -> EnrolmentChange:
        """Take over changed files.

        One that does not parse leaves what is in force as it is and is reported once.
        """
        stamp = self._folder.stamp()
        if stamp == self._stamp:
            return EnrolmentChange()
        if stamp[0][1] <= LARGE_BYTES:
            self.read_ahead(more_than=-1)
        # Each file counts by itself: somebody is revoked although the records are being
        # edited, or read.
        is_read = stamp == self._ahead[0]
        records, credentials, change = (
            self._ahead[1:] if is_read else self._compared(self.records)
        )
        if self.records.keys() - records.keys() and not self._has_rested(stamp, now):
            return EnrolmentChange()
        self._stamp = stamp if is_read else self._stamp
        self.records = records
        self.credentials = credentials
        return change

    def _compared(self, records: dict[str, ParticipantRecord]) -> _Compared:
        """Records with the credentials as written now, and what they change."""
        credentials = self._read(self._folder.credentials, self.credentials)
        changed = (
            record
            for name, record in records.items()
            if self.records.get(name) != record
        )
        revoked = (
            name
            for name in self.records
            if name not in records
            or _was_withdrawn(self.credentials.get(name), credentials.get(name))
        )
        return records, credentials, EnrolmentChange(tuple(changed), tuple(revoked))

    def _read(self, read: Callable[[], Read], in_force: Read) -> Read:
        try:
            return read()
        except BridgeheadError as error:
            self.problem = error.message
            _log.error("%s; the previous records stay in use", error)
            return in_force

    def _has_rested(self, stamp: Stamp, now: float) -> bool:
        """Whether the files have been like this for a moment.

        Commands never remove a record. Where some are missing an editor may be in the
        middle of saving, and half a file would revoke everybody in its other half.
        """
        if stamp != self._missing[0]:
            self._missing = (stamp, now)
        return now - self._missing[1] >= REST_S

    def expired(self, now: datetime) -> list[str]:
        """Participants whose token is over."""
        return [
            name
            for name, credential in self.credentials.items()
            if is_expired(credential, now)
        ]


def _was_withdrawn(before: Credential | None, after: Credential | None) -> bool:
    """Whether connections made with the old credential must end.

    A new key or token ends them too.
    """
    if before is not None:
        return before != after
    return after is not None and after.revoked
