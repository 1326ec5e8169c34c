"""What the model server is asked and how it may react, in no vendor's words.

The log of its requests.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

_PATH_MARKER: Final = re.compile(r"PATH=(\S+)")
_ECHO_CHARACTERS: Final = 60
_KEY_HEADERS: Final = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "cookie"}
)


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
    def target_path(self) -> str:
        """The file a tool scenario writes: the last `PATH=...` of the conversation."""
        found = _PATH_MARKER.findall("\n".join(self.user_texts))
        return found[-1] if found else "model-server-was-here.txt"

    @property
    def echo(self) -> str:
        """The deterministic answer: how many user messages there were, and how the last
        one ends.
        """
        last = self.user_texts[-1] if self.user_texts else ""
        return f"FAKE-REPLY turn={len(self.user_texts)} echo={last[-_ECHO_CHARACTERS:]}"


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


class Ending(StrEnum):
    """How an answer ends; each vendor has its own word for it."""

    WHOLE = "whole"
    LENGTH = "length"
    """The limit of tokens was reached."""
    FILTER = "filter"
    """The vendor's content filter stopped it."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    ending: Ending = Ending.WHOLE


@dataclass(frozen=True, slots=True)
class CallTool:
    """Ask the agent to write a file, run a command, or call a tool by name.

    The wire picks one that is offered.
    """

    kind: ToolKind
    path: str = ""
    content: str = "written by the model server\n"
    command: str = ""
    name: str = ""
    """Of a NAMED tool, or how it ends: hosts put the server's name before the tools of
    MCP servers.
    """
    arguments: Mapping[str, Any] = field(default_factory=dict)


Answer = Say | CallTool
Reaction = Answer | Fault | Breakage


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """A refusal in one vendor's shape."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Different numbers for cached and reasoning tokens, so that wrong arithmetic
    shows.
    """

    prompt: int = 11
    cached: int = 3
    answer: int = 7
    reasoning: int = 2


TOKENS: Final = TokenCounts()


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One HTTP request.

    Header names are lower case; `wire` is empty for anything but a question to the
    model.
    """

    method: str
    path: str
    scenario: str
    wire: str
    status: int
    headers: dict[str, str]
    body: Any

    def to_line(self) -> str:
        """One JSON line; keys people really use are not written to a file."""
        masked = {
            name: _mask(value) if name in _KEY_HEADERS else value
            for name, value in self.headers.items()
        }
        return json.dumps({**asdict(self), "headers": masked}, ensure_ascii=False)


class RequestLog:
    """A list that several threads append to and that one can wait on."""

    def __init__(self, file: Path | None = None) -> None:
        self._entries: list[LoggedRequest] = []
        self._changed = threading.Condition()
        self._file = file

    def append(self, entry: LoggedRequest) -> None:
        with self._changed:
            self._entries.append(entry)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(entry.to_line() + "\n")
            self._changed.notify_all()

    def entries(self, *, scenario: str | None = None) -> list[LoggedRequest]:
        with self._changed:
            return [
                entry for entry in self._entries if scenario in (None, entry.scenario)
            ]

    def questions(self, *, scenario: str | None = None) -> list[LoggedRequest]:
        """Return the requests that asked the model something."""
        return [entry for entry in self.entries(scenario=scenario) if entry.wire]

    def wait_until(
        self, reached: Callable[[list[LoggedRequest]], bool], *, timeout_seconds: float
    ) -> bool:
        """Wait until the entries satisfy `reached`; False when they do not in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: reached(self._entries), timeout_seconds
            )


def _mask(value: str) -> str:
    return f"{value[:6]}…" if len(value) > 12 else "…"
