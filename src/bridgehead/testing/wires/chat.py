"""Chat Completions, what OpenCode and every OpenAI-compatible endpoint speak: `POST <base>/chat/completions`.

OpenCode asks for a title first when it got none; that request offers no tools and is answered with text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from bridgehead.testing.exchange import TOKENS, Answer, CallTool, ErrorReply, Fault, ModelRequest, ToolKind
from bridgehead.testing.wires.base import Event, Wire, compact, objects, openai_error, texts_of

_COMPLETION_ID: Final = "chatcmpl-fake-1"
_CALL_ID: Final = "call_1"
_DONE: Final = Event("[DONE]")


class ChatCompletions(Wire):
    name = "chat"
    write_tools: ClassVar = ("write",)
    shell_tools: ClassVar = ("bash",)

    def speaks_at(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        messages = objects(body.get("messages"))
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=str(body.get("model", "")),
            user_texts=tuple(texts_of(m.get("content")) for m in messages if m.get("role") == "user"),
            tools=tuple(
                str(objects([tool.get("function")])[0].get("name", ""))
                for tool in objects(body.get("tools"))
                if isinstance(tool.get("function"), dict)
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
        return {**_frame(request, "chat.completion"), "choices": [choice], "usage": _usage()}

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        last = _chunk(request, {}, finish_reason=_finish_reason(answer)) | {"usage": _usage()}
        return [*self.cut_stream(answer, request), Event(compact(last)), _DONE]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        opening = _chunk(request, {"role": "assistant", "content": ""})
        return [Event(compact(opening)), Event(compact(_chunk(request, self._content(answer, request))))]

    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        return openai_error(fault, model)

    def _content(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if not isinstance(answer, CallTool):
            return {"content": answer.text}
        function = {"name": self.pick_tool(answer, request.tools), "arguments": compact(_arguments(answer))}
        return {"tool_calls": [{"index": 0, "id": _CALL_ID, "type": "function", "function": function}]}


def _arguments(call: CallTool) -> dict[str, Any]:
    if call.kind is ToolKind.NAMED:
        return dict(call.arguments)
    if call.kind is ToolKind.WRITE:
        return {"filePath": call.path, "content": call.content}
    return {"command": call.command, "description": "asked for by the model server"}


def _frame(request: ModelRequest, kind: str) -> dict[str, Any]:
    return {"id": _COMPLETION_ID, "object": kind, "created": 0, "model": request.model}


def _chunk(request: ModelRequest, delta: dict[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**_frame(request, "chat.completion.chunk"), "choices": [choice]}


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if isinstance(answer, CallTool) else "stop"


def _usage() -> dict[str, Any]:
    return {
        "prompt_tokens": TOKENS.prompt,
        "completion_tokens": TOKENS.answer,
        "total_tokens": TOKENS.prompt + TOKENS.answer,
        "prompt_tokens_details": {"cached_tokens": TOKENS.cached},
        "completion_tokens_details": {"reasoning_tokens": TOKENS.reasoning},
    }
