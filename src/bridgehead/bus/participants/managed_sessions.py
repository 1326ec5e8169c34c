"""Sessions that the bridge owns for participants that know nothing of sessions (B-33 to B-35). Pure."""

from __future__ import annotations

from typing import Final

from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.wire.message import encode_ordered, json_copy
from bridgehead.bus.wire.session import DENYLISTS, Session, hub_session_id

MAX_SESSION_BYTES: Final = 256 * 1024


class ManagedSessions:
    """The last known session of every managed participant; bounded in number and size."""

    def __init__(self, secret: bytes, *, limit: int = 10_000) -> None:
        self._secret = secret
        self._limit = limit
        self._stored: dict[tuple[str, str], Session] = {}
        """By participant and channel."""

    def session_id(self, record: ParticipantRecord, channel: str = "") -> str:
        """The session of the participant, or of one of its channels: configured, or made from the names."""
        if channel:  # no participant id holds a line feed, and no local id of this one can be mistaken for it
            return hub_session_id(self._secret, f"{record.id}\nchannel", channel)
        return record.managed_session_id or hub_session_id(self._secret, record.id, record.id)

    def current(self, record: ParticipantRecord, channel: str = "") -> Session:
        """The session the next utterance travels with."""
        stored = self._stored.get((record.id, channel), {})
        session = {**stored, "session_id": self.session_id(record, channel)}
        if record.lang is not None and not isinstance(session.get("lang"), str):
            session["lang"] = record.lang
        return session

    def adopt(self, record: ParticipantRecord, session: Session, channel: str = "") -> None:
        """Take over the session of an end marker; what policy imposes is not stored but computed anew."""
        imposed = {*DENYLISTS, *record.policy.preferences}
        if record.policy.pipeline is not None:
            imposed.add("pipeline")
        kept = {field: value for field, value in session.items() if field not in imposed}
        if len(encode_ordered(kept)) > MAX_SESSION_BYTES:
            return
        self._stored.pop((record.id, channel), None)
        while len(self._stored) >= self._limit:
            del self._stored[next(iter(self._stored))]
        self._stored[record.id, channel] = json_copy(kept)

    def forget(self, participant_id: str) -> None:
        for key in [key for key in self._stored if key[0] == participant_id]:
            del self._stored[key]
