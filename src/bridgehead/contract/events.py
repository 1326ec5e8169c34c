"""What can be written to the record: one line per thing that happened, and the list of
known kinds.

A kind is `<noun>.<past participle>`; the noun says which part wrote it (`notice` has
none: any part writes it). Plug-ins and newer versions may write kinds that are not
listed here, so readers show unknown kinds as they are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.contract.record_words import Part


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `id` makes appending idempotent: the same id twice is one event.
    """

    id: str
    kind: str
    part: Part
    at: str
    """ISO 8601, UTC, milliseconds."""
    project: str = ""
    """Root of the project it happened in; empty when it belongs to none."""
    run_id: str | None = None
    data: dict[str, Any] = {}


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the record.

    `seq` grows without ever being reused, in commit order.
    """

    seq: int
    event: Event


KINDS: Final[dict[str, str]] = {
    "record.created": "a new record was set up",
    "record.migrated": "the record was upgraded to a newer version",
    "doctor.checked": "`bridgehead doctor` checked the machine",
    "run.started": "a council, flow or bus run began",
    "run.waiting": "a run is waiting for an answer",
    "run.ended": "a run ended",
    "pending.opened": "a question is waiting for an answer",
    "pending.answered": "a pending item was answered",
    "pending.withdrawn": "a pending item is no longer needed",
    "notice": (
        "a run finished, failed or needs an answer (kind, id, title and status are in "
        "data)"
    ),
    "council.started": "a council was started",
    "council.resumed": "a council was resumed",
    "council.event": "a line of a seat's event log (its name is in data.event)",
    "council.reported": "a council wrote its report",
    "council.refused": "a runtime refused a call; kept until a call succeeds",
    "council.accepted": "a runtime answered again after a refusal",
    "council.dismissed": "a finding was dismissed",
    "council.baseline": "the findings of a council were accepted as a baseline",
    "rig.sent": "an envelope was committed by this rig",
    "rig.closed": "a thread was closed by this rig",
    "rig.relayed": "a signed relay turn was committed by this rig",
    "rig.pulled": "envelopes were pulled",
    "rig.refused": "a pull was refused",
    "rig.waiting": "the pull brought questions or answers for this rig",
    "rig.overdue": "an answer is overdue that this rig owes or answers for (noticed by a watch)",
    "rig.pushed": "turns that were committed here were pushed later",
    "rig.frozen": "a thread was frozen for a relay",
    "rig.thawed": "a thread was thawed",
    "flow.started": "a flow began",
    "flow.paused": "a flow wrote a request and exited 42",
    "flow.responded": "a flow request was answered",
    "flow.resumed": "a flow was resumed in a new process",
    "flow.completed": "a flow completed",
    "flow.failed": "a flow failed",
    "flow.cancelled": "a flow was cancelled",
    "bus.joined": "a participant joined",
    "bus.left": "a participant left",
    "bus.certificate": "the certificate of the gateway expires soon",
    "bus.undelivered": "speech, or what `bus send --to` sent, did not reach its participant, and why",
    "bus.refused": "connections were refused: how many since the last such event, and why",
    "bus.changed": "a participant's record was added or changed",
    "bus.revoked": "a participant's credential was revoked or has expired",
    "bus.message.outcome": "the outcome of one message (with `debug_outcomes`)",
    "bus.bridge.health": "a link of a bridge changed its state, or says that it did not",
}
