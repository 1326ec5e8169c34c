"""Refusals in OpenAI's shape, shared by the Responses and the Chat Completions wire."""

from __future__ import annotations

from typing import Final

from bridgehead.testing.exchange import ErrorReply, Fault

_ERRORS: Final[dict[Fault, tuple[int, str, str, str | None]]] = {
    Fault.UNAUTHORISED: (401, "invalid_request_error", "Incorrect API key provided.", "invalid_api_key"),
    Fault.BAD_KEY: (401, "invalid_request_error", "Incorrect API key provided.", "invalid_api_key"),
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
    Fault.RATE_LIMIT: (429, "requests", "Rate limit reached for requests", "rate_limit_exceeded"),
    Fault.QUOTA: (429, "insufficient_quota", "You exceeded your current quota.", "insufficient_quota"),
    Fault.SERVER_ERROR: (500, "server_error", "The server had an error", None),
    Fault.OVERLOADED: (503, "server_error", "The server is overloaded", None),
}


def openai_error(fault: Fault, model: str) -> ErrorReply:
    """The refusal `fault` as OpenAI and its imitators write it."""
    status, kind, message, code = _ERRORS[fault]
    error = {"message": message.format(model=model), "type": kind, "param": None, "code": code}
    return ErrorReply(status, {"error": error}, {"retry-after": "1"} if fault is Fault.RATE_LIMIT else {})
