"""Gemini, `POST <base>/v1beta/models/<model>:streamGenerateContent?alt=sse`.

`finishReason` is mandatory: without it the CLI asks again and glues the pieces
together.
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
from bridgehead.testing.wires.base import Event, Wire, compact, objects

_TOO_LONG: Final = (
    "The input token count (2000000) exceeds the maximum number of tokens allowed "
    "(1048576)."
)
_BAD_KEY: Final = "API key not valid. Please pass a valid API key."

_ERRORS: Final[dict[Fault, tuple[int, str, str]]] = {
    Fault.UNAUTHORISED: (401, "UNAUTHENTICATED", _BAD_KEY),
    Fault.BAD_KEY: (400, "INVALID_ARGUMENT", _BAD_KEY),
    Fault.UNKNOWN_MODEL: (
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta",
    ),
    Fault.TOO_LONG: (400, "INVALID_ARGUMENT", _TOO_LONG),
    Fault.RATE_LIMIT: (
        429,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
    ),
    Fault.QUOTA: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota"),
    Fault.SERVER_ERROR: (500, "INTERNAL", "Internal error encountered."),
    Fault.OVERLOADED: (
        503,
        "UNAVAILABLE",
        "The model is overloaded. Please try again later.",
    ),
}

# A per-day quota id is what tells an exhausted quota, which is not retried, from a busy
# minute, which is.
_DETAILS: Final[dict[Fault, list[dict[str, Any]]]] = {
    Fault.BAD_KEY: [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
        }
    ],
    Fault.QUOTA: [
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
            ],
        }
    ],
}


class GeminiContent(Wire):
    name = "gemini"
    endpoint: ClassVar = re.compile(
        r"/models/(?P<model>[^/:]+):(?P<verb>streamGenerateContent|generateContent)$"
    )
    write_tools: ClassVar = ("write_file",)
    shell_tools: ClassVar = ("run_shell_command",)

    def read(self, scenario: str, path: str, body: Mapping[str, Any]) -> ModelRequest:
        endpoint = self.endpoint.search(path)
        contents = objects(body.get("contents"))
        user_contents = [
            content for content in contents if content.get("role", "user") == "user"
        ]
        texts = [
            _text(content) for content in user_contents if not _is_tool_result(content)
        ]
        tools = []
        for tool in objects(body.get("tools")):
            for declaration in objects(tool.get("functionDeclarations")):
                tools.append(str(declaration.get("name", "")))
        streamed = endpoint is not None and endpoint["verb"] == "streamGenerateContent"
        return ModelRequest(
            wire=self.name,
            scenario=scenario,
            model=endpoint["model"] if endpoint else "",
            user_texts=tuple(texts),
            tools=tuple(tools),
            answers_tool=bool(contents) and _is_tool_result(contents[-1]),
            streamed=streamed,
        )

    def whole(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        content = {"role": "model", "parts": [self._part(answer, request)]}
        return {
            "candidates": [
                {
                    "content": content,
                    "finishReason": _finish_reason(answer),
                    "index": 0,
                }
            ],
            "usageMetadata": _usage(),
            "modelVersion": request.model,
        }

    def stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        return [Event(compact(self.whole(answer, request)))]

    def cut_stream(self, answer: Answer, request: ModelRequest) -> list[Event]:
        chunk = self.whole(answer, request)
        del chunk["candidates"][0]["finishReason"]
        return [Event(compact(chunk))]

    def refuse(self, fault: Fault, model: str) -> ErrorReply:
        code, status, message = _ERRORS[fault]
        error: dict[str, Any] = {
            "code": code,
            "message": message.format(model=model),
            "status": status,
        }
        if fault in _DETAILS:
            error["details"] = _DETAILS[fault]
        return ErrorReply(
            code,
            {"error": error},
            {"retry-after": "1"} if fault is Fault.RATE_LIMIT else {},
        )

    def _part(self, answer: Answer, request: ModelRequest) -> dict[str, Any]:
        if not isinstance(answer, CallTool):
            return {"text": answer.text}
        return {
            "functionCall": {
                "name": self.pick_tool(answer, request.tools),
                "args": self.arguments(answer),
            }
        }


_FINISH_REASONS: Final = {
    Ending.WHOLE: "STOP",
    Ending.LENGTH: "MAX_TOKENS",
    Ending.FILTER: "SAFETY",
}


def _finish_reason(answer: Answer) -> str:
    if isinstance(answer, CallTool):
        return "STOP"
    return _FINISH_REASONS[answer.ending]


def _text(content: Mapping[str, Any]) -> str:
    return "\n".join(
        str(part.get("text", "")) for part in objects(content.get("parts"))
    )


def _is_tool_result(content: Mapping[str, Any]) -> bool:
    return any("functionResponse" in part for part in objects(content.get("parts")))


def _usage() -> dict[str, int]:
    return {
        "promptTokenCount": TOKENS.prompt,
        "candidatesTokenCount": TOKENS.answer,
        "totalTokenCount": TOKENS.prompt + TOKENS.answer + TOKENS.reasoning,
        "cachedContentTokenCount": TOKENS.cached,
        "thoughtsTokenCount": TOKENS.reasoning,
    }
