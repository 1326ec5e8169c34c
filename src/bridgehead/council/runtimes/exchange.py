"""What goes to a runtime and what comes back, as plain data, over HTTP or as JSON lines a program printed
(runtimes §2.10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.council.calls import CallUsage
from bridgehead.council.replies.reply import object_from
from bridgehead.council.reporting.seat_report import excerpt
from bridgehead.council.runtimes.call_errors import classify
from bridgehead.host.command import Command, CommandResult

NOTHING_REPORTED: Final = CallUsage()


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server whose tools may be used during a call: the command that starts it, or its URL."""

    name: str
    words: tuple[str, ...] = ()
    url: str = ""

    def started(self) -> dict[str, Any]:
        """As most programs have it in their settings, but for the type of a URL."""
        return (
            {"url": self.url}
            if self.url
            else {"command": self.words[0], "args": self.words[1:]}
        )


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """One prompt, with everything a connection may turn into flags."""

    prompt: str
    workspace: Path
    """Where the runtime works: a snapshot, or a worktree of its own when it may write."""
    timeout_seconds: int
    """How long a program may be silent, and a server take to answer."""
    profile: CapabilityProfile = CapabilityProfile.INSPECT
    model: str | None = None
    reasoning: str | None = None
    session: str | None = None
    """The conversation to go on with; None begins a new one."""
    title: str = "bridgehead council"
    schema: Mapping[str, Any] | None = None
    """What the answer should look like, for runtimes that can be held to it; it is read all the same (council §10)."""
    schema_file: Path | None = None
    most_seconds: int | None = None
    """How long a program may take altogether; None leaves it to the seat's deadline."""
    scratch: Path | None = None
    """A private folder of the seat's own for a home and temporary files."""
    tools: tuple[ToolServer, ...] = ()
    """For connections with `takes_tools`; a council gives none."""

    @property
    def may_write(self) -> bool:
        return self.profile is CapabilityProfile.MODIFY


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP call. Headers may hold keys, so they stay out of traces."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Any = None


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back; `failure` says why nothing did, and then the status is 0."""

    status: int
    text: str = ""
    failure: str | None = None
    timed_out: bool = False
    retry_after_seconds: float | None = None
    """How long a busy server asks to wait."""


Request = Command | HttpRequest
Received = CommandResult | HttpReply


@dataclass(frozen=True, slots=True)
class RuntimeAnswer:
    """The model's words, and what the runtime said about them."""

    text: str
    session: str | None = None
    model: str | None = None
    usage: CallUsage = NOTHING_REPORTED
    refused: tuple[str, ...] = ()
    """What it asked of us meanwhile and did not get."""
    shortfall: Unlooked | None = None
    """Why this is not the whole answer, as the runtime says itself."""


@dataclass(frozen=True, slots=True)
class RuntimeRefusal:
    """The call ended without an answer."""

    error_class: ErrorClass
    message: str
    detail: str = ""
    """Everything the program wrote to stderr; for the log."""
    reason: str | None = None
    """A skip reason of its own; usually it follows from the class (refusals.py)."""
    usage: CallUsage = NOTHING_REPORTED


CallOutcome = RuntimeAnswer | RuntimeRefusal
NextStep = CallOutcome | Request
"""What an adapter makes of what it received: the end of the call, or something more to send."""


def objects_in(printed: str) -> Iterator[dict[str, Any]]:
    """Every line that is a JSON object, in order."""
    # Only a line feed ends a line: U+2028 and its like may stand inside a JSON string.
    yield from (
        found
        for line in printed.split("\n")
        if (found := object_from(line)) is not None
    )


def last_of(events: Sequence[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """The last event of a type."""
    return next(
        (event for event in reversed(events) if event.get("type") == kind), None
    )


def last_pretty_object(printed: str) -> dict[str, Any] | None:
    """The last JSON object that begins on a line of its own `{`; programs print warnings and traces before it."""
    lines = printed.split("\n")
    starts = [number for number, line in enumerate(lines) if line.rstrip("\r") == "{"]
    return object_from("\n".join(lines[starts[-1] :])) if starts else None


def mapping_at(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The object at `path`, empty when there is none."""
    current: Any = value
    for name in path:
        current = current.get(name) if isinstance(current, dict) else None
    return current if isinstance(current, dict) else {}


def text_at(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def cost_at(value: Mapping[str, Any], name: str) -> float | None:
    found = value.get(name)
    return (
        float(found)
        if isinstance(found, int | float) and not isinstance(found, bool)
        else None
    )


def count_at(value: Mapping[str, Any], name: str) -> int:
    """A number of tokens; anything that is none counts 0."""
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def empty_answer(
    far_side: str, shortfall: Unlooked | None, usage: CallUsage
) -> RuntimeRefusal:
    """Return the refusal for an answer without a word."""
    if shortfall in (Unlooked.FILTERED, Unlooked.REFUSED):
        error_class = ErrorClass.CONTENT_FILTER
        message = f"the answer of {far_side} was withheld by its content filter"
    elif shortfall is Unlooked.CUT:
        error_class = ErrorClass.CUT
        message = f"{far_side} reached its length limit before it said anything"
    else:
        error_class = ErrorClass.EMPTY
        message = f"{far_side} gave an empty answer"
    return RuntimeRefusal(error_class, message, usage=usage)


ReadDocument = Callable[[Mapping[str, Any], HttpReply], NextStep]


def read_http(far_side: str, received: Received, read: ReadDocument) -> NextStep:
    """Hand the JSON object of a reply to `read`; a reply that holds none is refused here."""
    if not isinstance(received, HttpReply):
        raise TypeError(f"{far_side} uses HTTP and got the result of a program")
    if received.timed_out:
        return RuntimeRefusal(ErrorClass.TIMEOUT, f"{far_side} did not answer in time")
    if received.failure is not None:
        return RuntimeRefusal(
            ErrorClass.UNREACHABLE, f"{far_side} cannot be reached: {received.failure}"
        )
    document = object_from(received.text)
    if document is not None:
        return read(document, received)
    if received.status == 200:
        return RuntimeRefusal(
            ErrorClass.MALFORMED, f"{far_side} sent something that is not a JSON object"
        )
    message = (
        f"{far_side} answered HTTP {received.status}: {excerpt(received.text, 200)}"
    )
    return RuntimeRefusal(classify(received.text, received.status), message)


def listed_ids(listing: str) -> list[str]:
    """The model ids of a `GET .../models`, in the order of the listing."""
    entries = (object_from(listing) or {}).get("data")
    if not isinstance(entries, list):
        return []
    return [
        str(entry["id"])
        for entry in entries
        if isinstance(entry, dict) and "id" in entry
    ]
