"""Who looked at what, and how far: what seats report and a verdict is decided from."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Looked(StrEnum):
    """How far a look came."""

    TO_THE_END = "to_the_end"
    IN_PART = "in_part"
    NOT = "not"


class LookKind(StrEnum):
    """What a look is on."""

    FILE = "file"
    DOMAIN = "domain"
    """A model reviews the scope from one point of view: security, performance."""


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
    NO_LOGIN = "no_login"
    NO_QUOTA = "no_quota"
    BUDGET = "budget"
    INVENTED = "invented"
    PENDING = "pending"
    UNVERIFIED = "unverified"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look that was due: somebody able, on some material."""

    by: str
    """`ruff`, `claude`; empty where nobody is able."""
    on: str
    """A file, or a domain."""
    outcome: Looked
    kind: LookKind = LookKind.FILE
    reason: Unlooked | None = None
    advice: str | None = None


_ADVICE = {
    Unlooked.REFUSED: "ask another model",
    Unlooked.CUT: "review fewer files at a time",
    Unlooked.FILTERED: "ask another model",
    Unlooked.DIED: "bridgehead doctor shows whether it works",
    Unlooked.TIMED_OUT: "raise --timeout, or review fewer files at a time",
    Unlooked.MISSING: "install it: pip install 'bridgehead[static]'",
    Unlooked.UNREADABLE: "save it as UTF-8 text, or read it yourself",
    Unlooked.TOO_LARGE: "review fewer or smaller files",
    Unlooked.KEPT_BACK: "take the secret out, or name it in council.no_secrets",
    Unlooked.NOBODY_ABLE: "add a seat with a model, or read it yourself",
    Unlooked.NO_LOGIN: "log in, or name other seats with --runtime",
    Unlooked.NO_QUOTA: "wait or pay, or name other seats with --runtime",
    Unlooked.BUDGET: "raise --max-calls or --max-cost",
    Unlooked.INVENTED: "read what it cites, or ask another model",
    Unlooked.PENDING: "bridgehead council resume, once it has answered",
    Unlooked.UNVERIFIED: "bridgehead rig status shows whose key is missing",
}


def not_looked(
    by: str,
    on: str,
    reason: Unlooked,
    *,
    kind: LookKind = LookKind.FILE,
    outcome: Looked = Looked.NOT,
    advice: str | None = None,
) -> Look:
    """Return a look that did not come to its end, and what to do about it."""
    return Look(
        by=by,
        on=on,
        outcome=outcome,
        kind=kind,
        reason=reason,
        advice=advice or _ADVICE[reason],
    )
