"""Clients that introduced themselves over HTTP (`initialize`), by the session id they were given. Bounded."""

from __future__ import annotations

import secrets
from typing import Final

from bridgehead.host.cancel import Cancel
from bridgehead.mcp_server.client import Client
from bridgehead.mcp_server.jsonrpc import RequestId

MOST_SESSIONS: Final = 256


class HttpSession:
    """One client, and what is being carried out for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.running: dict[RequestId, Cancel] = {}

    def stop(self, request_id: object) -> None:
        if isinstance(request_id, str | int) and (cancel := self.running.get(request_id)) is not None:
            cancel.cancel()

    def stop_all(self) -> None:
        for cancel in list(self.running.values()):
            cancel.cancel()


class HttpSessions:
    """All of them; the oldest makes room, and its client introduces itself again."""

    def __init__(self) -> None:
        self._sessions: dict[str, HttpSession] = {}

    def begin(self, client: Client) -> str:
        """A new session's id: unguessable, because it lets its holder stop calls."""
        while len(self._sessions) >= MOST_SESSIONS:
            self.end(next(iter(self._sessions)))
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = HttpSession(client)
        return session_id

    def find(self, session_id: str | None) -> HttpSession | None:
        return self._sessions.get(session_id) if session_id else None

    def end(self, session_id: str | None) -> bool:
        """Forget a session and stop what runs for it; False when there is none."""
        session = self._sessions.pop(session_id, None) if session_id else None
        if session is not None:
            session.stop_all()
        return session is not None

    def end_all(self) -> None:
        for session_id in list(self._sessions):
            self.end(session_id)
