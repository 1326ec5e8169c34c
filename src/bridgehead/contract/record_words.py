"""The closed vocabularies of the record: who writes, where a run stands, what is pending.

A module of its own because every pause of a flow tells the record: the council's words would cost it 3 ms more.
"""

from __future__ import annotations

from enum import StrEnum


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
