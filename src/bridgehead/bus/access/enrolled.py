"""The records and credentials in force, read again when their files change
(bus §10.3).
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
"""A larger file of records is read in a thread, so that the event loop does not wait.
"""
Read = TypeVar("Read")


class EnrolmentChange(msgspec.Struct, frozen=True):
    """What a reload changed for participants that may be connected."""

    changed: tuple[ParticipantRecord, ...] = ()
    revoked: tuple[str, ...] = ()


class _Contents(msgspec.Struct, frozen=True):
    """What the files say, and what that changes."""

    records: dict[str, ParticipantRecord]
    credentials: dict[str, Credential]
    change: EnrolmentChange


class EnrolledParticipants:
    """Records and credentials of one bridge."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._stamp = folder.stamp()
        self.records: dict[str, ParticipantRecord] = folder.records()
        self.credentials: dict[str, Credential] = folder.credentials()
        self._ahead: tuple[Stamp, _Contents] = (
            self._stamp,
            _Contents(self.records, self.credentials, EnrolmentChange()),
        )
        """What was read, and the stamp of the files it was read from."""
        self._missing: tuple[Stamp, float] = (self._stamp, 0.0)
        """The stamp of files in which records are missing, and when that was noticed.
        """
        self.problem: str | None = None
        """Why the files could not be applied, None if they were."""

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
        """Return a participant with a valid client certificate, unless revoked."""
        credential = self.credentials.get(participant_id)
        if credential is not None and credential.revoked:
            return None
        return self.records.get(participant_id)

    def read_ahead(self, more_than: int = LARGE_BYTES) -> None:
        """Read a large file of records in a worker thread, for `reload` to apply."""
        stamp = self._folder.stamp()
        if stamp == self._ahead[0] or _records_size(stamp) <= more_than:
            return
        self.problem = None
        records = self._read(self._folder.records, self.records)
        self._ahead = (stamp, self._compared(records))

    def reload(self, now: float) -> EnrolmentChange:
        """Apply changed files and return what they change.

        A file that does not parse changes nothing and is reported once.
        """
        stamp = self._folder.stamp()
        if stamp == self._stamp:
            return EnrolmentChange()
        if _records_size(stamp) <= LARGE_BYTES:
            self.read_ahead(more_than=-1)
        stamp_read, contents = self._ahead
        is_read = stamp == stamp_read
        if not is_read:
            # Credentials count at once, so that somebody can be revoked while the
            # records are being edited or read.
            contents = self._compared(self.records)
        records = contents.records
        if self.records.keys() - records.keys() and not self._has_rested(stamp, now):
            return EnrolmentChange()
        if is_read:
            self._stamp = stamp
        self.records = records
        self.credentials = contents.credentials
        return contents.change

    def _compared(self, records: dict[str, ParticipantRecord]) -> _Contents:
        """Return records with the credentials as they are now, and what changes."""
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
        change = EnrolmentChange(tuple(changed), tuple(revoked))
        return _Contents(records, credentials, change)

    def _read(self, read: Callable[[], Read], in_force: Read) -> Read:
        try:
            return read()
        except BridgeheadError as error:
            self.problem = error.message
            _log.error("%s; the previous records stay in use", error)
            return in_force

    def _has_rested(self, stamp: Stamp, now: float) -> bool:
        """Return whether the files have been unchanged for a moment.

        Commands never remove a record. If some are missing, an editor may be in the
        middle of saving, and half a file would revoke everybody in its other half.
        """
        if stamp != self._missing[0]:
            self._missing = (stamp, now)
        _stamp, noticed_at = self._missing
        return now - noticed_at >= REST_S

    def expired(self, now: datetime) -> list[str]:
        """Return the participants whose token has expired."""
        return [
            name
            for name, credential in self.credentials.items()
            if is_expired(credential, now)
        ]


def _records_size(stamp: Stamp) -> int:
    _modified, size, _inode = stamp[0]
    return size


def _was_withdrawn(before: Credential | None, after: Credential | None) -> bool:
    """Return whether connections made with the old credential must end.

    A new key or token ends them too.
    """
    if before is not None:
        return before != after
    return after is not None and after.revoked
