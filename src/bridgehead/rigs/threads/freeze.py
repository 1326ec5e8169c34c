"""A thread held still while a human answers in it (rigs §10, freeze pending relay)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.envelope.text import timestamp_ms


class Freeze(NamedTuple):
    """Who froze a thread and for how long; times are ISO UTC with milliseconds."""

    rig: str
    since: str
    expires: str
    in_reply_to: str | None = None

    def holds(self, now_ms: int) -> bool:
        """Tell whether it is still in force; one whose end cannot be read is not."""
        end = timestamp_ms(self.expires)
        return end is not None and now_ms < end

    def forbids(self, rig_id: RigId, now_ms: int) -> bool:
        """Tell whether it keeps this rig from sending and closing; relay rigs are what it waits for."""
        return self.holds(now_ms) and not rig_id.is_relay

    def json_object(self) -> dict[str, str]:
        """Return what listings show of it."""
        return {"rig": self.rig, "since": self.since, "expires": self.expires}

    def stored_text(self) -> str:
        """Return the blob that the freeze ref points to."""
        from json import dumps

        return dumps({**self.json_object(), "in_reply_to": self.in_reply_to}) + "\n"


def read_freeze(text: str) -> Freeze | None:
    """Read the blob of a freeze ref; None if it is not one, whatever it is."""
    from json import loads

    try:
        stored = loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    rig, since, expires = (stored.get(name) for name in ("rig", "since", "expires"))
    if not (isinstance(rig, str) and isinstance(since, str) and isinstance(expires, str)):
        return None
    parent = stored.get("in_reply_to")
    return Freeze(rig, since, expires, parent if isinstance(parent, str) else None)


class ThreadFrozen(UserError):
    """Something was to be sent into a thread that waits for a human."""

    def __init__(self, thread_id: str, freeze: Freeze) -> None:
        super().__init__(
            f'thread frozen by {freeze.rig} until {freeze.expires}; nothing was sent to "{thread_id}"',
            hint="wait for the relay turn, or repeat with --despite-freeze",
        )
        self.freeze = freeze
