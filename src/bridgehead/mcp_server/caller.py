"""What a handler is given besides its arguments: the project, who calls, and a way to speak and to be stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.assembly.application import Assembly
from bridgehead.host.cancel import Cancel
from bridgehead.mcp_server.client import Client
from bridgehead.mcp_server.results import Result


@dataclass
class Caller:
    """One request of one client. `progress` reports while it is carried out; `warnings` end up in the result."""

    assembly: Assembly
    client: Client
    cancel: Cancel = field(default_factory=Cancel)
    progress: Callable[[str], None] = lambda _message: None
    warnings: list[str] = field(default_factory=list)

    def tell(self, message: str) -> None:
        """Take a warning of an operation."""
        self.warnings.append(message)


class SeatPrompt(NamedTuple):
    """A prompt for the model of the calling agent, as the council wrote it."""

    id: str
    prompt: str


class Asked(NamedTuple):
    """What the client must bring before the call can go on; `state` is what it hands back."""

    state: str
    prompts: tuple[SeatPrompt, ...]


class Spoken(NamedTuple):
    """What a tool has to say: for programs, for readers, and what it needs to go on."""

    result: Result
    text: str
    asked: Asked | None = None
