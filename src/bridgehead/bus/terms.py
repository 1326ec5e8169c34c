"""What a participant's record comes to, worked out when the record changes instead of for every message. Pure."""

from __future__ import annotations

from typing import Final

from bridgehead.bus.policy import place_session
from bridgehead.bus.record import Grant, ParticipantRecord
from bridgehead.bus.session import Session
from bridgehead.bus.topics import LIFECYCLE, SESSION_BOOTSTRAP, SPEAK, SYNC

_REMEMBERED_TOPICS: Final = 64


class Terms:
    """The answers a record gives to the questions every message asks."""

    def __init__(self, record: ParticipantRecord) -> None:
        self._record = record
        self.max_frame_bytes = record.max_frame_bytes
        self.max_depth = record.limits.max_depth
        self.is_managed = record.mode == "manage"
        self.speaks_legacy = record.names == "legacy"
        self.may_use_default_session = record.has(Grant.DEFAULT_SESSION)
        self.gates_sessions = not record.policy.is_empty or record.site_determination is not None
        self.hears_freely = frozenset(
            topic
            for topic in LIFECYCLE - {SYNC}
            if record.deliver.match(topic) and (record.tts or topic != SPEAK)
        )
        """Topics of which only an echo and the hop limit keep a message from the participant (B-16, B-71)."""
        self._takes: dict[str, bool] = {}

    def takes_freely(self, topic: str) -> bool:
        """Whether nothing about this topic can keep a message out; topics repeat, so some answers are remembered."""
        verdict = self._takes.get(topic)
        if verdict is None:
            if len(self._takes) >= _REMEMBERED_TOPICS:
                self._takes.clear()
            verdict = self._takes[topic] = (
                not self.speaks_legacy
                and self._record.may_publish(topic)
                and topic not in SESSION_BOOTSTRAP
                and topic.count(":") <= 1
            )
        return verdict

    def gate(self, session: Session) -> Session:
        """`session` where the bridge knows it to be, narrowed by policy; its id stays as it is."""
        return self._record.policy.apply(place_session(session, self._record.site_determination))
