"""Anthropic Messages, what Claude Code speaks: `POST <base>/v1/messages?beta=true`.

After a broken or cut stream Claude asks again without `stream`, so whole answers matter
here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from bridgehead.testing.exchange import (
    TOKENS,
    Answer,
    CallTool,
    Ending,
    ErrorReply,
    Fault,
    ModelRequest,
)
from bridgehead.testing.wires.base import Event, Wire, compact, objects, texts_of

_MESSAGE_ID: Final = "msg_fake_1"
_TOOL_USE_ID: Final = "toolu_fake_1"

_ERRORS: Final[dict[Fault, tuple[int, str, str]]] = {
    Fault.UNAUTHORISED: (401, "authentication_error", "invalid x-api-key"),
    Fault.BAD_KEY: (401, "authentication_error", "invalid x-api-key"),
    Fault.UNKNOWN_MODEL: (404, "not_found_error", "model: {model}"),
    Fault.TOO_LONG: (
        400,
        "invalid_request_error",
        "prompt is too long: 250000 tokens > 200000 maximum",
    ),
    Fault.RATE_LIMIT: (
        429,
        "rate_limit_error",
        "Number of requests has exceeded your rate limit",
    ),
    Fault.QUOTA: (429, "rate_limit_error", "Your credit balance is too low"),
    Fault.SERVER_ERROR: (500, "api_error", "Internal server error"),
    Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
}


class AnthropicMessages(Wire):
    name = "anthropic"
    endpoint: ClassVar = re.compile("/v1/messages$")
    write_tools: ClassVar = ("Write",)
    shell_tools: ClassVar = ("Bash",)

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        messages = objects(body.get("messages"))
        said = [message for message in messages if message.get("role") == "user"]
        results = [
            any(
                block.get("type") == "tool_result"
                for block in objects(message.get("content"))
            )
            for message in said
        ]
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=str(body.get("model", "")),
            user_texts=tuple(
                texts_of(m.get("content"))
                for m, is_result in zip(said, results, strict=True)
                if not is_result
            ),
            tools=tuple(
                str(tool.get("name", "")) for tool in objects(body.get("tools"))
            ),
            answers_tool=bool(results and results[-1]),
            streamed=bool(body.get("stream")),
        )

    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        return {
            "id": _MESSAGE_ID,
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [self._block(answer, request)],
            "stop_reason": _stop_reason(answer),
            "stop_sequence": None,
            "usage": {**_input_usage(), "output_tokens": TOKENS.answer},
        }

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        block = self._block(answer, request)
        empty = {**self.whole(answer, request), "content": [], "stop_reason": None}
        empty["usage"] = {**_input_usage(), "output_tokens": 1}
        started, delta = _block_in_pieces(block)
        payloads: list[dict[str, Any]] = [
            {"type": "message_start", "message": empty},
            {"type": "content_block_start", "index": 0, "content_block": started},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None},
                "usage": {"output_tokens": TOKENS.answer},
            },
            {"type": "message_stop"},
        ]
        return [Event(compact(payload), payload["type"]) for payload in payloads]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        return self.stream(answer, request)[:3]

    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        status, kind, message = _ERRORS[fault]
        body = {
            "type": "error",
            "error": {"type": kind, "message": message.format(model=model)},
        }
        return ErrorReply(
            status, body, {"retry-after": "1"} if fault is Fault.RATE_LIMIT else {}
        )

    def _block(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if isinstance(answer, CallTool):
            name = self.pick_tool(answer, request.tools)
            return {
                "type": "tool_use",
                "id": _TOOL_USE_ID,
                "name": name,
                "input": self.arguments(answer),
            }
        return {"type": "text", "text": answer.text}


def _block_in_pieces(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a block as its empty beginning and the one delta that fills it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, {
            "type": "input_json_delta",
            "partial_json": compact(block["input"]),
        }
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}


_STOP_REASONS: Final = {
    Ending.WHOLE: "end_turn",
    Ending.LENGTH: "max_tokens",
    Ending.FILTER: "refusal",
}


def _stop_reason(answer: Answer) -> str:
    if isinstance(answer, CallTool):
        return "tool_use"
    return _STOP_REASONS[answer.ending]


def _input_usage() -> dict[str, int]:
    # Anthropic counts cached tokens beside input_tokens, not inside.
    fresh = TOKENS.prompt - TOKENS.cached
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": TOKENS.cached,
        "cache_creation_input_tokens": 0,
    }
