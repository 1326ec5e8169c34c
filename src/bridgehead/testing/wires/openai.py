"""The two wires of OpenAI: Chat Completions and Responses, and refusals in OpenAI's
shape.
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
    ToolKind,
)
from bridgehead.testing.wires.base import Event, Wire, compact, objects, texts_of

_COMPLETION_ID: Final = "chatcmpl-fake-1"
_CALL_ID: Final = "call_1"
_DONE: Final = Event("[DONE]")
_RESPONSE_ID: Final = "resp_fake_1"
_RESPONSES_CALL_ID: Final = "call_fake_1"
_PATCH_TOOL: Final = "apply_patch"
_RESULT_TYPES: Final = ("function_call_output", "custom_tool_call_output")
_ERRORS: Final[dict[Fault, tuple[int, str, str, str | None]]] = {
    Fault.UNAUTHORISED: (
        401,
        "invalid_request_error",
        "Incorrect API key provided.",
        "invalid_api_key",
    ),
    Fault.BAD_KEY: (
        401,
        "invalid_request_error",
        "Incorrect API key provided.",
        "invalid_api_key",
    ),
    Fault.UNKNOWN_MODEL: (
        404,
        "invalid_request_error",
        "The model `{model}` does not exist or you do not have access to it.",
        "model_not_found",
    ),
    Fault.TOO_LONG: (
        400,
        "invalid_request_error",
        "Your input exceeds the context window of this model.",
        "context_length_exceeded",
    ),
    Fault.RATE_LIMIT: (
        429,
        "requests",
        "Rate limit reached for requests",
        "rate_limit_exceeded",
    ),
    Fault.QUOTA: (
        429,
        "insufficient_quota",
        "You exceeded your current quota.",
        "insufficient_quota",
    ),
    Fault.SERVER_ERROR: (500, "server_error", "The server had an error", None),
    Fault.OVERLOADED: (503, "server_error", "The server is overloaded", None),
}


class _OpenAIWire(Wire):
    """Refuses as OpenAI and its imitators do."""

    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        status, kind, message, code = _ERRORS[fault]
        error = {
            "message": message.format(model=model),
            "type": kind,
            "param": None,
            "code": code,
        }
        return ErrorReply(
            status,
            {"error": error},
            {"retry-after": "1"} if fault is Fault.RATE_LIMIT else {},
        )


class ChatCompletions(_OpenAIWire):
    """What OpenCode and every OpenAI-compatible endpoint speak:
    `POST <base>/chat/completions`.

    OpenCode asks for a title first when it got none; that request offers no tools and
    is answered with text.
    """

    name = "chat"
    endpoint: ClassVar = re.compile("/chat/completions$")
    path_argument = "filePath"
    write_tools: ClassVar = ("write",)
    shell_tools: ClassVar = ("bash",)

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        messages = objects(body.get("messages"))
        functions = [tool.get("function") for tool in objects(body.get("tools"))]
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=str(body.get("model", "")),
            user_texts=tuple(
                texts_of(m.get("content")) for m in messages if m.get("role") == "user"
            ),
            tools=tuple(
                str(function.get("name", "")) for function in objects(functions)
            ),
            answers_tool=bool(messages) and messages[-1].get("role") == "tool",
            streamed=bool(body.get("stream")),
        )

    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", **self._content(answer, request)},
            "finish_reason": _finish_reason(answer),
        }
        return {
            **_frame(request, "chat.completion"),
            "choices": [choice],
            "usage": _chat_usage(),
        }

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        last = _chunk(request, {}, finish_reason=_finish_reason(answer)) | {
            "usage": _chat_usage()
        }
        return [*self.cut_stream(answer, request), Event(compact(last)), _DONE]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        opening = _chunk(request, {"role": "assistant", "content": ""})
        return [
            Event(compact(opening)),
            Event(compact(_chunk(request, self._content(answer, request)))),
        ]

    def _content(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if not isinstance(answer, CallTool):
            return {"content": answer.text}
        function = {
            "name": self.pick_tool(answer, request.tools),
            "arguments": compact(self.arguments(answer)),
        }
        return {
            "tool_calls": [
                {"index": 0, "id": _CALL_ID, "type": "function", "function": function}
            ]
        }


def _frame(request: ModelRequest, kind: str) -> dict[str, Any]:
    return {"id": _COMPLETION_ID, "object": kind, "created": 0, "model": request.model}


def _chunk(
    request: ModelRequest, delta: dict[str, Any], *, finish_reason: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**_frame(request, "chat.completion.chunk"), "choices": [choice]}


_FINISH_REASONS: Final = {
    Ending.WHOLE: "stop",
    Ending.LENGTH: "length",
    Ending.FILTER: "content_filter",
}
_INCOMPLETE: Final = {
    Ending.LENGTH: "max_output_tokens",
    Ending.FILTER: "content_filter",
}


def _finish_reason(answer: Answer) -> str:
    if isinstance(answer, CallTool):
        return "tool_calls"
    return _FINISH_REASONS[answer.ending]


def _chat_usage() -> dict[str, Any]:
    return {
        "prompt_tokens": TOKENS.prompt,
        "completion_tokens": TOKENS.answer,
        "total_tokens": TOKENS.prompt + TOKENS.answer,
        "prompt_tokens_details": {"cached_tokens": TOKENS.cached},
        "completion_tokens_details": {"reasoning_tokens": TOKENS.reasoning},
    }


class OpenAIResponses(_OpenAIWire):
    """What Codex speaks: `POST <base>/responses`.

    The text is taken from `response.output_item.done`; a stream without
    `response.completed` is a failed turn.
    """

    name = "responses"
    endpoint: ClassVar = re.compile("/responses$")
    write_tools: ClassVar = (_PATCH_TOOL, "exec_command", "shell")
    shell_tools: ClassVar = ("exec_command", "shell")

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        given = body.get("input")
        items = (
            [{"role": "user", "content": given}]
            if isinstance(given, str)
            else objects(given)
        )
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=str(body.get("model", "")),
            user_texts=tuple(
                texts_of(item.get("content"))
                for item in items
                if item.get("role") == "user"
            ),
            tools=tuple(
                str(tool.get("name") or tool.get("type", ""))
                for tool in objects(body.get("tools"))
            ),
            # A call that was broken off has its result too, with words of the user
            # after it.
            answers_tool=any(item.get("type") in _RESULT_TYPES for item in items),
            streamed=bool(body.get("stream")),
        )

    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        why = _why_incomplete(answer)
        return {
            "id": _RESPONSE_ID,
            "object": "response",
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "model": request.model,
            "output": [self._item(answer, request)],
            "usage": {
                "input_tokens": TOKENS.prompt,
                "input_tokens_details": {"cached_tokens": TOKENS.cached},
                "output_tokens": TOKENS.answer,
                "output_tokens_details": {"reasoning_tokens": TOKENS.reasoning},
                "total_tokens": TOKENS.prompt + TOKENS.answer,
            },
        }

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        item = self._item(answer, request)
        ended = self.whole(answer, request)
        created = {
            "id": _RESPONSE_ID,
            "object": "response",
            "status": "in_progress",
            "output": [],
        }
        payloads: list[dict[str, Any]] = [
            {"type": "response.created", "response": created},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {
                "type": f"response.{ended['status']}",
                "response": ended,
            },
        ]
        return [Event(compact(payload), payload["type"]) for payload in payloads]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        return self.stream(answer, request)[:-1]

    def _item(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if isinstance(answer, CallTool):
            return _call_item(answer, self.pick_tool(answer, request.tools))
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {
            "type": "message",
            "id": "msg_fake_1",
            "role": "assistant",
            "content": content,
        }


def _why_incomplete(answer: Answer) -> str | None:
    if isinstance(answer, CallTool):
        return None
    return _INCOMPLETE.get(answer.ending)


def _call_item(call: CallTool, tool: str) -> dict[str, Any]:
    if call.kind is ToolKind.NAMED:
        # codex offers a search in place of the tools of its servers, and calls those by
        # server and name.
        server, _, name = tool.rpartition("__") if tool == call.name else ("", "", tool)
        named = {"name": name, "arguments": compact(dict(call.arguments))} | (
            {"namespace": server} if server else {}
        )
        return {"type": "function_call", "call_id": _RESPONSES_CALL_ID, **named}
    if tool == _PATCH_TOOL:
        patch = (
            "*** Begin Patch\n*** Add File: "
            f"{call.path}\n+{call.content.rstrip()}\n*** End Patch\n"
        )
        return {
            "type": "custom_tool_call",
            "call_id": _RESPONSES_CALL_ID,
            "name": tool,
            "input": patch,
        }
    # An agent that offers no tool for files is asked to write through its shell.
    command = (
        call.command
        if call.kind is ToolKind.SHELL
        else f"printf '{call.content}' > {call.path}"
    )
    words: dict[str, Any] = (
        {"command": ["sh", "-c", command]} if tool == "shell" else {"cmd": command}
    )
    return {
        "type": "function_call",
        "call_id": _RESPONSES_CALL_ID,
        "name": tool,
        "arguments": compact(words),
    }
