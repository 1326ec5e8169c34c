"""Foreign text on its way to the calling agent: fenced when it is long, made harmless on one line when it is short."""

from __future__ import annotations

import secrets
from typing import Final

from bridgehead.contract.fencing import Fence, neutralise
from bridgehead.contract.words import Trust

MOST_CHARACTERS: Final = 200_000
LONGEST_LINE: Final = 300


class ForeignText:
    """The fence of one result."""

    def __init__(self) -> None:
        self._fence = Fence(secrets.choice)

    @property
    def note(self) -> str:
        """What explains the marker; stands before the first fenced text."""
        return self._fence.preamble

    def block(self, text: str, *, origin: str, trust: Trust = Trust.UNTRUSTED) -> str:
        """A text of any length between marker lines."""
        shown = text
        if len(text) > MOST_CHARACTERS:
            shown = f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text) - MOST_CHARACTERS} more characters]"
        return self._fence.wrap(shown, origin=origin, trust=trust)

    def line(self, text: str) -> str:
        """A title or name: one line, nothing hidden in it, nothing that looks like a marker line."""
        one = " ".join(neutralise(text, self._fence.marker).split())
        return one if len(one) <= LONGEST_LINE else f"{one[: LONGEST_LINE - 1]}…"
