"""Who is with a running council besides its seats: watchers, and somebody to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead.assembly.council_opening import AskQuestion
from bridgehead.council.calls import CallFailed
from bridgehead.council.dispatch import AskUser
from bridgehead.council.partners import Observer
from bridgehead.host.cancel import Cancel


@dataclass(frozen=True, slots=True)
class Company:
    """Who is with a running council: watchers, and somebody to ask; nobody by default."""

    watchers: tuple[Observer, ...] = ()
    ask: AskQuestion | None = None
    ask_user: AskUser | None = None
    handle_signals: bool = False
    stop: Cancel | None = None


class Everybody:
    """Tells all observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        for observer in self._observers:
            observer.happened(bridge, line)

    def refused(self, bridge: str, failed: CallFailed) -> None:
        for observer in self._observers:
            observer.refused(bridge, failed)

    def accepted(self, bridge: str) -> None:
        for observer in self._observers:
            observer.accepted(bridge)
