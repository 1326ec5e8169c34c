"""What Gemini CLI prints: `stream-json` lines, or one pretty object on stdout and errors on stderr. Runtimes §5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import CallUsage
from bridgehead.council.refusals import classify
from bridgehead.council.runtimes.cli_result import StartupErrors, refused_without_record, stderr_of, succeeded
from bridgehead.council.runtimes.exchange import NOTHING_REPORTED, Answered, Outcome, Refused
from bridgehead.council.runtimes.json_lines import (
    count_at,
    last_pretty_object,
    mapping_at,
    object_from,
    objects_in,
    text_at,
)
from bridgehead.host.command import CommandResult

EXIT_AUTH: Final = 41
EXIT_UNTRUSTED: Final = 55

STARTUP_ERRORS: Final[StartupErrors] = (
    (re.compile(r"^Unknown argument", re.MULTILINE), ErrorClass.BAD_USAGE),
    (re.compile(r"Error resuming session|Invalid session identifier"), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"No input provided via stdin"), ErrorClass.NO_PROMPT),
    (re.compile(r"not running in a trusted directory"), ErrorClass.UNTRUSTED_FOLDER),
)
RETIRED_ACCOUNT: Final = "IneligibleTierError"
UNEXPLAINED: Final = "gemini reported an error"
# gemini exits with the status of a failed request, of which the system keeps the lowest eight bits.
_HTTP_ERRORS: Final = range(400, 600)
_EXIT_CLASSES: Final = {EXIT_AUTH: ErrorClass.AUTH, EXIT_UNTRUSTED: ErrorClass.UNTRUSTED_FOLDER}
# A node trace on stderr ends with the fields of the error object; the HTTP status is among them.
_TRACE_STATUS: Final = re.compile(r"^\s*(?:code|status): (\d{3}),?$", re.MULTILINE)


def read_gemini(result: CommandResult) -> Outcome:
    """The outcome of `gemini --output-format json|stream-json`."""
    printed = result.text()
    events = list(objects_in(printed))
    final = next((event for event in reversed(events) if event.get("type") == "result"), None)
    if final is not None:
        return _read_stream(events, final, result)
    whole = object_from(printed) or {}
    # A stream that was cut leaves an error beside the words that came; they are used (runtimes §11).
    if (error := mapping_at(whole, "error")) and not text_at(whole, "response").strip():
        return _refused_by_record(error, result)
    return _read_whole(whole, result) if "response" in whole else _read_error(result)


def _read_stream(events: list[dict[str, Any]], final: Mapping[str, Any], result: CommandResult) -> Outcome:
    usage = _stream_usage(mapping_at(final, "stats"))
    said = [event for event in events if event.get("type") == "message" and event.get("role") == "assistant"]
    text = "".join(text_at(event, "content") for event in said)
    # As in the other format: a cut stream ends with code 0, and without an error in the last record.
    was_cut = result.exit_code == 0 and "error" not in final and bool(text.strip())
    if final.get("status") != "success" and not was_cut:
        return _refused(_stream_error(events, final), result, usage)
    first = next((event for event in events if event.get("type") == "init"), {})
    models = list(mapping_at(final, "stats", "models"))
    answered = Answered(text, text_at(first, "session_id") or None, models[0] if models else None, usage)
    return succeeded("gemini", result, answered)


def _stream_error(events: list[dict[str, Any]], final: Mapping[str, Any]) -> str:
    """Why a stream ended in an error: the last record says it, or an `error` event before it."""
    said = [text_at(event, "message") for event in events if event.get("type") == "error"]
    told = text_at(mapping_at(final, "error"), "message") or next(filter(None, reversed(said)), "")
    return told or UNEXPLAINED


def _read_whole(whole: Mapping[str, Any], result: CommandResult) -> Outcome:
    models = mapping_at(whole, "stats", "models")
    counts = [mapping_at(models, name, "tokens") for name in models]
    usage = CallUsage(
        tokens_in=sum(count_at(each, "prompt") for each in counts) if counts else None,
        tokens_out=sum(count_at(each, "candidates") + count_at(each, "thoughts") for each in counts)
        if counts
        else None,
    )
    session = text_at(whole, "session_id") or None
    answered = Answered(text_at(whole, "response"), session, next(iter(models), None), usage)
    return succeeded("gemini", result, answered)


def _read_error(result: CommandResult) -> Refused:
    """Errors of the `json` format: the last object on stderr, after warnings and traces."""
    error = mapping_at(last_pretty_object(result.error_text()) or {}, "error")
    if error:
        return _refused_by_record(error, result)
    refused = refused_without_record("gemini", result, STARTUP_ERRORS)
    if result.exit_code == 0:
        return refused
    return replace(refused, error_class=_class_of(stderr_of(result), result))


def _refused_by_record(error: Mapping[str, Any], result: CommandResult) -> Refused:
    message = text_at(error, "message") or UNEXPLAINED
    return _refused(message, result, NOTHING_REPORTED, code=error.get("code"))


def _refused(message: str, result: CommandResult, usage: CallUsage, code: object = None) -> Refused:
    return Refused(_class_of(message, result, code), message, stderr_of(result), usage=usage)


def _class_of(message: str, result: CommandResult, code: object = None) -> ErrorClass:
    # An account that is refused for good also ends with the code of a missing login; the trace alone tells.
    if RETIRED_ACCOUNT in message or RETIRED_ACCOUNT in result.error_text():
        return ErrorClass.RETIRED
    if result.exit_code in _EXIT_CLASSES:
        return _EXIT_CLASSES[result.exit_code]
    told = next((error_class for pattern, error_class in STARTUP_ERRORS if pattern.search(message)), None)
    return told or classify(message, _status(code, result))


def _status(code: object, result: CommandResult) -> int | None:
    """The HTTP status: gemini's own code where it is one (404 is shown as 1), else what its trace or exit says."""
    if isinstance(code, int) and code in _HTTP_ERRORS:
        return code
    traced = _TRACE_STATUS.findall(result.error_text())
    if traced:
        return int(traced[-1])
    return result.exit_code + 256 if result.exit_code + 256 in _HTTP_ERRORS else None


def _stream_usage(stats: Mapping[str, Any]) -> CallUsage:
    if "total_tokens" not in stats:
        return NOTHING_REPORTED
    # Thoughts are in the total only.
    total, tokens_in = count_at(stats, "total_tokens"), count_at(stats, "input_tokens")
    return CallUsage(tokens_in=tokens_in, tokens_out=max(total - tokens_in, 0))
