"""How the jobs of a worker that is gone are started once more.

DBOS offers this to its own service only. What it offers everybody, to resume a job by
its name, counts the attempts from zero, so that a job that kills its workers would never
be given up, and revives a job that somebody cancelled meanwhile. So an inner function is
used here, and a release of DBOS without it is refused before a worker takes a job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridgehead.errors import BridgeheadError

Recover = Callable[[Sequence[str]], Any]
"""Start the jobs of these workers once more."""


def recovery_of_dbos() -> Recover:
    """Return what starts the jobs of workers once more."""
    from dbos import DBOS

    recover: Recover | None = getattr(DBOS, "_recover_pending_workflows", None)
    if recover is None:
        raise BridgeheadError(
            "this version of DBOS cannot take over the runs of a worker that died",
            hint="pip install 'bridgehead[fleet]' installs a version that can",
        )
    return recover
