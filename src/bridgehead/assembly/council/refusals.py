"""Refusals of runtimes that the record remembers, readable without everything else a council needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.contract.words import ErrorClass
from bridgehead.control_plane.records import EventFilter

RECENT_REFUSALS: Final = 200


@dataclass(frozen=True, slots=True)
class LastRefusal:
    """Why a runtime's last call was refused; forgotten when a call succeeds (council §19)."""

    error_class: str
    reason: str
    at: str


def last_refusals(assembly: Assembly) -> dict[str, LastRefusal]:
    """Runtimes whose last word in the record is a refusal."""
    where = EventFilter(kinds=("council.refused", "council.accepted"))
    with assembly.store(read_only=True) as store:
        recent = store.events(where, limit=RECENT_REFUSALS, newest_first=True)
    last: dict[str, LastRefusal | None] = {}
    for event in (recorded.event for recorded in recent):
        kind, reason = event.data.get("error_class"), event.data.get("reason")
        refused = LastRefusal(str(kind), str(reason or kind), event.at) if kind else None
        last.setdefault(str(event.data.get("bridge")), refused)
    return {seat: refused for seat, refused in last.items() if refused is not None}


def retired_runtimes(assembly: Assembly) -> frozenset[str]:
    """Runtimes whose last word in the record is that their program is refused for good."""
    refused = last_refusals(assembly).items()
    return frozenset(seat for seat, last in refused if last.error_class == ErrorClass.RETIRED)
