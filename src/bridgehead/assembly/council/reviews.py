"""Where rigs meet councils: the mark a reviewed result carries, and what this machine
knows about it (design §1).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.errors import BridgeheadError, FileError, NotFound

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly
    from bridgehead.rigs.trust.council_mark import CouncilMark


class CouncilReviews:
    """The councils of this machine, for the rig in `clone`.

    Nothing is opened before it is asked for.
    """

    def __init__(self, clone: str) -> None:
        self._clone = clone

    def are_required(self) -> bool:
        """Tell whether the owner takes results only with a council's mark."""
        return self._assembly().settings.flag("rigs.require_council")

    def known_mark(self, council_id: str) -> CouncilMark | None:
        """Return what the record says about a council.

        A report that was edited since speaks for nothing.
        """
        from bridgehead.assembly.council.reports import Reports
        from bridgehead.rigs.trust.council_mark import CouncilMark

        try:
            recorded = Reports(self._assembly()).recorded(council_id)
        except BridgeheadError:
            return None  # a record that cannot be opened: nothing to compare with
        return CouncilMark(council_id, *recorded) if recorded else None

    def mark(self, reference: str) -> CouncilMark:
        """Return what a result says about the council whose id begins like this.

        Without a verdict it raises.
        """
        from bridgehead.assembly.council.reports import Reports
        from bridgehead.rigs.trust.council_mark import CouncilMark

        try:
            stored = Reports(self._assembly()).find(reference, everywhere=True)
        except (FileError, NotFound) as error:
            raise NotFound(
                f"no report of council {reference!r} on this machine",
                hint="`bridgehead council list --everywhere` lists the IDs",
            ) from error
        verdict, council_id = stored.gate_verdict()
        return CouncilMark(council_id, verdict, stored.sha256)

    def _assembly(self) -> Assembly:
        from bridgehead.assembly.application import Assembly

        return Assembly(Path(self._clone))
