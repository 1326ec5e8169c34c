"""A thread held still while a human answers in it (rigs §10, freeze pending relay)."""

from collections.abc import Collection
from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.envelope.text import iso_timestamp, timestamp_ms
from bridgehead.rigs.trust.membership import HUMAN_FREEZE_MINUTES, Membership

_SKEW_MS = 10 * 60 * 1000


class Freeze(NamedTuple):
    """Who froze a thread and for how long; times are ISO UTC with milliseconds."""

    rig: str
    since: str
    expires: str
    in_reply_to: str | None = None
    thread: str = ""  # empty in notes of earlier versions

    def holds(self, now_ms: int) -> bool:
        """Return whether it is in force now; not if its times cannot be read."""
        begin = timestamp_ms(self.since)
        end = timestamp_ms(self.expires)
        if begin is None or end is None:
            return False
        return begin - _SKEW_MS <= now_ms < end

    def at_most(self, minutes: float) -> "Freeze":
        """Return it cut down to the time its author may ask for."""
        begin = timestamp_ms(self.since)
        end = timestamp_ms(self.expires)
        if begin is None or end is None:
            return self
        longest = begin + int(minutes * 60_000)
        return self._replace(expires=iso_timestamp(min(end, longest)))

    def as_allowed(
        self, thread_id: str, membership: Membership, signed_by: Collection[str]
    ) -> "Freeze | None":
        """Return it as far as its author may ask for it.

        Return None if the author may not, or did not sign it for this thread.
        In a bridge without members everybody may, for a day at most.
        """
        if membership.founded is None:
            return self.at_most(HUMAN_FREEZE_MINUTES)
        author = membership.member(self.rig)
        if author is None or not author.freeze_minutes:
            return None
        if self.rig not in signed_by or self.thread != thread_id:
            return None
        return self.at_most(author.freeze_minutes)

    def forbids(self, rig_id: RigId, now_ms: int) -> bool:
        """Return whether it keeps this rig from sending; relay rigs may go on."""
        return self.holds(now_ms) and not rig_id.is_relay

    def json_object(self) -> dict[str, str]:
        """Return what listings show of it."""
        return {"rig": self.rig, "since": self.since, "expires": self.expires}

    def stored_text(self) -> str:
        """Return the blob that the freeze ref points to."""
        from json import dumps

        stored = {
            **self.json_object(),
            "in_reply_to": self.in_reply_to,
            "thread": self.thread,
        }
        return dumps(stored) + "\n"


def read_freeze(text: str) -> Freeze | None:
    """Read the blob of a freeze ref; None if it is not one, whatever it is."""
    from json import loads

    try:
        stored = loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    texts = {name: text for name, text in stored.items() if isinstance(text, str)}
    if not texts.keys() >= {"rig", "since", "expires"}:
        return None
    return Freeze(
        texts["rig"],
        texts["since"],
        texts["expires"],
        texts.get("in_reply_to"),
        texts.get("thread", ""),
    )


class ThreadFrozen(UserError):
    """Something was to be sent into a thread that waits for a human."""

    def __init__(self, thread_id: str, freeze: Freeze) -> None:
        super().__init__(
            f"thread frozen by {freeze.rig} until {freeze.expires};"
            f' nothing was sent to "{thread_id}"',
            hint=f"a human is answering there; {freeze.rig} can end it:"
            f" rig-bridge relay --abort --thread {thread_id}",
        )
        self.freeze = freeze
