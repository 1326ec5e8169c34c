"""The OpenAI-compatible door: programs that know a chat endpoint talk to the assistant of the bus.

The key is the token of a participant in managing mode. What the person wrote last is the utterance; the conversation
it belongs to is told by its beginning, and has a session of its own on the bus.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec

from bridgehead.bus.gateway.webhooks import HttpCall, HttpCalls
from bridgehead.bus.sockets.base import Answer, Request, Site, json_answer
from bridgehead.host.clock import Clock, SystemClock

MODEL: Final = "assistant"
COMPLETIONS: Final = "/v1/chat/completions"
MODELS: Final = "/v1/models"
CHAT_ID: Final = "x-openwebui-chat-id"
SENTENCES: Final = {
    401: "the key is not the token of a participant of this bridge",
    403: "the key must belong to a participant in managing mode",
    429: "too many failed attempts from this address",
}


class CompletionRequest(msgspec.Struct, frozen=True):
    """What is taken from a request; everything else in it is for models."""

    text: str
    channel: str
    stream: bool
    with_usage: bool


class CompletionsEndpoint(Site):
    """`/v1/chat/completions`, as a whole or in pieces, and `/v1/models`."""

    def __init__(self, calls: HttpCalls, *, wait_s: float, clock: Clock | None = None) -> None:
        self._calls = calls
        self._wait_s = wait_s
        self._clock = clock or SystemClock()

    async def respond(self, request: Request) -> Answer:
        record = self._calls.caller(request)
        if isinstance(record, Answer):
            return _refused(record.status, SENTENCES.get(record.status, "not admitted"))
        if request.path.rstrip("/") in (MODELS, f"{MODELS}/{MODEL}") and request.method == "GET":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "bridgehead"}
            return json_answer(model if request.path.endswith(MODEL) else {"object": "list", "data": [model]})
        if request.path != COMPLETIONS or request.method != "POST":
            return _refused(404, f"{request.method} {request.path} is not served here; POST {COMPLETIONS} is")
        try:
            asked = read_completion(request.body, request.headers)
        except ValueError as error:
            return _refused(400, str(error))
        call = HttpCall(asked.channel)
        body = {"text": asked.text, "channel": asked.channel, "pieces": asked.stream}
        heard = self._calls.put(record, body, call, self._wait_s)
        form = _Form(f"chatcmpl-{secrets.token_hex(12)}", int(self._clock.now().timestamp()), asked)
        if not asked.stream:
            said = "".join([piece async for piece in heard])
            return _problem(call) or json_answer(form.whole(said))
        first = await anext(heard, None)  # before the head of the response is sent, it can still say what is wrong
        if first is None and (problem := _problem(call)) is not None:
            return problem
        return Answer(200, b"", "text/event-stream", stream=_pieces(form, first, heard, call))


async def _pieces(
    form: _Form, first: str | None, heard: AsyncGenerator[str, None], call: HttpCall
) -> AsyncGenerator[bytes, None]:
    yield form.piece({"role": "assistant", "content": first or ""})
    async for said in heard:
        yield form.piece({"content": said})
    problem = _problem(call)
    if problem is not None:
        yield b"data: " + problem.body + b"\n\n"
        return
    yield form.piece({}, finish="stop")
    if form.asked.with_usage:
        yield form.usage()
    yield b"data: [DONE]\n\n"


class _Form:
    """The shape in which one answer is given."""

    def __init__(self, completion_id: str, created: int, asked: CompletionRequest) -> None:
        self.asked = asked
        self._head = {"id": completion_id, "created": created, "model": MODEL}

    def whole(self, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _NO_USAGE}

    def piece(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return self._event([{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}])

    def usage(self) -> bytes:
        return self._event([], usage=_NO_USAGE)

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        event = {**self._head, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + msgspec.json.encode(event) + b"\n\n"


_NO_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
"""Words on a bus are not counted in tokens."""


def read_completion(body: bytes, headers: Mapping[str, str]) -> CompletionRequest:
    """The question in a request; raises ValueError with a sentence where there is none we can put."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("the body is not JSON") from None
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages) or not messages:
        raise ValueError("messages must be a non-empty list")
    if messages[-1].get("role") != "user":
        raise ValueError("the last message must be from the user; tools and prefilled answers are not supported")
    text = _text(messages[-1].get("content")).strip()
    if not text:
        raise ValueError("the last message has no text")
    options = document.get("stream_options")
    return CompletionRequest(
        text,
        _channel(messages, str(document.get("user") or ""), headers.get(CHAT_ID, "")),
        stream=document.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("only text is supported, no images, audio or files")
    return "\n".join(map(str, texts))


def _channel(messages: list[dict[str, Any]], user: str, chat_id: str) -> str:
    """One conversation: what its program calls it, else its beginning, which is sent again with every question."""
    asked = next(number for number, message in enumerate(messages) if message.get("role") == "user")
    return "chat-" + hashlib.sha256(msgspec.json.encode([user, chat_id or messages[: asked + 1]])).hexdigest()[:24]


def _problem(call: HttpCall) -> Answer | None:
    """Why there is no answer, or not the whole of it."""
    if call.refusal is not None:
        message = call.refusal.get("message") or f"the bridge refused the message: {call.refusal['code']}"
        return _refused(call.status, str(message), str(call.refusal["code"]))
    return None if call.handled else _refused(504, "the assistant did not answer in time", "timeout")


def _refused(status: int, sentence: str, code: str | None = None) -> Answer:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return json_answer({"error": {"message": sentence, "type": kind, "param": None, "code": code}}, status)
