"""OpenAI Responses, what Codex speaks: `POST <base>/responses`.

The text is taken from `response.output_item.done`; a stream without `response.completed` is a failed turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from bridgehead.testing.exchange import TOKENS, Answer, CallTool, ErrorReply, Fault, ModelRequest, ToolKind
from bridgehead.testing.wires.base import Event, Wire, compact, objects, openai_error, texts_of

_RESPONSE_ID: Final = "resp_fake_1"
_CALL_ID: Final = "call_fake_1"
_PATCH_TOOL: Final = "apply_patch"
_RESULT_TYPES: Final = ("function_call_output", "custom_tool_call_output")


class OpenAIResponses(Wire):
    name = "responses"
    write_tools: ClassVar = (_PATCH_TOOL, "exec_command", "shell")
    shell_tools: ClassVar = ("exec_command", "shell")

    def speaks_at(self, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=str(body.get("model", "")),
            user_texts=tuple(texts_of(item.get("content")) for item in items if item.get("role") == "user"),
            tools=tuple(str(tool.get("name", "")) for tool in objects(body.get("tools"))),
            # A call that was broken off has its result too, with words of the user after it.
            answers_tool=any(item.get("type") in _RESULT_TYPES for item in items),
            streamed=bool(body.get("stream")),
        )

    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        return {
            "id": _RESPONSE_ID,
            "object": "response",
            "status": "completed",
            "model": request.model,
            "output": [self._item(answer, request)],
            "usage": _usage(),
        }

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        item = self._item(answer, request)
        created = {"id": _RESPONSE_ID, "object": "response", "status": "in_progress", "output": []}
        payloads: list[dict[str, Any]] = [
            {"type": "response.created", "response": created},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self.whole(answer, request)},
        ]
        return [Event(compact(payload), payload["type"]) for payload in payloads]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        return self.stream(answer, request)[:-1]

    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        return openai_error(fault, model)

    def _item(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if isinstance(answer, CallTool):
            return _call_item(answer, self.pick_tool(answer, request.tools))
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {"type": "message", "id": "msg_fake_1", "role": "assistant", "content": content}


def _call_item(call: CallTool, tool: str) -> dict[str, Any]:
    if call.kind is ToolKind.NAMED:
        arguments = compact(dict(call.arguments))
        return {"type": "function_call", "call_id": _CALL_ID, "name": tool, "arguments": arguments}
    if tool == _PATCH_TOOL:
        patch = f"*** Begin Patch\n*** Add File: {call.path}\n+{call.content.rstrip()}\n*** End Patch\n"
        return {"type": "custom_tool_call", "call_id": _CALL_ID, "name": tool, "input": patch}
    # An agent that offers no tool for files is asked to write through its shell.
    command = call.command if call.kind is ToolKind.SHELL else f"printf '{call.content}' > {call.path}"
    words: dict[str, Any] = {"cmd": command}
    if tool == "shell":
        words = {"command": ["sh", "-c", command]}
    return {"type": "function_call", "call_id": _CALL_ID, "name": tool, "arguments": compact(words)}


def _usage() -> dict[str, Any]:
    return {
        "input_tokens": TOKENS.prompt,
        "input_tokens_details": {"cached_tokens": TOKENS.cached},
        "output_tokens": TOKENS.answer,
        "output_tokens_details": {"reasoning_tokens": TOKENS.reasoning},
        "total_tokens": TOKENS.prompt + TOKENS.answer,
    }
