"""What was not looked at, why, and what to do: the lines that every form of a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bridgehead.contract.looks import Look, Unlooked

_WORDS: Final = {
    Unlooked.REFUSED: "{by} refused",
    Unlooked.CUT: "the answer of {by} was cut off",
    Unlooked.FILTERED: "the answer of {by} was filtered",
    Unlooked.DIED: "{by} gave no usable answer",
    Unlooked.TIMED_OUT: "{by} took too long",
    Unlooked.MISSING: "{by} is not installed",
    Unlooked.UNREADABLE: "no text that can be read",
    Unlooked.TOO_LARGE: "too large",
    Unlooked.KEPT_BACK: "kept back",
    Unlooked.NOBODY_ABLE: "no seat or analyser here reads it",
    Unlooked.NOT_ABLE: "{by} does not find what it has to find",
}
_NAMED: Final = 5


def not_looked_at_lines(missed: Iterable[Look]) -> list[str]:
    """Return for each reason what was not looked at, why, and what to do.

    Every form of the report shows these lines.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for look in missed:
        groups.setdefault((_why(look), look.advice or ""), []).append(look.on)
    return [
        f"not looked at ({why}): {_some(names)}" + (f"; {advice}" if advice else "")
        for (why, advice), names in groups.items()
    ]


def _why(look: Look) -> str:
    if look.reason is None:
        return f"{look.by} looked in part"
    return _WORDS[look.reason].format(by=look.by)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
