"""Where each item ends up, and how sure the seat is (council §11)."""

from __future__ import annotations

from bridgehead.contract.report import DisputedOutput
from bridgehead.contract.words import LocalCouncilType, OutputState
from bridgehead.council.bridge_report import Analysed, decide_confidence
from bridgehead.council.finding_state import placement
from bridgehead.council.identified import with_identity
from bridgehead.council.ledger import by_severity, final_output
from bridgehead.council.proceedings import Proceedings


def consolidated(run: Proceedings) -> Analysed:
    """Final status for every item that was not merged, sorted into the lists of the report."""
    rounds = run.debate.rounds_finished
    kept = by_severity(entry for entry in run.ledger if entry.merged_into is None)
    finals = [
        (entry, with_identity(final_output(entry, rounds), run.around.tree, run.around.renames))
        for entry in kept
    ]
    outputs = tuple(output for _, output in finals if "outputs" in placement(output.status))
    disputed = tuple(
        DisputedOutput(output, run.debate.unresolved_text(entry))
        for entry, output in finals
        if output.status is OutputState.DISPUTED
    )
    seat = run.seat
    return Analysed(
        outputs=outputs,
        withdrawn=tuple(output for _, output in finals if output.status is OutputState.WITHDRAWN),
        disputed=disputed,
        domains_covered=tuple(run.covered),
        debate_rounds=rounds,
        confidence=decide_confidence(
            agents_failed=run.troubled,
            domains_missing=not set(run.roster.active) <= set(run.covered),
            disputed=len(disputed),
            items=len(outputs),
            degraded=seat.degradation_reason is not None,
        ),
        local_council_type=LocalCouncilType.AGENT_COUNCIL,
        degradation_reason=seat.degradation_reason,
        diversity_sources=("role",),
        runtime=seat.runtime,
        toolchain=seat.toolchain,
        exchange_mode=seat.exchange_mode,
    )
