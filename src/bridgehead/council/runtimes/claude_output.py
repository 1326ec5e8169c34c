"""What Claude Code prints: one `result` record, alone (`json`) or as the last of many (`stream-json`). Runtimes §3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import CallUsage
from bridgehead.council.refusals import classify
from bridgehead.council.runtimes.cli_result import StartupErrors, refused_without_record, succeeded
from bridgehead.council.runtimes.exchange import Answered, Outcome, Refused
from bridgehead.council.runtimes.json_lines import count_at, mapping_at, objects_in, text_at
from bridgehead.host.command import CommandResult

STARTUP_ERRORS: Final[StartupErrors] = (
    (re.compile(r"error: unknown option"), ErrorClass.BAD_USAGE),
    (re.compile(r"No conversation found with session ID"), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"Input must be provided"), ErrorClass.NO_PROMPT),
)


def read_claude(result: CommandResult) -> Outcome:
    """The outcome of `claude -p --output-format json|stream-json`."""
    record = _final_record(result.text())
    if record is None:
        return refused_without_record("claude", result, STARTUP_ERRORS)
    text = text_at(record, "result")
    usage = _usage(record)
    # `subtype` is "success" on API failures too; only `is_error` tells (runtimes §2.2).
    if record.get("is_error") is not False:
        status = record.get("api_error_status")
        error_class = classify(text, status if isinstance(status, int) else None)
        return Refused(error_class, text or "claude reported an error", result.error_text(), usage=usage)
    answered = Answered(text, text_at(record, "session_id") or None, _model(record), usage)
    return succeeded("claude", result, answered)


def logged_in(result: CommandResult) -> bool:
    """What `claude auth status` says; it looks at what is stored and asks no model."""
    return result.exit_code == 0


def _final_record(printed: str) -> dict[str, Any] | None:
    records = [record for record in objects_in(printed) if record.get("type") == "result"]
    return records[-1] if records else None


def _model_usage(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    used = mapping_at(record, "modelUsage")
    return {model: counts for model, counts in used.items() if isinstance(counts, dict)}


def _model(record: Mapping[str, Any]) -> str | None:
    """The model that wrote most of the answer; small ones may have helped."""
    used = _model_usage(record)
    return max(used, key=lambda model: count_at(used[model], "outputTokens"), default=None)


def _usage(record: Mapping[str, Any]) -> CallUsage:
    # `usage` is all zero after a cut stream, `modelUsage` is right (runtimes §3).
    counts = list(_model_usage(record).values())
    cost = record.get("total_cost_usd")
    return CallUsage(
        tokens_in=sum(map(_tokens_in, counts)) if counts else None,
        tokens_out=sum(count_at(each, "outputTokens") for each in counts) if counts else None,
        cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _tokens_in(counts: Mapping[str, Any]) -> int:
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return sum(count_at(counts, name) for name in names)
