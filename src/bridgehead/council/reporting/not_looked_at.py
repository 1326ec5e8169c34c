"""What was not looked at, why, and what to do: the lines that every form of a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bridgehead.contract.looks import Look, LookKind, Unlooked
from bridgehead.council.reporting.report import CouncilReport

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
    Unlooked.NO_LOGIN: "{by} is not logged in",
    Unlooked.NO_QUOTA: "{by} is out of quota",
    Unlooked.BUDGET: "the budget did not allow to ask {by}",
    Unlooked.INVENTED: "{by} cites what does not exist",
    Unlooked.PENDING: "{by} has not answered yet",
    Unlooked.UNVERIFIED: "the signature of {by} is not known",
    Unlooked.NOT_ABLE: "{by} does not find what it has to find",
}
_NAMED: Final = 5


class _Group(NamedTuple):
    """Looks that one line can speak about."""

    why: str
    kind: LookKind
    advice: str


def not_looked_at_lines(missed: Iterable[Look]) -> list[str]:
    """Return for each reason what was not looked at, why, and what to do.

    Every form of the report shows these lines.
    """
    groups: dict[_Group, list[str]] = {}
    for look in missed:
        group = _Group(_why(look), look.kind, look.advice or "")
        groups.setdefault(group, []).append(look.on)
    return [_line(group, names) for group, names in groups.items()]


def lines_of(report: CouncilReport) -> list[str]:
    """Return the same for a report, also for one of an earlier version."""
    if report.not_looked_at or not report.unread:
        return not_looked_at_lines(report.not_looked_at)
    return [f"not looked at: {_some(report.unread)}"]


def _line(group: _Group, names: Sequence[str]) -> str:
    material = _some(names)
    if group.kind is LookKind.DOMAIN:
        word = "domain" if len(names) == 1 else "domains"
        material = f"the {word} {material}"
    line = f"not looked at ({group.why}): {material}"
    return f"{line}; {group.advice}" if group.advice else line


def _why(look: Look) -> str:
    if look.reason is None:
        return f"{look.by} looked in part"
    return _WORDS[look.reason].format(by=look.by)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
