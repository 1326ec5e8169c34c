"""What goes to a runtime and what comes back, as plain data: an `Ask` becomes a request, a reply an `Outcome`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.council.calls import CallUsage
from bridgehead.host.command import Command, CommandResult

NOTHING_REPORTED: Final = CallUsage()


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt, with everything a connection may turn into flags."""

    prompt: str
    workspace: Path
    """Where the runtime works: a snapshot, or a worktree of its own when it may write."""
    timeout_seconds: int
    profile: CapabilityProfile = CapabilityProfile.INSPECT
    model: str | None = None
    reasoning: str | None = None
    session: str | None = None
    """The conversation to go on with; None begins a new one."""
    title: str = "bridgehead council"
    schema: Mapping[str, Any] | None = None
    """What the answer should look like, for runtimes that can be held to it; it is read all the same (council §10)."""
    schema_file: Path | None = None

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


Request = Command | HttpRequest
Received = CommandResult | HttpReply


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's words, and what the runtime said about them."""

    text: str
    session: str | None = None
    model: str | None = None
    usage: CallUsage = NOTHING_REPORTED


@dataclass(frozen=True, slots=True)
class Refused:
    """The call ended without an answer."""

    error_class: ErrorClass
    message: str
    detail: str = ""
    """Everything the program wrote to stderr; for the log."""
    reason: str | None = None
    """A skip reason of its own; usually it follows from the class (refusals.py)."""
    usage: CallUsage = NOTHING_REPORTED


Outcome = Answered | Refused
