"""Who looked at what, and how far: what seats report and a verdict is decided from."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Looked(StrEnum):
    """How far a look came."""

    TO_THE_END = "to_the_end"
    IN_PART = "in_part"
    NOT = "not"


class Unlooked(StrEnum):
    """Why a look did not come to its end."""

    REFUSED = "refused"
    CUT = "cut"
    FILTERED = "filtered"
    DIED = "died"
    TIMED_OUT = "timed_out"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    KEPT_BACK = "kept_back"
    NOBODY_ABLE = "nobody_able"
    NOT_ABLE = "not_able"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look that was due: somebody able, on some material."""

    by: str
    """`ruff`, `claude`; empty where nobody is able."""
    on: str
    """A file, or what else should have been looked at."""
    outcome: Looked
    reason: Unlooked | None = None
    advice: str | None = None
