"""Look again at all committed envelopes (rigs §8 verify)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.rigs.fields import parse_thread_id
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.verification import (
    Verifier,
    committed_envelopes,
    findings_of,
    subjects_of,
)
from bridgehead.rigs.sync_results import Verified
from bridgehead.rigs.verification_kinds import PathFindings, report_on


class VerifyRequest(NamedTuple):
    thread_id: str | None = None
    require_council: bool = False  # else the owner's setting decides


def verify(rig: Rig, request: VerifyRequest) -> Verified:
    """Check every committed envelope, of one thread if one is named. Nonces are compared over the whole repository."""
    thread_id = parse_thread_id(request.thread_id) if request.thread_id else None
    history = rig.repository.history(rig.repository.head().commit).commits
    subjects = subjects_of(rig, committed_envelopes(history), require_council=request.require_council or None)
    findings = findings_of(subjects, Verifier(rig).judge(subjects))
    wanted = [found for found in findings if thread_id in (None, found.path.partition("/")[0])]
    for finding in wanted:
        tell_finding(rig, finding)
    return Verified(report_on(wanted))


def tell_finding(rig: Rig, finding: PathFindings) -> None:
    """One line of conversation per envelope with something against it."""
    if finding.kinds:
        rig.tell(f"{finding.path}: {', '.join(finding.kinds)}")
