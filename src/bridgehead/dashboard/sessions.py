"""Browsers that have shown the token: a cookie no script can read, and a token of its own for every form."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from bridgehead.host.clock import Clock

SESSION_SECONDS: Final = 12 * 3600.0
MOST_SESSIONS: Final = 1000
MOST_NOTES: Final = 5
TICKET_SECONDS: Final = 60.0
MOST_TICKETS: Final = 100


@dataclass(slots=True)
class Note:
    """One sentence shown on the next page: what an action did."""

    text: str
    bad: bool = False


@dataclass(slots=True)
class Session:
    until: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[Note] = field(default_factory=list)

    def note(self, text: str, *, bad: bool = False) -> None:
        self.notes = [*self.notes, Note(text, bad)][-MOST_NOTES:]

    def take_notes(self) -> list[Note]:
        taken, self.notes = self.notes, []
        return taken

    def is_own_form(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())


class Sessions:
    """Who is logged in. Kept in memory: a restarted server asks for its new token."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def begin(self) -> str:
        """A new session; returns what goes into the cookie."""
        key = secrets.token_urlsafe(32)
        self._sessions[key] = self.passing()
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return key

    def passing(self) -> Session:
        """A session that nobody can come back to, for a program that shows the token each time."""
        return Session(self._clock.monotonic() + SESSION_SECONDS)

    def find(self, key: str | None) -> Session | None:
        session = self._sessions.get(key or "")
        if session is None or session.until < self._clock.monotonic():
            return None
        return session


class Tickets:
    """Links that work once, within a minute. A program that is handed a link shows it to the whole machine (`ps`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(32)
        self._until[ticket] = self._clock.monotonic() + TICKET_SECONDS
        while len(self._until) > MOST_TICKETS:
            del self._until[next(iter(self._until))]
        return ticket

    def take(self, ticket: str) -> bool:
        """Whether the ticket was good; it is used up now."""
        until = self._until.pop(ticket, None)
        return until is not None and until >= self._clock.monotonic()
