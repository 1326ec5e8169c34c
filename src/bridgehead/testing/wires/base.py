"""What every wire can do: read a question, say an answer streamed or whole, refuse,
break off.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from bridgehead.testing.exchange import (
    Answer,
    CallTool,
    ErrorReply,
    Fault,
    ModelRequest,
    ToolKind,
)

_TEXTS: Final = ("text", "input_text")


class Event(NamedTuple):
    """One server-sent event; some wires name their events, others do not."""

    data: str
    name: str | None = None

    def encode(self) -> bytes:
        named = f"event: {self.name}\n" if self.name else ""
        return f"{named}data: {self.data}\n\n".encode()


class Wire(ABC):
    """One vendor's request and answer shapes."""

    name: ClassVar[str]
    endpoint: ClassVar[re.Pattern[str]]
    """The end of the path to which its questions are posted."""
    path_argument: ClassVar[str] = "file_path"
    """What a tool that writes a file calls the path."""
    write_tools: ClassVar[tuple[str, ...]]
    shell_tools: ClassVar[tuple[str, ...]]
    """Tool names in order of preference; the first one is called when none of them is
    offered.
    """

    @abstractmethod
    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        """Return the question in `body`."""

    @abstractmethod
    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        """Return the answer as the events of a complete stream."""

    @abstractmethod
    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        """Return the answer as a stream that ends too early."""

    @abstractmethod
    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        """Return the answer as one JSON object, for a client that does not stream."""

    @abstractmethod
    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        """Return the refusal in this vendor's shape."""

    def pick_tool(self, call: CallTool, offered: Iterable[str]) -> str:
        """Return the offered tool that does what `call` wants.

        The usual one when none is offered, to see it refused.
        """
        if call.kind is ToolKind.NAMED:
            return next(
                (
                    name
                    for name in offered
                    if name == call.name or name.endswith(f"_{call.name}")
                ),
                call.name,
            )
        wanted = self.write_tools if call.kind is ToolKind.WRITE else self.shell_tools
        names = set(offered)
        return next((name for name in wanted if name in names), wanted[0])

    def arguments(self, call: CallTool) -> dict[str, Any]:
        """Return what the picked tool is given."""
        if call.kind is ToolKind.NAMED:
            return dict(call.arguments)
        if call.kind is ToolKind.WRITE:
            return {self.path_argument: call.path, "content": call.content}
        return {"command": call.command, "description": "asked for by the model server"}


def texts_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of typed blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = [
        block
        for block in content
        if isinstance(block, dict) and block.get("type", "text") in _TEXTS
    ]
    return "\n".join(str(block.get("text", "")) for block in blocks)


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, whatever else a client put into it."""
    return (
        [entry for entry in value if isinstance(entry, dict)]
        if isinstance(value, list)
        else []
    )


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
