"""Health of a bridge's link to a hub or upstream, as events with a lifetime (B-73,
B-74). Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class HealthState(StrEnum):
    """The states a link reports; `unknown` is only concluded by a reader."""

    STARTING = "starting"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    TRANSIENT_DISCONNECT = "transient_disconnect"
    BAD_CREDENTIALS = "bad_credentials"
    STOPPED = "stopped"


UNKNOWN: Final = "unknown"
REFUSED_RETRY_S: Final = 300.0
_LIFETIME_S: Final = {HealthState.CONNECTED: 300, HealthState.STOPPED: 0}
_OTHERWISE_S: Final = 60


class HealthEvent(msgspec.Struct, frozen=True):
    """A report of a link about its state, which holds for `ttl_s` seconds."""

    state: HealthState
    previous: HealthState | None
    ttl_s: int
    refresh: bool
    reason: str | None = None


class LinkHealth:
    """The state of one link.

    Every method returns the event to announce, or None when nothing changed.
    """

    def __init__(self) -> None:
        self.state: HealthState | None = None
        self.reason: str | None = None
        self._announced_at = 0.0

    def start(self, now: float) -> HealthEvent | None:
        return self._become(HealthState.STARTING, now)

    def dialled(self, now: float) -> HealthEvent | None:
        """Note that an attempt to connect began; only the first one is news."""
        if self.state is HealthState.STARTING:
            return self._become(HealthState.CONNECTING, now)
        return None

    def opened(self, now: float) -> HealthEvent | None:
        return self._become(HealthState.CONNECTED, now)

    def lost(self, now: float, reason: str | None = None) -> HealthEvent | None:
        """Note that the connection ended or an attempt failed.

        Only losing an open one is news.
        """
        is_open = self.state is HealthState.CONNECTED
        if is_open:
            return self._become(HealthState.TRANSIENT_DISCONNECT, now, reason)
        return None

    def refused(self, now: float, reason: str | None = None) -> HealthEvent | None:
        """Note that the far side does not accept our credentials."""
        return self._become(HealthState.BAD_CREDENTIALS, now, reason)

    def reloaded(self, now: float) -> HealthEvent | None:
        """Note that the configuration changed; it may hold new credentials."""
        if self.state is HealthState.BAD_CREDENTIALS:
            return self._become(HealthState.CONNECTING, now)
        return None

    def stop(self, now: float) -> HealthEvent | None:
        return self._become(HealthState.STOPPED, now)

    def tick(self, now: float) -> HealthEvent | None:
        """Repeat the unchanged state when half of its lifetime has passed."""
        if self.state is None or self._is_final:
            return None
        if now - self._announced_at < self._ttl_s / 2:
            return None
        self._announced_at = now
        return HealthEvent(
            self.state, self.state, self._ttl_s, refresh=True, reason=self.reason
        )

    @property
    def next_refresh(self) -> float | None:
        """Return when `tick` is due, or None if never."""
        if self.state is None or self._is_final:
            return None
        return self._announced_at + self._ttl_s / 2

    @property
    def _is_final(self) -> bool:
        return self.state is HealthState.STOPPED

    @property
    def _ttl_s(self) -> int:
        if self.state is not None:
            return _LIFETIME_S.get(self.state, _OTHERWISE_S)
        return _OTHERWISE_S

    def _become(
        self, state: HealthState, now: float, reason: str | None = None
    ) -> HealthEvent | None:
        if state is self.state or self._is_final:
            return None
        previous = self.state
        self.state = state
        self.reason = reason
        self._announced_at = now
        return HealthEvent(state, previous, self._ttl_s, refresh=False, reason=reason)


def believed(event: HealthEvent, age_s: float) -> str:
    """Return the last state that was reported, or `unknown` after too much silence."""
    return UNKNOWN if event.ttl_s and age_s > event.ttl_s else str(event.state)
