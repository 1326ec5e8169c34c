"""What a resumed council does with the calls its journal knows (council §4, §23)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class CallState(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    STARTED = "started"
    """Recorded as begun, no result: the process was killed."""
    WAITING = "waiting"
    """A host or remote seat that has been asked."""


@dataclass(frozen=True, slots=True)
class JournalledCall:
    key: str
    state: CallState
    answered: bool = False
    """An acceptable answer to a waiting call is there."""


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """Keys in journal order."""

    reused: tuple[str, ...]
    called_again: tuple[str, ...]
    folded: tuple[str, ...]
    still_waiting: tuple[str, ...]
    given_up: tuple[str, ...]


def plan_resume(calls: Iterable[JournalledCall], *, close: bool) -> ResumePlan:
    """A finished call, failed ones included, is never made again; `close` gives up what still waits."""
    fate = {call.key: _fate(call, close=close) for call in calls}

    def those(wanted: str) -> tuple[str, ...]:
        return tuple(key for key, chosen in fate.items() if chosen == wanted)

    return ResumePlan(
        those("reused"), those("called_again"), those("folded"), those("still_waiting"), those("given_up")
    )


def _fate(call: JournalledCall, *, close: bool) -> str:
    match call.state:
        case CallState.FINISHED | CallState.FAILED:
            return "reused"
        case CallState.STARTED:
            return "called_again"
        case CallState.WAITING if call.answered:
            return "folded"
        case _:
            return "given_up" if close else "still_waiting"
