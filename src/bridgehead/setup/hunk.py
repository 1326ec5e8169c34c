"""An edit as the one stretch of text it changed, and how to take it back although others edited elsewhere. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

CONTEXT: Final = 60


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Where `removed` stood between the two contexts there is `inserted` now."""

    before: str
    removed: str
    inserted: str
    after: str

    @classmethod
    def between(cls, old: str, new: str) -> Hunk:
        """The smallest stretch that turns `old` into `new`."""
        start = _common_length(old, new)
        end = _common_length(old[start:][::-1], new[start:][::-1])
        return cls(
            before=old[max(0, start - CONTEXT) : start],
            removed=old[start : len(old) - end],
            inserted=new[start : len(new) - end],
            after=old[len(old) - end :][:CONTEXT],
        )

    def taken_back(self, text: str) -> str | None:
        """`text` as it would be without this edit; None when it cannot be told where the edit is."""
        with_context = self.before + self.inserted + self.after
        if with_context and text.count(with_context) == 1:
            return text.replace(with_context, self.before + self.removed + self.after)
        if self.inserted and text.count(self.inserted) == 1:
            return text.replace(self.inserted, self.removed)
        return None


def _common_length(one: str, other: str) -> int:
    """How many characters the two begin with in common."""
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)
