"""One file per vendor's wire; the path of a request picks it."""

from __future__ import annotations

from typing import Final

from bridgehead.testing.wires.anthropic import AnthropicMessages
from bridgehead.testing.wires.base import Wire
from bridgehead.testing.wires.gemini import GeminiContent
from bridgehead.testing.wires.openai import ChatCompletions, OpenAIResponses

WIRES: Final[tuple[Wire, ...]] = (
    AnthropicMessages(),
    OpenAIResponses(),
    ChatCompletions(),
    GeminiContent(),
)


def wire_for(path: str) -> Wire | None:
    """Return the wire whose questions are posted to `path` (scenario prefix and query
    taken off), or None.
    """
    return next((wire for wire in WIRES if wire.endpoint.search(path)), None)
