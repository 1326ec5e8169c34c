"""Where rigs meet councils: the mark a reviewed result carries, and what this machine knows about it (design §1)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.errors import BridgeheadError, FileError, NotFound

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly
    from bridgehead.assembly.council.reports import StoredReport
    from bridgehead.rigs.trust.council_mark import CouncilMark

REQUIRE_COUNCIL = "rigs.require_council"


class CouncilUnknown(NotFound):
    """A result was to name a council this machine has no report of."""

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"no report of council {reference!r} on this machine",
            hint="bridgehead council list --everywhere shows the ids",
        )


class CouncilReviews:
    """The councils of this machine, for the rig in `clone`. Nothing is opened before it is asked for."""

    def __init__(self, clone: str) -> None:
        self._clone = clone

    def are_required(self) -> bool:
        """Tell whether the owner takes results only with a council's mark."""
        return self._assembly().settings.flag(REQUIRE_COUNCIL)

    def report_sha256(self, council_id: str) -> str | None:
        """Return the hash of a council's report; None if it is not at hand."""
        try:
            stored = self._find(council_id)
            return _sha256(stored) if stored.review_id == council_id else None
        except BridgeheadError:
            return None  # unknown, deleted, or in a record that cannot be opened: nothing to compare with

    def mark(self, reference: str) -> CouncilMark:
        """Return what a result says about the council whose id begins like this; without a verdict it raises."""
        from bridgehead.rigs.trust.council_mark import CouncilMark

        try:
            stored = self._find(reference)
            verdict, council_id = stored.gate_verdict()
            return CouncilMark(council_id, verdict, _sha256(stored))
        except FileError as error:
            raise CouncilUnknown(reference) from error

    def _find(self, reference: str) -> StoredReport:
        from bridgehead.assembly.council.reports import NoReport, Reports

        try:
            return Reports(self._assembly()).find(reference, everywhere=True)
        except NoReport as error:
            raise CouncilUnknown(reference) from error

    def _assembly(self) -> Assembly:
        from bridgehead.assembly.application import Assembly

        return Assembly(Path(self._clone))


def _sha256(stored: StoredReport) -> str:
    from bridgehead.assembly.council.reports import MOST_REPORT_BYTES
    from bridgehead.host.files import read_bounded

    content = read_bounded(stored.project / stored.files.json, MOST_REPORT_BYTES, root=stored.project)
    return sha256(content).hexdigest()
