"""Whom a rig writes to when it names nobody (rigs §8 close, §10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.rigs.rig_id import RigId, is_rig_id, normalise
from bridgehead.rigs.yaml_core import Value


def closing_recipient(
    own: RigId, thread: Iterable[Mapping[str, Value]], repository: Iterable[Mapping[str, Value]]
) -> RigId:
    """Return the rig most often named in the thread, else in the whole repository, else ourselves.

    Ties go to the lower id. `repository` is read only if the thread names nobody else.
    """
    counts = _count_others(own, thread) or _count_others(own, repository)
    return min(counts, key=lambda rig: (-counts[rig], rig), default=own)


def relay_recipient(own: RigId, thread: Iterable[Mapping[str, Value]]) -> RigId:
    """Return the rig most often named in the thread, ties going to the one seen first, else ourselves."""
    counts = _count_others(own, thread)
    return max(counts, key=lambda rig: counts[rig], default=own)


def _count_others(own: RigId, frontmatters: Iterable[Mapping[str, Value]]) -> dict[RigId, int]:
    """Count each `from` and each `to` once, in the order first seen."""
    counts: dict[RigId, int] = {}
    for frontmatter in frontmatters:
        to = frontmatter.get("to")
        for named in [frontmatter.get("from"), *(to if isinstance(to, list) else [to])]:
            rig = RigId(normalise(named)) if isinstance(named, str) else own
            if rig != own and is_rig_id(rig):
                counts[rig] = counts.get(rig, 0) + 1
    return counts
