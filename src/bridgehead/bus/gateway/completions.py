"""The OpenAI-compatible endpoint, for programs that can talk to a chat model.

The key is the token of a participant in managing mode. The last message of the person
is the utterance. Its conversation is recognised by how it begins, and has its own
session on the bus.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import Any, Final, TypeGuard

import msgspec

from bridgehead.bus.gateway.http_turns import MOST_EARLIER, HttpTurn
from bridgehead.bus.gateway.webhooks import HttpCall, HttpCalls
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.sockets.base import Answer, Request, Site, json_answer
from bridgehead.host.clock import Clock, SystemClock

MODEL: Final = "assistant"
COMPLETIONS: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
MODELS: Final = "/v1/models"
CHAT_ID: Final = "x-openwebui-chat-id"
IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
_RESPONSE_ID: Final = re.compile("resp_(chat-[0-9a-f]{24})_[0-9a-f]{16}")
SENTENCES: Final = {
    401: "the key is not the token of a participant of this bridge",
    403: "the key must belong to a participant in managing mode",
    429: "too many failed attempts from this address",
}


class CompletionRequest(msgspec.Struct, frozen=True):
    """The parts of a request that we use; the rest is for models."""

    text: str
    channel: str
    stream: bool
    with_usage: bool
    turn: HttpTurn = HttpTurn()
    """Which requests belong together."""
    names_user: bool = False
    is_named: bool = False
    """Whether the request says which conversation it is of, or for whom it is."""
    previous: str = ""
    """The response that it continues, if it names one."""


class CompletionsEndpoint(Site):
    """Serves `/v1/chat/completions`, `/v1/responses` and `/v1/models`."""

    def __init__(
        self, calls: HttpCalls, *, wait_s: float, clock: Clock | None = None
    ) -> None:
        self._calls = calls
        self._wait_s = wait_s
        self._clock = clock or SystemClock()

    async def respond(self, request: Request) -> Answer:
        record = self._calls.caller(request)
        if isinstance(record, Answer):
            return _refused(record.status, SENTENCES.get(record.status, "not admitted"))
        names_models = request.path.rstrip("/") in (MODELS, f"{MODELS}/{MODEL}")
        if names_models and request.method == "GET":
            return _models(request.path)
        if request.path not in (COMPLETIONS, RESPONSES) or request.method != "POST":
            return _refused(
                404,
                f"{request.method} {request.path} is not served here; "
                f"POST {COMPLETIONS} and POST {RESPONSES} are",
            )
        return await self._complete(request, record)

    async def _complete(self, request: Request, record: ParticipantRecord) -> Answer:
        is_response = request.path == RESPONSES
        field = "input" if is_response else "messages"
        try:
            question = read_completion(request.body, request.headers, field)
        except ValueError as error:
            return _refused(400, str(error))
        created = int(self._clock.now().timestamp())
        turn: HttpTurn | None = question.turn
        form: _Completion | _Response
        if is_response:
            form = _Response(question, created)
            if not question.is_named:
                turn = self._calls.turns.response(form.id, question.previous)
        else:
            form = _Completion(question, created)
        if record.person is not None and not question.names_user:
            turn = None
        return await self._ask(record, question, form, turn)

    async def _ask(
        self,
        record: ParticipantRecord,
        question: CompletionRequest,
        form: _Completion | _Response,
        turn: HttpTurn | None,
    ) -> Answer:
        """Ask the assistant and return its answer, or a stream that carries it."""
        call = HttpCall(question.channel)
        body = {
            "text": question.text,
            "channel": question.channel,
            "pieces": question.stream,
        }
        spoken = self._calls.put(record, body, call, self._wait_s, turn)
        if not question.stream:
            text = "".join([piece async for piece in spoken])
            return _problem(call) or json_answer(form.whole(text))
        # Wait for the first piece: once the response has begun, its status can no
        # longer say what is wrong.
        first = await anext(spoken, None)
        if first is None:
            problem = _problem(call)
            if problem is not None:
                return problem
        pieces = _pieces(form, first, spoken, call)
        return Answer(200, b"", "text/event-stream", stream=pieces)


def _models(path: str) -> Answer:
    model = {
        "id": MODEL,
        "object": "model",
        "created": 0,
        "owned_by": "bridgehead",
    }
    if path.endswith(MODEL):
        return json_answer(model)
    return json_answer({"object": "list", "data": [model]})


async def _pieces(
    form: _Completion | _Response,
    first: str | None,
    spoken: AsyncGenerator[str, None],
    call: HttpCall,
) -> AsyncGenerator[bytes, None]:
    """Yield the answer piece by piece as server-sent events."""
    text = first or ""
    yield form.begin(text)
    async for piece in spoken:
        text += piece
        yield form.piece(piece)
    problem = _problem(call)
    if problem is None:
        yield form.end(text)
    else:
        yield b"data: " + problem.body + b"\n\n"


class _Completion:
    """The shape of one answer of `/v1/chat/completions`."""

    def __init__(self, question: CompletionRequest, created: int) -> None:
        self._with_usage = question.with_usage
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": created,
            "model": MODEL,
        }

    def whole(self, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "stop",
            "logprobs": None,
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _NO_USAGE,
        }

    def begin(self, text: str) -> bytes:
        return self._chunk({"role": "assistant", "content": text})

    def piece(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def end(self, _text: str) -> bytes:
        usage = self._event([], usage=_NO_USAGE) if self._with_usage else b""
        return self._chunk({}, finish="stop") + usage + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return self._event(
            [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
        )

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        event = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": choices,
            **more,
        }
        return b"data: " + msgspec.json.encode(event) + b"\n\n"


class _Response:
    """The shape of one answer of `/v1/responses`.

    Its ID contains the channel, for the question that continues it.
    """

    def __init__(self, question: CompletionRequest, created: int) -> None:
        unique = secrets.token_hex(8)
        self.id = f"resp_{question.channel}_{unique}"
        self._head = {
            "id": self.id,
            "object": "response",
            "created_at": created,
        }
        self._place = {
            "item_id": f"msg_{unique}",
            "output_index": 0,
            "content_index": 0,
        }
        self._numbers = count()

    def whole(self, text: str | None) -> dict[str, Any]:
        """Return the response; without a text it is in progress."""
        output = [] if text is None else [self._message(text)]
        settings = {
            "model": MODEL,
            "tools": [],
            "tool_choice": "none",
            "parallel_tool_calls": False,
            "error": None,
        }
        return {
            **self._head,
            **settings,
            "status": IN_PROGRESS if text is None else COMPLETED,
            "output": output,
        }

    def begin(self, text: str) -> bytes:
        return (
            self._event("created", response=self.whole(None))
            + self._event("output_item.added", output_index=0, item=self._message(None))
            + self._event("content_part.added", **self._place, part=_part(""))
            + self.piece(text)
        )

    def piece(self, text: str) -> bytes:
        return self._event("output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, text: str) -> bytes:
        return (
            self._event("output_text.done", **self._place, text=text, logprobs=[])
            + self._event("content_part.done", **self._place, part=_part(text))
            + self._event("output_item.done", output_index=0, item=self._message(text))
            + self._event("completed", response=self.whole(text))
        )

    def _message(self, text: str | None) -> dict[str, Any]:
        return {
            "id": self._place["item_id"],
            "type": "message",
            "role": "assistant",
            "status": IN_PROGRESS if text is None else COMPLETED,
            "content": [] if text is None else [_part(text)],
        }

    def _event(self, kind: str, **facts: Any) -> bytes:
        event = {
            "type": f"response.{kind}",
            "sequence_number": next(self._numbers),
            **facts,
        }
        return b"event: response.%b\ndata: %b\n\n" % (
            kind.encode(),
            msgspec.json.encode(event),
        )


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


_NO_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
"""A bus does not count tokens."""


def read_completion(
    body: bytes, headers: Mapping[str, str], field: str = "messages"
) -> CompletionRequest:
    """Return the question in a request.

    Raise ValueError with a sentence for the caller if there is none we can ask.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("the body is not JSON") from None
    messages = _messages(document, field)
    text = _last_text(messages)
    options = document.get("stream_options")
    channel = _channel(messages, document, headers.get(CHAT_ID, ""))
    user = str(document.get("user") or "")
    is_named = any((user, headers.get(CHAT_ID), document.get("conversation")))
    if is_named:
        turn = HttpTurn.named(f"{channel} of {user}")
    else:
        turn = _unnamed_turn(channel, messages)
    return CompletionRequest(
        text,
        channel,
        stream=document.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
        turn=turn,
        names_user=bool(user),
        is_named=is_named,
        previous=str(document.get("previous_response_id") or ""),
    )


def _messages(document: Any, field: str) -> list[dict[str, Any]]:
    messages = document.get(field) if isinstance(document, dict) else None
    if isinstance(messages, str) and field == "input":
        return [{"role": "user", "content": messages}]
    if not _is_list_of_messages(messages):
        raise ValueError(f"{field} must be a non-empty list")
    return messages


def _last_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message, which must be the user's."""
    last = messages[-1]
    if last.get("role") != "user":
        raise ValueError(
            "the last message must be from the user; tools and prefilled answers are "
            "not supported"
        )
    text = _text(last.get("content")).strip()
    if not text:
        raise ValueError("the last message has no text")
    return text


def _is_list_of_messages(value: object) -> TypeGuard[list[dict[str, Any]]]:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(message, dict) for message in value)


def _unnamed_turn(channel: str, messages: list[dict[str, Any]]) -> HttpTurn:
    """Return the turn of a conversation that has no name.

    A program that continues it sends all earlier questions, and these identify it. Its
    beginning alone is not enough, because many conversations begin with the same word.
    """
    questions = [message for message in messages if message.get("role") == "user"]
    digest = hashlib.sha256(channel.encode())
    names = []
    for message in questions:
        content = msgspec.json.encode(message.get("content"))
        digest.update(hashlib.sha256(content).digest())
        names.append(f"{channel} {digest.hexdigest()[:24]}")
    return HttpTurn(names[-1], tuple(names[-MOST_EARLIER - 1 : -1]))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("only text is supported, no images, audio or files")
    return "\n".join(map(str, texts))


def _channel(
    messages: list[dict[str, Any]], document: dict[str, Any], chat_id: str
) -> str:
    """Return the channel of a conversation.

    It is made from the name that the program gives the conversation, else from its
    beginning, which is sent with every question.
    """
    previous = document.get("previous_response_id")
    if previous is not None:
        response = _RESPONSE_ID.fullmatch(str(previous))
        if response is None:
            raise ValueError(
                "previous_response_id is not the ID of a response from this bridge"
            )
        return response[1]
    name = chat_id or document.get("conversation")
    if not name:
        name = [document.get("instructions"), _beginning(messages)]
    identity = msgspec.json.encode([str(document.get("user") or ""), name])
    return "chat-" + hashlib.sha256(identity).hexdigest()[:24]


def _beginning(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages up to the first question."""
    roles = [message.get("role") for message in messages]
    return messages[: roles.index("user") + 1]


def _problem(call: HttpCall) -> Answer | None:
    """Return the error if there is no answer or it is incomplete, else None."""
    if call.refusal is not None:
        code = str(call.refusal["code"])
        message = call.refusal.get("message")
        if not message:
            message = f"the bridge refused the message: {code}"
        return _refused(call.status, str(message), code)
    if not call.handled:
        return _refused(504, "the assistant did not answer in time", "timeout")
    return None


def _refused(status: int, sentence: str, code: str | None = None) -> Answer:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return json_answer(
        {"error": {"message": sentence, "type": kind, "param": None, "code": code}},
        status,
    )
