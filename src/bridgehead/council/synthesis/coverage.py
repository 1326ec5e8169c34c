"""May this verdict stand? What was not looked at, decided from looks alone (council §14.4).

Seats and analysers report looks and nothing else; whether a PASS is earned is decided
here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bridgehead.contract.looks import Look, Looked, Unlooked
from bridgehead.contract.words import Verdict


def uncovered(looks: Iterable[Look]) -> tuple[Look, ...]:
    """Return one look for everything that nobody looked at to the end.

    It is the one that came furthest; among equals, the one that says most about what
    to do.
    """
    by_material: dict[str, list[Look]] = {}
    for look in looks:
        by_material.setdefault(look.on, []).append(look)
    return tuple(
        _telling(found) for found in by_material.values() if not _is_covered(found)
    )


def stands(verdict: Verdict | None, missed: Sequence[object]) -> Verdict | None:
    """Return the verdict; None where a PASS would cover what nobody has looked at."""
    if missed and verdict is Verdict.PASS:
        return None
    return verdict


def missing(required: Iterable[str], looked: Collection[str]) -> tuple[str, ...]:
    """Return the seats and analysers that have to look to the end and did not."""
    return tuple(name for name in required if name not in looked)


def seat_looks(
    seat: str,
    material: Iterable[str],
    *,
    missed: Mapping[str, Look],
) -> list[Look]:
    """Return what a seat looked at: the material to its end, but for what it missed."""
    return [
        missed.get(path, Look(by=seat, on=path, outcome=Looked.TO_THE_END))
        for path in material
    ]


def _is_covered(looks: Iterable[Look]) -> bool:
    return any(look.outcome is Looked.TO_THE_END for look in looks)


def _telling(looks: Sequence[Look]) -> Look:
    in_part = [look for look in looks if look.outcome is Looked.IN_PART]
    named = [look for look in looks if look.reason is not Unlooked.NOBODY_ABLE]
    return (in_part or named or list(looks))[0]
