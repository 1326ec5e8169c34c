"""The JSON lines of `opencode run --format json`: steps with text, tools and tokens, or an error. Runtimes §6."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import CallUsage
from bridgehead.council.refusals import classify
from bridgehead.council.runtimes.cli_result import StartupErrors, refused_without_record, stderr_of, succeeded
from bridgehead.council.runtimes.exchange import NOTHING_REPORTED, Answered, Outcome, Refused
from bridgehead.council.runtimes.json_lines import count_at, mapping_at, object_from, objects_in, text_at
from bridgehead.host.command import CommandResult

# A reply without a finish reason makes opencode ask again at once, without end (runtimes §6).
MOST_UNKNOWN_STEPS: Final = 3

STARTUP_ERRORS: Final[StartupErrors] = (
    (re.compile(r"Session not found"), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"You must provide a message"), ErrorClass.NO_PROMPT),
    (re.compile(r"^opencode run \[message\.\.\]|Positionals:|^Options:", re.MULTILINE), ErrorClass.BAD_USAGE),
)


class LoopGuard:
    """Watches the output while it arrives and says when opencode has begun to run in circles."""

    def __init__(self) -> None:
        self._unfinished_line = b""
        self._unknown_steps = 0

    def __call__(self, chunk: bytes) -> bool:
        """Take more stdout; True when the run should be stopped."""
        *lines, self._unfinished_line = (self._unfinished_line + chunk).split(b"\n")
        for line in lines:
            event = object_from(line.decode("utf-8", "replace")) or {}
            if event.get("type") == "step_finish":
                self._unknown_steps += _reason(event) == "unknown"
        return self._unknown_steps >= MOST_UNKNOWN_STEPS


def read_opencode(result: CommandResult) -> Outcome:
    """The outcome of one run."""
    events = list(objects_in(result.text()))
    steps = [event for event in events if event.get("type") == "step_finish"]
    usage = _usage([mapping_at(step, "part") for step in steps])
    error = next((event for event in events if event.get("type") == "error"), None)
    if error is not None:
        return read_error(mapping_at(error, "error"), stderr_of(result), usage)
    if any(_reason(step) == "unknown" for step in steps) and _reason(steps[-1]) != "stop":
        message = "the model's replies had no end, and opencode kept asking"
        return Refused(ErrorClass.MALFORMED, message, stderr_of(result), usage=usage)
    if not steps:
        return refused_without_record("opencode", result, STARTUP_ERRORS)
    answered = Answered(_last_words(events), text_at(events[0], "sessionID") or None, None, usage)
    return succeeded("opencode", result, answered)


def read_error(error: Mapping[str, Any], detail: str, usage: CallUsage) -> Refused:
    """An error object of opencode, from an event or from its HTTP server."""
    data = mapping_at(error, "data")
    message = text_at(data, "message") or text_at(error, "name") or "opencode reported an error"
    if text_at(error, "name") == "ContextOverflowError":
        return Refused(ErrorClass.TOO_LONG, message, detail, usage=usage)
    # A model that is not in the configuration fails before any request; only a reference to a log tells.
    if text_at(error, "name") == "UnknownError" and "ref" in data:
        message = f"{message} (usually: no such model in opencode's configuration)"
        return Refused(ErrorClass.UNKNOWN_MODEL, message, detail, usage=usage)
    status = data.get("statusCode")
    text = f"{message}\n{text_at(data, 'responseBody')}"
    return Refused(classify(text, status if isinstance(status, int) else None), message, detail, usage=usage)


def listed_models(printed: str) -> list[str]:
    """The `provider/model` lines of `opencode models`."""
    return [line.strip() for line in printed.splitlines() if re.fullmatch(r"[^/\s]+/\S+", line.strip())]


def usage_of(part: Mapping[str, Any]) -> CallUsage:
    """Tokens of one step or message; `output` excludes reasoning and `input` excludes cache reads."""
    tokens, cache = mapping_at(part, "tokens"), mapping_at(part, "tokens", "cache")
    cost = part.get("cost")
    return CallUsage(
        tokens_in=count_at(tokens, "input") + count_at(cache, "read") + count_at(cache, "write"),
        tokens_out=count_at(tokens, "output") + count_at(tokens, "reasoning"),
        cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _usage(parts: list[Mapping[str, Any]]) -> CallUsage:
    if not parts:
        return NOTHING_REPORTED
    each = [usage_of(part) for part in parts]
    costs = [usage.cost_usd for usage in each if usage.cost_usd is not None]
    return CallUsage(
        tokens_in=sum(usage.tokens_in or 0 for usage in each),
        tokens_out=sum(usage.tokens_out or 0 for usage in each),
        cost_usd=sum(costs) if costs else None,
    )


def _last_words(events: list[dict[str, Any]]) -> str:
    """The texts of the last step that ended with `stop`."""
    words: list[str] = []
    answer = ""
    for event in events:
        match event.get("type"):
            case "step_start":
                words = []
            case "text":
                words.append(text_at(mapping_at(event, "part"), "text"))
            case "step_finish" if _reason(event) == "stop":
                answer = "".join(words)
    return answer


def _reason(event: Mapping[str, Any]) -> str:
    return text_at(mapping_at(event, "part"), "reason")
