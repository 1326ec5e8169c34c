"""How each link of a bridge stands: announced when it changes (B-73, B-74), and kept for those who ask later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.bus.health import HealthEvent, believed
from bridgehead.bus.interfaces import Announcer
from bridgehead.bus.message import Message
from bridgehead.bus.status import LinkStatus
from bridgehead.bus.topics import HEALTH
from bridgehead.host.clock import Clock, iso_ms


class LinkBoard:
    """The links of one bridge."""

    def __init__(
        self, bridge_id: str, announcer: Announcer, clock: Clock, publish: Callable[[Message], object] | None
    ) -> None:
        """`publish` puts changes on the hub, too; None where that is not wanted."""
        self._bridge_id = bridge_id
        self._announcer = announcer
        self._clock = clock
        self._publish = publish
        self._said: dict[str, tuple[HealthEvent, str, float]] = {}

    @property
    def links(self) -> tuple[LinkStatus, ...]:
        """What each link last said; `unknown` when it has been silent for too long."""
        now = self._clock.monotonic()
        return tuple(
            LinkStatus(link, believed(event, now - said_at), event.reason, at)
            for link, (event, at, said_at) in self._said.items()
        )

    def announcing(self, link: str) -> Callable[[HealthEvent], None]:
        """What a link is to call with its events."""

        def announce(event: HealthEvent) -> None:
            facts: dict[str, Any] = {
                "at": iso_ms(self._clock.now()),
                "bridge": self._bridge_id,
                "link": link,
                "state": str(event.state),
                "previous": None if event.previous is None else str(event.previous),
                "reason": event.reason,
                "ttl_s": event.ttl_s,
                "refresh": event.refresh,
            }
            self._said[link] = (event, facts["at"], self._clock.monotonic())
            self._announcer.announce("bus.bridge.health", facts)
            if self._publish is not None and not event.refresh:
                self._publish(Message(HEALTH, facts, {"source": self._bridge_id}))

        return announce
