"""A rig at work in a clone: git, the clock, the record and the control plane put together.

Imports little, because rig commands consist of start-up for the most part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.rigs.operations.rig import Ledger, Rig


def make_rig(directory: str | None, tell: Callable[[str], None]) -> Rig:
    """The rig of the clone around `directory`, by default the current one. `tell` gets the conversation."""
    import time

    from bridgehead.rigs.operations.rig import Rig
    from bridgehead.rigs.repositories.git import GitRepository

    repository = GitRepository(directory)
    return Rig(
        repository,
        now_ms=lambda: time.time_ns() // 1_000_000,
        random_bits=_random_bits,
        sleep=time.sleep,
        tell=tell,
        announcer=_LateAnnouncer(repository.root, tell),
        ledger=_make_ledger,
        reviews=_LateReviews(repository.root),
    )


def _random_bits(count: int) -> int:
    from secrets import randbits

    return randbits(count)


class _LateAnnouncer:
    """Opens the record only when there is something to say; it is never needed (rigs §14.6)."""

    def __init__(self, project: str, tell: Callable[[str], None]) -> None:
        self._project = project
        self._tell = tell

    def announce(self, kind: str, facts: Mapping[str, object]) -> None:
        from bridgehead.errors import BridgeheadError

        try:
            from bridgehead.assembly.announcing import append_event

            append_event(self._project, kind, facts)
        except BridgeheadError as error:
            self._tell(f"warning: not recorded: {error.message}")


class _LateReviews:
    """Knows of councils only when results are judged, so that other commands need not load them."""

    def __init__(self, clone: str) -> None:
        self._clone = clone

    def are_required(self) -> bool:
        from bridgehead.assembly.reviewed_results import CouncilReviews

        return CouncilReviews(self._clone).are_required()

    def report_sha256(self, council_id: str) -> str | None:
        from bridgehead.assembly.reviewed_results import CouncilReviews

        return CouncilReviews(self._clone).report_sha256(council_id)


def _make_ledger(rig: Rig) -> Ledger:
    """The control plane where one is configured; importing SQLite is not worth it otherwise."""
    from bridgehead.rigs.operations.rig import Silent

    swarm_db = os.environ.get("SWARM_DB")
    if not swarm_db and not (rig.settings and rig.settings.control_plane):
        return Silent()
    from bridgehead.rigs.ledger.rig_ledger import RigLedger, ledger_path

    path = ledger_path(rig, swarm_db)
    return RigLedger(rig, path) if path else Silent()
