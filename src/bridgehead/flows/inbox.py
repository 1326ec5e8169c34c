"""Match response files to outstanding calls by request id (flows §9 R8). Pure: the bytes have been read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridgehead.flows.calls import Call
from bridgehead.flows.json_bytes import Unreadable, read_object
from bridgehead.flows.schema_check import is_uuid
from bridgehead.flows.settlement import MatchedAnswer


class Rejected:
    """A response file that answers nothing here; it is moved to rejected/."""

    def __init__(self, note: str, reason: str) -> None:
        self.note = note
        self.reason = reason

    @property
    def action(self) -> str:
        return f"rejected:{self.note}"


def match_response(data: bytes, calls: Iterable[Call]) -> tuple[Call, MatchedAnswer] | Rejected:
    """The call this response answers and the attempt it names, or why it is rejected."""
    try:
        document = read_object(data)
    except Unreadable as error:
        return Rejected("malformed", str(error))
    request_id = response_id(document)
    if request_id is None:
        return Rejected(
            "no_id",
            'it has no valid request_id; expected {"request_id": …, "version": "1.0", "status": "success", '
            '"created_at": …, "response": "…"}',
        )
    for call in calls:
        attempt = call.attempt(request_id)
        if attempt is not None:
            return call, MatchedAnswer(attempt, document)
    return Rejected("foreign", f"nothing here asked for {request_id}")


def response_id(document: dict[str, Any]) -> str | None:
    """The document's request id, if it has a valid one."""
    request_id = document.get("request_id")
    return request_id if is_uuid(request_id) else None
