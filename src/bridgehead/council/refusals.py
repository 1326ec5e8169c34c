"""Why a runtime did not answer (council §19), and what a person can do about it.

Read from statuses and error texts; the table is refusals.yaml. Only texts that a program
gave as its error are looked at, never a model's answer: an answer may talk about rate
limits for a living.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bridgehead.contract.words import ErrorClass

_TABLE: Final = Path(__file__).with_suffix(".yaml")
_BY_STATUS: Final = {
    401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA,
    403: ErrorClass.AUTH,
    404: ErrorClass.UNKNOWN_MODEL,
    413: ErrorClass.TOO_LONG,
    429: ErrorClass.RATE_LIMIT,
    451: ErrorClass.REGION,
}
# Where a text says when one may ask again: `resets 3am (Europe/Berlin)`, `try again in
# 4 days 20 hours`, `regain access on 2025-06-01 at 00:00 UTC`.
_UNTIL: Final = re.compile(
    r"(?:resets(?: at| on| after| in)?|reset (?:at|on|after|in)|try again (?:at|in|on|after)"
    r"|regain access (?:on|at)|will reset (?:at|after|in|on)|retry (?:in|after))"
    r":? ([^.|\n·∙]{2,60})",
    re.IGNORECASE,
)


# Claude Code's older form: the second since 1970.
_UNTIL_SECOND: Final = re.compile(r"limit reached\|(\d{10})\b")


class _Row(NamedTuple):
    error_class: ErrorClass
    pattern: re.Pattern[str]


class _Refusals(NamedTuple):
    decisive: tuple[_Row, ...]
    vague: tuple[_Row, ...]
    advice: dict[str, str]


def classify(text: str, status: int | None = None) -> ErrorClass:
    """Return the class of an error text, with the HTTP status where the runtime says it."""
    table = _refusals()
    decisive = _first_match(table.decisive, text)
    if decisive is not None:
        return decisive
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and status >= 500:
        return ErrorClass.SERVER_ERROR
    return _first_match(table.vague, text) or ErrorClass.OTHER


def advice_for(error_class: ErrorClass, text: str = "") -> str:
    """Return what a person can do; with the time of the text where it names one."""
    advice = _refusals().advice.get(error_class, "")
    until = wait_until(text)
    if until and error_class in (ErrorClass.QUOTA, ErrorClass.RATE_LIMIT):
        return f"wait ({until}), pay, or name other seats with --runtime"
    return advice


def wait_until(text: str) -> str | None:
    """Return when one may ask again, in the words of the text; None where it is silent."""
    second = _UNTIL_SECOND.search(text)
    if second is not None:
        at = datetime.fromtimestamp(int(second[1]), UTC)
        return f"resets {at:%Y-%m-%d %H:%M} UTC"
    found = _UNTIL.search(text)
    return " ".join(found[0].split()).rstrip(",;:") if found else None


def _first_match(rows: tuple[_Row, ...], text: str) -> ErrorClass | None:
    for row in rows:
        if row.pattern.search(text):
            return row.error_class
    return None


@cache
def _refusals() -> _Refusals:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table: dict[str, Any] = yaml.load(_TABLE.read_bytes(), loader)
    return _Refusals(
        _rows(table["decisive"]), _rows(table["vague"]), dict(table["advice"])
    )


def _rows(entries: list[dict[str, Any]]) -> tuple[_Row, ...]:
    return tuple(
        _Row(
            ErrorClass(entry["class"]),
            re.compile("|".join(f"(?:{one})" for one in entry["patterns"]), re.I),
        )
        for entry in entries
    )
