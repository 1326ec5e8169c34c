"""Which source a participant's messages carry on the hub (B-01, B-05). Pure.

Randomness is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bridgehead.bus.participants.record import ParticipantRecord

_MAX_CLAIM: Final = 128


class Sources:
    """Who has which source.

    One that belongs to another participant, present or not, is never given away.
    """

    def __init__(
        self,
        bridge_id: str,
        reserved: Iterable[str],
        remembered: Mapping[str, str],
        random_word: Callable[[], str],
        owner_of: Callable[[str], str | None],
    ) -> None:
        """`owner_of` says whose a name is beyond what was assigned here: enrolled, or
        assigned by another bridge.
        """
        self._bridge_id = bridge_id
        self._reserved = frozenset(reserved) | {bridge_id}
        self._of: dict[str, str] = dict(remembered)
        self._owner: dict[str, str] = {
            source: owner for owner, source in remembered.items()
        }
        self._random_word = random_word
        self._owner_of = owner_of

    def assign(self, record: ParticipantRecord, claim: object) -> str:
        """Return the source of a participant.

        Its claim if the record allows it and it is free, else what it had before, else
        a new one.
        """
        wishes = (self._claimed(record, claim), self._of.get(record.id), record.id)
        chosen = next(
            (wish for wish in wishes if wish and self._is_free(wish, record.id)), None
        )
        while chosen is None:
            made = f"{record.id}-{self._random_word()}"
            chosen = made if self._is_free(made, record.id) else None
        self.forget(record.id)
        self._of[record.id] = chosen
        self._owner[chosen] = record.id
        return chosen

    def remember(self, participant_id: str, source: str) -> None:
        """Remember the source a participant had elsewhere, unless somebody else has it
        by now.
        """
        if self._is_free(source, participant_id):
            self.forget(participant_id)
            self._of[participant_id] = source
            self._owner[source] = participant_id

    def forget(self, participant_id: str) -> None:
        """Let the participant's source be free again."""
        source = self._of.pop(participant_id, None)
        if source is not None:
            del self._owner[source]

    def _claimed(self, record: ParticipantRecord, claim: object) -> str | None:
        if (
            record.claimed_id == "ignored"
            or not isinstance(claim, str)
            or not _is_claim(claim)
        ):
            return None
        if record.claimed_id == "prefixed":
            return f"{self._bridge_id}.{claim}"
        return claim

    def belongs_to_another(self, name: str, participant_id: str) -> bool:
        """Return whether `name` belongs to another participant, at any bridge of the
        deployment.
        """
        return self.owner(name) not in (None, participant_id)

    def owner(self, name: str) -> str | None:
        """Return the participant a name belongs to, None if it is nobody's."""
        if name in self._reserved:
            return None
        return self._owner.get(name) or self._owner_of(name)

    def _is_free(self, wish: str, participant_id: str) -> bool:
        # What is addressed to somebody by name must not go to one who merely claims the
        # name.
        return wish not in self._reserved and not self.belongs_to_another(
            wish, participant_id
        )


def _is_claim(claim: str) -> bool:
    """Return whether a participant may claim this name.

    It must not look like an option or a path.
    """
    if not 0 < len(claim) <= _MAX_CLAIM or not claim.isprintable():
        return False
    is_path_or_option = claim.startswith(("-", ".")) or "/" in claim or "\\" in claim
    return claim == claim.strip() and not is_path_or_option
