"""Take a model's words out of what its program printed around them (council §10 step 1).

Adapters usually hand over bare text; recorded replies, pasted answers and plug-ins may not. Text that is no known
envelope is returned as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Colour and cursor sequences that a terminal program may leave in its output.
_TERMINAL_CODES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_MOST_EVENT_LINES: Final = 200_000
# An object with one of these lists is a model's answer, whatever else it says.
_ANSWER_LISTS: Final = (
    "outputs findings rulings challenges responses challenge_notes messages positions".split()
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The text inside, and the program's own word that it failed."""

    text: str
    error: str | None = None


def open_envelope(printed: str) -> Opened:
    """The model's text; `error` is set when the program says that the call failed."""
    plain = _TERMINAL_CODES.sub("", printed)
    document = _object(plain)
    opened = _open_document(document) if document is not None else None
    return opened or _open_events(plain) or Opened(plain)


def _open_document(document: Mapping[str, Any]) -> Opened | None:
    text = _enveloped_text(document)
    if document.get("is_error") is True:  # claude
        return Opened(text or "", error=text or "the runtime reported an error")
    if _is_answer(document):
        return None
    if text is not None:
        return Opened(text, error=_error_text(document.get("error")))
    if isinstance(document.get("parts"), list):  # opencode over HTTP
        return Opened(_joined_text(document["parts"]), error=_http_error(document.get("info")))
    if document.get("error"):
        return Opened("", error=_error_text(document["error"]))
    return None


def _enveloped_text(document: Mapping[str, Any]) -> str | None:
    """What claude says in `result` and gemini in `response`."""
    texts = (document.get("result"), document.get("response"))
    return next((text for text in texts if isinstance(text, str)), None)


def _is_answer(document: Mapping[str, Any]) -> bool:
    """Whether the object is what a model wrote, not what its program wrapped around it."""
    holds_list = any(isinstance(document.get(name), list) for name in _ANSWER_LISTS)
    return holds_list or ("title" in document and "description" in document)


def _open_events(printed: str) -> Opened | None:
    """The JSON lines of codex and opencode; other lines between them are noise."""
    # Only a line feed ends a line: U+2028 and its like may stand inside a JSON string.
    lines = printed.split("\n")[:_MOST_EVENT_LINES]
    events = [
        event for event in map(_object, lines) if event is not None and isinstance(event.get("type"), str)
    ]
    # A top-level `error` of codex is a retry notice; only `turn.failed` is its last word.
    failure = next(
        (_error_text(event.get("error")) for event in events if event["type"] == "turn.failed"), None
    )
    messages = [event["item"].get("text") for event in events if _is_message(event)]
    if failure is not None or (messages and isinstance(messages[-1], str)):
        return Opened(messages[-1] if messages else "", failure)
    parts = [
        event["part"] for event in events if event["type"] == "text" and isinstance(event.get("part"), dict)
    ]
    error = next(
        (_error_text(event.get("error") or event) for event in events if event["type"] == "error"), None
    )
    return Opened(_joined_text(parts), error) if parts or error is not None else None


def _is_message(event: Mapping[str, Any]) -> bool:
    item = event.get("item")
    return (
        event["type"] == "item.completed" and isinstance(item, dict) and item.get("type") == "agent_message"
    )


def _joined_text(parts: list[Any]) -> str:
    texts = [
        part.get("text") for part in parts if isinstance(part, dict) and part.get("type", "text") == "text"
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _http_error(info: object) -> str | None:
    return _error_text(info.get("error")) if isinstance(info, dict) else None


def _error_text(error: object) -> str | None:
    if not error:
        return None
    if isinstance(error, dict):
        inner = error.get("message") or error.get("data") or error
        return inner if isinstance(inner, str) else json.dumps(inner)[:500]
    return str(error)[:500]


def _object(text: str) -> dict[str, Any] | None:
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith("{"):
        return None
    try:
        document = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
