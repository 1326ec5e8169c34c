"""The closed vocabularies of the record: who writes, where a run stands, what is
pending.

A module of its own because every pause of a flow tells the record: the council's words
would cost it 3 ms more.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

PERSONS: Final = frozenset({"human", "person", "user"})
"""Names of the agent that a flow asks when it means a person."""


class Part(StrEnum):
    """Which part of the product wrote an event or waits for an answer."""

    COUNCIL = "council"
    RIGS = "rigs"
    FLOWS = "flows"
    BUS = "bus"
    RECORD = "record"


class RunState(StrEnum):
    """Where a recorded run stands."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PendingKind(StrEnum):
    """What kind of answer is waited for."""

    FLOW_REQUEST = "flow_request"
    HALTED_RUNTIME = "halted_runtime"
    ENVELOPE = "envelope"
    BUS_APPROVAL = "bus_approval"


class PendingState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"


class AnswerStatus(StrEnum):
    """How a pending item was answered; the words of the flow files (flows §3)."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"


def is_person(agent: object) -> bool:
    """Return whether the agent of a question is a person."""
    return isinstance(agent, str) and agent.strip().casefold() in PERSONS
