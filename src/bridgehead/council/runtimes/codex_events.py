"""The JSON lines of `codex exec --json`: one turn, completed or failed. Runtimes §4."""

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

EXIT_USAGE: Final = 2

STARTUP_ERRORS: Final[StartupErrors] = (
    (re.compile(r"No prompt provided via stdin"), ErrorClass.NO_PROMPT),
    (re.compile(r"no rollout found for thread id", re.IGNORECASE), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"Not inside a trusted directory"), ErrorClass.UNTRUSTED_FOLDER),
)


def read_codex(result: CommandResult, *, earlier: CallUsage = NOTHING_REPORTED) -> Outcome:
    """The outcome of one turn; `earlier` is what the thread had used before, because codex counts per thread."""
    events = list(objects_in(result.text()))
    failed = _last(events, "turn.failed")
    if failed is not None:
        message = text_at(mapping_at(failed, "error"), "message") or "codex reported a failed turn"
        return Refused(classify(message), message, stderr_of(result))
    completed = _last(events, "turn.completed")
    if completed is None:
        return _unfinished(events, result)
    started = _last(events, "thread.started") or {}
    usage = _usage(mapping_at(completed, "usage"), earlier)
    answered = Answered(_last_message(events), text_at(started, "thread_id") or None, None, usage)
    return succeeded("codex", result, answered)


def thread_usage(result: CommandResult) -> CallUsage:
    """What the whole thread has used so far; to be subtracted from the next turn's numbers."""
    completed = _last(list(objects_in(result.text())), "turn.completed") or {}
    return _usage(mapping_at(completed, "usage"), NOTHING_REPORTED)


def has_stored_login(result: CommandResult) -> bool:
    """What `codex login status` says; keys in the environment are none of its business."""
    return result.exit_code == 0


def catalogue(printed: str) -> list[str] | None:
    """The model names of `codex debug models`, or None when it printed something else."""
    models = (object_from(printed) or {}).get("models")
    if not isinstance(models, list):
        return None
    return [str(model["slug"]) for model in models if isinstance(model, dict) and "slug" in model]


def _unfinished(events: list[dict[str, Any]], result: CommandResult) -> Refused:
    """A run without the last word of a turn; a top-level `error` before it is only a retry notice."""
    if events and result.exit_code != 0:
        return Refused(ErrorClass.OTHER, "codex ended before its turn did", stderr_of(result))
    refused = refused_without_record("codex", result, STARTUP_ERRORS)
    if result.exit_code == EXIT_USAGE:
        return Refused(ErrorClass.BAD_USAGE, refused.message, refused.detail)
    return refused


def _last(events: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((event for event in reversed(events) if event.get("type") == kind), None)


def _last_message(events: list[dict[str, Any]]) -> str:
    items = [mapping_at(event, "item") for event in events if event.get("type") == "item.completed"]
    messages = [text_at(item, "text") for item in items if item.get("type") == "agent_message"]
    return messages[-1] if messages else ""


def _usage(counts: Mapping[str, Any], earlier: CallUsage) -> CallUsage:
    if not counts:
        return NOTHING_REPORTED
    # cached_input_tokens is part of input_tokens, reasoning tokens are part of output_tokens.
    return CallUsage(
        tokens_in=max(count_at(counts, "input_tokens") - (earlier.tokens_in or 0), 0),
        tokens_out=max(count_at(counts, "output_tokens") - (earlier.tokens_out or 0), 0),
    )
