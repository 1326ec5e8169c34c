"""Refusals of runtimes that the record remembers, readable without everything else a
council needs.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bridgehead.assembly.application import Assembly
from bridgehead.contract.words import ErrorClass
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.host.clock import clamped, parse_iso

RECENT_REFUSALS: Final = 200
# How long a refusal counts before the runtime is asked again. A login is looked at each
# time; that costs no call.
BELIEVED: Final[dict[str, timedelta]] = {
    ErrorClass.QUOTA: timedelta(hours=1),
    ErrorClass.SPEND_LIMIT: timedelta(hours=1),
    ErrorClass.RETIRED: timedelta(days=7),
}


class LastRefusal(NamedTuple):
    """Why a runtime's last call was refused.

    Forgotten when a call succeeds (council §19).
    """

    error_class: str
    reason: str
    at: str

    def is_believed(self, now: datetime) -> bool:
        """Return whether the runtime need not be asked again yet.

        The time may come from another clock. A refusal that lies further in the future
        than it would count is not believed: nobody knows when it was, and asking again
        costs one call.
        """
        lasting = BELIEVED.get(self.error_class, timedelta())
        return abs(now - parse_iso(self.at)) < lasting

    def skip_reason(self, now: datetime) -> str:
        lasting = BELIEVED.get(self.error_class, timedelta())
        until = clamped(parse_iso(self.at), now) + lasting
        return (
            f"still_refused: {self.error_class}, asked again after "
            f"{until:%Y-%m-%d %H:%M} UTC; {self.reason}"
        )


def last_refusals(assembly: Assembly) -> dict[str, LastRefusal]:
    """Runtimes whose last word in the record is a refusal."""
    with assembly.store(read_only=True) as store:
        return refusals_in(store)


def refusals_in(store: Store) -> dict[str, LastRefusal]:
    where = EventFilter(kinds=("council.refused", "council.accepted"))
    recent = store.events(where, limit=RECENT_REFUSALS, newest_first=True)
    last: dict[str, LastRefusal | None] = {}
    for event in (recorded.event for recorded in recent):
        kind = event.data.get("error_class")
        reason = event.data.get("reason")
        refused = (
            LastRefusal(str(kind), str(reason or kind), event.at) if kind else None
        )
        last.setdefault(str(event.data.get("bridge")), refused)
    return {seat: refused for seat, refused in last.items() if refused is not None}


def believed_refusals(assembly: Assembly, now: datetime) -> dict[str, LastRefusal]:
    """Return those that are recent enough to spare the runtime another call (hazard 5)."""
    refused = last_refusals(assembly).items()
    return {seat: last for seat, last in refused if last.is_believed(now)}


def retired_runtimes(refused: Mapping[str, LastRefusal]) -> frozenset[str]:
    """Runtimes whose program was refused for good."""
    return frozenset(
        seat for seat, last in refused.items() if last.error_class == ErrorClass.RETIRED
    )
