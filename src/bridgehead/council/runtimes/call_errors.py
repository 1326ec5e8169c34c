"""Why a runtime did not answer: the error classes of council §19, read from statuses and error texts.

Only texts that a program gave as its error are looked at, never a model's answer: an answer may talk about rate
limits for a living. The first row that matches decides, so the narrow rows stand before the broad ones.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.contract.timeouts import timeout_skip_reason
from bridgehead.contract.words import ErrorClass
from bridgehead.council.reporting.seat_report import excerpt

DETAIL_CHARACTERS: Final = 64 * 1024
CLI_NOT_FOUND: Final = "cli_not_found"
_BY_STATUS: Final = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.UNKNOWN_MODEL,
    413: ErrorClass.TOO_LONG,
    429: ErrorClass.RATE_LIMIT,
}


_Row = tuple[ErrorClass, re.Pattern[str]]


def _row(error_class: ErrorClass, *alternatives: str) -> _Row:
    return error_class, re.compile("|".join(alternatives), re.IGNORECASE)


# Texts that say more than the status they came with: 400 and 429 have several meanings each.
_DECISIVE: Final = (
    _row(
        ErrorClass.RETIRED,
        "IneligibleTierError",
        r"has been (?:retired|discontinued|sunset)",
    ),
    _row(
        ErrorClass.TOO_LONG,
        "context_length_exceeded",
        "ContextOverflowError",
        r"prompt is too long",
        r"exceeds the (?:maximum number of tokens|context window)",
        r"maximum context length",
        r"input exceeds the maximum length",
    ),
    _row(
        ErrorClass.CUT,
        r"exceeded the \d+ output token maximum",
        r"reason: max_output_tokens",
    ),
    _row(
        ErrorClass.CONTENT_FILTER,
        r"content[ _-]?filter",
        "PROHIBITED_CONTENT",
        r"violat\w+ (?:our |the )?(?:usage|content) polic",
        r"response was blocked",
    ),
    _row(
        ErrorClass.QUOTA,
        "insufficient_quota",
        r"quota exceeded",
        r"exceeded your current quota",
        r"exhausted your (?:daily |monthly )?quota",
        r"credit balance is too low",
        r"(?:usage|spending) limit reached",
    ),
    _row(
        ErrorClass.AUTH,
        "API_KEY_INVALID",
        r"(?:invalid|incorrect) api key",
        r"not logged in",
        r"please run /login",
    ),
)
_VAGUE: Final = (
    _row(
        ErrorClass.AUTH,
        r"401 unauthorized",
        r"missing environment variable",
        "authentication_failed",
        "UNAUTHENTICATED",
        r"must specify the \w+ environment variable",
        r"invalid auth method",
    ),
    _row(
        ErrorClass.RATE_LIMIT,
        r"429 too many requests",
        r"rate limit",
        "RESOURCE_EXHAUSTED",
    ),
    _row(
        ErrorClass.UNKNOWN_MODEL,
        r"model\b.{0,200}\bdoes not exist",
        r"is not found for API version",
        r"issue with the selected model",
        r"model_not_found",
    ),
    _row(
        ErrorClass.SERVER_ERROR,
        r"high demand, which may cause temporary errors",
        "overloaded",
        r"internal (?:server )?error",
        r"5\d\d (?:internal|bad gateway|service unavailable|gateway timeout)",
    ),
    _row(
        ErrorClass.UNREACHABLE,
        r"(?:unable|cannot|failed) to connect",
        r"connection (?:failed|refused|reset)",
        "ConnectionRefused",
        r"fetch failed",
        r"error sending request",
        "ECONNREFUSED",
        "ENOTFOUND",
    ),
    _row(
        ErrorClass.MALFORMED,
        r"empty or malformed response",
        r"stream (?:disconnected|closed) before",
        r"stream ended without a finish reason",
        r"JSON parsing failed",
        r"Unexpected (?:end of JSON input|token)",
        r"Incomplete JSON",
    ),
    _row(ErrorClass.EMPTY, r"returned an empty response"),
)


def classify(text: str, status: int | None = None) -> ErrorClass:
    """The class of an error `text`, with the HTTP status where the runtime says it."""
    if told := _first_match(_DECISIVE, text):
        return told
    if status is not None and status >= 500:
        return ErrorClass.SERVER_ERROR
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return _first_match(_VAGUE, text) or ErrorClass.OTHER


def skip_reason(error_class: ErrorClass, message: str, timeout_seconds: int) -> str:
    """What a failed call says in a report (council §3)."""
    if error_class is ErrorClass.TIMEOUT:
        return timeout_skip_reason(timeout_seconds)
    if error_class is ErrorClass.AUTH:
        return f"auth_probe_failed: {excerpt(message)}"
    return f"cli_error: {excerpt(message)}"


def _first_match(rows: tuple[_Row, ...], text: str) -> ErrorClass | None:
    return next(
        (error_class for error_class, pattern in rows if pattern.search(text)), None
    )
