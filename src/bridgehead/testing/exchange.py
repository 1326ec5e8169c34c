"""What a fake model is asked and how it may react, in words that belong to no vendor's wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

_PATH_MARKER: Final = re.compile(r"PATH=(\S+)")
_ECHO_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to the model, whatever wire it came over."""

    wire: str
    scenario: str
    model: str
    user_texts: tuple[str, ...]
    """One per user message, in order; every agent adds context messages of its own."""
    tools: tuple[str, ...] = ()
    answers_tool: bool = False
    """The last item of the conversation is a tool's result."""
    streamed: bool = True

    @property
    def last_user_text(self) -> str:
        return self.user_texts[-1] if self.user_texts else ""

    @property
    def target_path(self) -> str:
        """The file a tool scenario writes: the last `PATH=...` of the conversation."""
        found = _PATH_MARKER.findall("\n".join(self.user_texts))
        return found[-1] if found else "model-server-was-here.txt"

    @property
    def echo(self) -> str:
        """The deterministic answer: how many user messages there were, and how the last one ends."""
        return f"FAKE-REPLY turn={len(self.user_texts)} echo={self.last_user_text[-_ECHO_CHARACTERS:]}"


class ToolKind(StrEnum):
    WRITE = "write"
    SHELL = "shell"
    NAMED = "named"


class Fault(StrEnum):
    """Refusals a vendor answers with an HTTP status and an error body of its own shape."""

    UNAUTHORISED = "e401"
    BAD_KEY = "e400key"
    UNKNOWN_MODEL = "e404"
    TOO_LONG = "ectx"
    RATE_LIMIT = "e429"
    QUOTA = "equota"
    SERVER_ERROR = "e500"
    OVERLOADED = "e529"


class Breakage(StrEnum):
    """Ways in which an answer with status 200 is no answer."""

    HTML = "malformed"
    BAD_JSON = "badsse"
    CUT = "cut"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class CallTool:
    """Ask the agent to write a file, run a command, or call a tool by name; the wire picks one that is offered."""

    kind: ToolKind
    path: str = ""
    content: str = "written by the model server\n"
    command: str = ""
    name: str = ""
    """Of a NAMED tool, or how it ends: hosts put the server's name before the tools of MCP servers."""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refuse:
    fault: Fault


@dataclass(frozen=True, slots=True)
class Break:
    breakage: Breakage


Answer = Say | CallTool
Reaction = Say | CallTool | Refuse | Break


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """A refusal in one vendor's shape."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Different numbers for cached and reasoning tokens, so that wrong arithmetic shows."""

    prompt: int = 11
    cached: int = 3
    answer: int = 7
    reasoning: int = 2


TOKENS: Final = TokenCounts()
