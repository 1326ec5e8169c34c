"""Find out whose question an HTTP request is, as far as the request says.

Many people may share one key. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

MOST_TURNS: Final = 10_000
MOST_EARLIER: Final = 64
"""Questions of a conversation whose late answers are looked for."""


class HttpTurn(msgspec.Struct, frozen=True):
    """One question over HTTP and the conversation it belongs to."""

    conversation: str = ""
    """Its name here. Empty if the request names none; then it has no other requests."""
    continues: tuple[str, ...] = ()
    """The conversations whose late answers may be given along with this answer."""

    @classmethod
    def named(cls, conversation: str) -> HttpTurn:
        """Return a turn of a conversation that every one of its requests names."""
        return cls(conversation, (conversation,))


class HttpTurns:
    """The latest questions over HTTP, by utterance id.

    They are kept because an answer may come after its request has ended.
    """

    def __init__(self) -> None:
        self._turns: dict[str, HttpTurn] = {}

    def note(self, utterance_id: str, turn: HttpTurn) -> None:
        """Remember whose question this is."""
        self._turns[utterance_id] = turn
        if len(self._turns) > MOST_TURNS:
            del self._turns[next(iter(self._turns))]

    def response(self, response_id: str, previous_id: str) -> HttpTurn:
        """Return the turn that ends in a response.

        It continues the previous response, if we gave that one.
        """
        previous = self._turns.get(previous_id)
        earlier: tuple[str, ...] = ()
        if previous is not None:
            earlier = (previous.conversation, *previous.continues)
        turn = HttpTurn(response_id, earlier[:MOST_EARLIER])
        self.note(response_id, turn)
        return turn

    def of(self, utterance_id: object) -> HttpTurn | None:
        """Return the turn, or None for a question that did not come over HTTP."""
        return self._turns.get(utterance_id) if isinstance(utterance_id, str) else None
