"""Warnings a reader of the result should not miss, as sentences; the others stand in the report with their codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_SENTENCES: Final = {
    "no_model_took_part": "no model took part: this is static analysis alone",
    "interrupted": "stopped before its end: this is what was there",
    "scope_changed_since_start": "the files have changed meanwhile; this is about their state at the start",
    "budget_reached": "the budget ended it early; raise --max-calls or --max-cost to let them finish",
    "uncommitted_left_out": "made on top of the last commit; what you have not committed is not in it",
    "material_left_out": "not everything fitted into the prompts; the report names what was left out",
    "cost_unknown": "{detail} does not say what it costs and counted as 0",
}
_IN_REPORTS: Final = {
    **_SENTENCES,
    "left_out": "kept from the models, by reason and number of files: {detail}",
    "settings_stale": ".bridge-settings.json is older than it allows itself to be; --write-settings dates it anew",
    "halted_bridge_skipped": "{detail} needed somebody and went on without; see bridgehead pending",
    "da_challenge_missing": "the second look left these unchallenged: {detail}",
}


def notes(warnings: Iterable[str], *, codes: bool = False) -> Iterator[str]:
    """One sentence per kind of warning that has one; `codes`: for a report, which shows the others as they are."""
    sentences = _IN_REPORTS if codes else _SENTENCES
    told: dict[str, list[str]] = {}
    for warning in warnings:
        code, _, detail = warning.partition(":")
        if code in sentences:
            told.setdefault(code, []).append(detail.replace(":", " "))
        elif codes:
            told.setdefault(warning, [])
    for code, details in told.items():
        yield sentences.get(code, "{code}").format(detail=", ".join(filter(None, details)), code=code)
