"""Sessions a participant uses, skills it registered in them, and what the hub is owed
for both (B-45, B-46). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.bus.actions import (
    Effect,
    ForgetHubId,
    ForgetSkill,
    RememberHubId,
    RememberSkill,
)
from bridgehead.bus.bridge.admission import Admitted
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.participants import Participant, Register
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import DEREGISTERING, SKILL_DEREGISTER, TRACKED


class Registrations:
    """What has to be cleaned up on the hub when a participant is gone for good."""

    def __init__(self, settings: BridgeSettings, known: Register) -> None:
        self._settings = settings
        self._known = known
        self._owed: list[Message] = []
        self._abandoned: list[Effect] = []

    def has_room(self, participant: Participant, admitted: Admitted) -> bool:
        """Return whether one more registration of a participant can be tracked."""
        skill = _registered_skill(admitted.message)
        if skill is None or admitted.message.type in DEREGISTERING:
            return True
        return (
            len(participant.skills) < self._settings.max_skills
            or (admitted.hub_session, skill) in participant.skills
        )

    def note(self, participant: Participant, admitted: Admitted) -> list[Effect]:
        """Track what the message registers or deregisters."""
        skill = _registered_skill(admitted.message)
        hub_id = admitted.hub_session
        if skill is None:
            return []
        if admitted.message.type in DEREGISTERING:
            gone = self._known.untrack(participant, hub_id, skill)
            return [ForgetSkill(participant.id, hub_id, skill)] if gone else []
        if self._known.track(participant, hub_id, skill):
            return [RememberSkill(participant.id, hub_id, skill)]
        return []

    def own_session(
        self, participant: Participant, admitted: Admitted
    ) -> tuple[list[Effect], list[Message]]:
        """Own the session a participant uses.

        Return what to remember, and what the hub is owed for one given up for it.
        """
        hub_id = admitted.hub_session
        local = admitted.local_session
        new = hub_id not in participant.sessions
        self._known.own(participant, hub_id, local)
        if not new:
            return [], []
        effects: list[Effect] = []
        if participant.record.mode == "relay":
            participant.hub_ids[local] = hub_id
            if not participant.record.ephemeral:
                effects.append(RememberHubId(participant.id, hub_id, local))
        owed: list[Message] = []
        while len(participant.sessions) > max(1, self._settings.max_sessions):
            oldest = next(iter(participant.sessions))
            pairs = [pair for pair in participant.skills if pair[0] == oldest]
            owed += self._withdraw(participant, pairs, effects)
            self._known.disown(participant, oldest)
            effects.append(ForgetHubId(participant.id, oldest))
        return effects, owed

    def withdraw_all(
        self, participant: Participant
    ) -> tuple[list[Message], list[Effect]]:
        """Return one deregistration for every tracked pair, in the order they were
        registered.
        """
        effects: list[Effect] = []
        owed = self._withdraw(participant, list(participant.skills), effects)
        return owed, effects

    def owe(self, messages: list[Message]) -> None:
        """Keep messages for when the hub is back."""
        self._owed += messages

    def abandon(self, participant_id: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Owe the hub what a participant left behind that was removed while no bridge
        ran.
        """
        for hub_id, skill in pairs:
            self._owed.append(self.deregistration(hub_id, skill))
            self._abandoned.append(ForgetSkill(participant_id, hub_id, skill))

    def take_owed(self) -> tuple[list[Message], list[Effect]]:
        """Return what to write now that the hub is back, and what need not be
        remembered any longer.
        """
        owed = self._owed
        self._owed = []
        abandoned = self._abandoned
        self._abandoned = []
        return owed, abandoned

    def _withdraw(
        self,
        participant: Participant,
        pairs: list[tuple[str, str]],
        effects: list[Effect],
    ) -> list[Message]:
        for hub_id, skill in pairs:
            self._known.untrack(participant, hub_id, skill)
            effects.append(ForgetSkill(participant.id, hub_id, skill))
        return [self.deregistration(hub_id, skill) for hub_id, skill in pairs]

    def deregistration(self, hub_id: str, skill: str) -> Message:
        """Return what the hub is told about a skill that is gone (B-46)."""
        context = {
            "source": self._settings.bridge_id,
            "skill_id": skill,
            "session": {"session_id": hub_id},
        }
        return Message(SKILL_DEREGISTER, {"skill_id": skill}, context)


def _registered_skill(message: Message) -> str | None:
    if message.type not in TRACKED:
        return None
    for holder in (message.data, message.context):
        skill = holder.get("skill_id")
        if isinstance(skill, str) and skill:
            return skill
    return None
