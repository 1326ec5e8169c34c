"""What holds for every model behind HTTP: no connection, no JSON and no answer in time are refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.contract.words import ErrorClass
from bridgehead.council.refusals import classify, excerpt
from bridgehead.council.runtimes.exchange import HttpReply, Outcome, Received, Refused, Request
from bridgehead.council.runtimes.json_lines import object_from

ReadDocument = Callable[[Mapping[str, Any], HttpReply], Outcome | Request]


def read_http(far_side: str, received: Received, read: ReadDocument) -> Outcome | Request:
    """Hand the JSON object of a reply to `read`; a reply that holds none is refused here."""
    if not isinstance(received, HttpReply):
        raise TypeError(f"{far_side} speaks HTTP and got the result of a program")
    if received.timed_out:
        return Refused(ErrorClass.TIMEOUT, f"{far_side} did not answer in time")
    if received.failure is not None:
        return Refused(ErrorClass.UNREACHABLE, f"{far_side} cannot be reached: {received.failure}")
    document = object_from(received.text)
    if document is not None:
        return read(document, received)
    if received.status == 200:
        return Refused(ErrorClass.MALFORMED, f"{far_side} gave something that is no JSON object")
    message = f"{far_side} answered HTTP {received.status}: {excerpt(received.text, 200)}"
    return Refused(classify(received.text, received.status), message)


def listed_ids(listing: str) -> list[str]:
    """The model ids of a `GET .../models`, in the order of the listing."""
    entries = (object_from(listing) or {}).get("data")
    if not isinstance(entries, list):
        return []
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]
