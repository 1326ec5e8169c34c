"""Which names a hub understands, and which of its messages are copies (B-57, B-58). Pure.

What is read is always translated to the specification's names; only what is written depends on the profile.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from bridgehead.bus.bridge.echoes import CopyTable, content_digest
from bridgehead.bus.bridge.settings import Profile
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import MATCHED, UNMATCHED, UPDATE_DEFAULT, spec_topic, to_legacy, to_spec

_PROOF_S: Final = 1.0
_MAX_PROOFS: Final = 64
_LEGACY_PROOF: Final = "complete_intent_failure"


class HubNames:
    """The edge between our names and the hub's."""

    def __init__(self, profile: Profile, *, own_hub: bool = False) -> None:
        self._profile = profile
        self.translates = profile != "spec"
        """Whether the hub may use other names than ours; if not, nothing here needs to be asked."""
        self._own_hub = own_hub
        self._speaks_spec = profile == "spec" or (profile == "auto" and own_hub)
        self._copies = CopyTable()
        self._proofs: deque[tuple[float, bytes]] = deque()

    def writes_spec(self, now: float) -> bool:
        """Whether specification names are written at this moment."""
        if self._proofs and self._proofs[0][0] + _PROOF_S <= now:
            self._proofs.clear()
            self._speaks_spec = True
        return self._speaks_spec

    @property
    def may_wait_for_audio(self) -> bool:
        """Whether skills of a foreign core may be here, which wait until what they said has been spoken."""
        return self.translates and not (self._own_hub and self._speaks_spec)

    def written(self, message: Message, now: float) -> Message:
        """`message` as this hub's listeners expect it."""
        if self.writes_spec(now):
            return message
        return to_legacy(message) or message

    def read(self, message: Message) -> Message:
        """What a hub message means in specification names."""
        return to_spec(message) or message

    def is_copy(self, message: Message, now: float) -> bool:
        """Whether this unmarked message repeats one under its other name; also learns what the hub speaks."""
        copy = self._copies.is_copy(message, now)
        if self._profile == "auto":
            self._learn(message, now, copy=copy)
        return copy

    def _learn(self, message: Message, now: float, *, copy: bool) -> None:
        if message.type == UPDATE_DEFAULT and self._own_hub:
            # Says a core of the legacy generation when it starts and whenever somebody connects; nobody else does.
            self._speaks_spec = False
            return
        # Only what an orchestrator alone emits counts: skills of either generation run under cores of the other.
        if spec_topic(message.type) not in (MATCHED, UNMATCHED):
            return
        self.writes_spec(now)
        content = content_digest(message)
        if copy:
            self._proofs = deque(proof for proof in self._proofs if proof[1] != content)
        elif message.type == _LEGACY_PROOF:
            self._speaks_spec = False
        elif len(self._proofs) < _MAX_PROOFS:
            self._proofs.append((now, content))
