"""What `sync`, `verify` and the index commands found, as one line and as one object (rigs §8, §9.2, §14)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.rigs.result_format import LINE_PREFIX, stamped, word
from bridgehead.rigs.sync_report import Refusal, SyncReport
from bridgehead.rigs.verification_kinds import VerificationReport


class Synced(NamedTuple):
    """What a sync saw, whether it may be pulled, and whether it was."""

    report: SyncReport
    refusal: Refusal | None
    pulled: bool  # also where there was nothing to pull, as the reference has it
    verification: VerificationReport

    @property
    def moved(self) -> bool:
        """Whether the branch is elsewhere than before."""
        return self.pulled and self.report.remote_ahead > 0

    @property
    def diverged(self) -> bool:
        """False where the operator accepted the difference."""
        return self.refusal is not None and self.report.diverged

    def line(self) -> str:
        if self.refusal:
            return f"{LINE_PREFIX}sync pulled=false diverged={word(self.diverged)} reason={self.refusal}"
        return (
            f"{LINE_PREFIX}sync pulled={word(self.pulled)} fast_forward=true "
            f"new_envelopes={len(self.report.new_envelopes)} diverged=false"
        )

    def json_object(self) -> dict[str, object]:
        report = self.report
        return stamped(
            "sync",
            pulled=self.pulled,
            fast_forward_eligible=report.fast_forward_eligible,
            diverged=self.diverged,
            new_envelopes=len(report.new_envelopes),
            divergence_report=report.json_object(),
            fast_forward=self.refusal is None,
            new_envelopes_count=len(report.new_envelopes),
            changed_envelopes_count=len(report.changed),
            local_head=report.local_head,
            remote_head=report.remote_head,
            reason=str(self.refusal) if self.refusal else None,
            verification=self.verification.json_object(),
        )


class Checked(NamedTuple):
    """The read-only gate for other tools."""

    remote: bool  # reachable
    clean: bool
    behind: int
    ahead: int
    indexed: bool  # the control plane's cursor is at HEAD, or there is none

    @property
    def ok(self) -> bool:
        return self.remote and self.clean and self.indexed and not self.behind and not self.ahead

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}check ok={word(self.ok)} remote={word(self.remote)} clean={word(self.clean)} "
            f"behind={self.behind} ahead={self.ahead} index={word(self.indexed)}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped(
            "check",
            ok=self.ok,
            remote=self.remote,
            clean=self.clean,
            behind=self.behind,
            ahead=self.ahead,
            index=self.indexed,
        )


class Verified(NamedTuple):
    """Committed envelopes were looked at again."""

    verification: VerificationReport

    def line(self) -> str:
        found = self.verification
        counts = f"checked={found.checked} ok={found.ok} warned={found.warned} failed={found.failed}"
        return f"{LINE_PREFIX}verify {counts}"

    def json_object(self) -> dict[str, object]:
        return stamped("verify", verification=self.verification.json_object())


class Reconciled(NamedTuple):
    """The control plane was brought in line with git."""

    added: int
    pushed: int
    superseded: int

    def line(self) -> str:
        return f"{LINE_PREFIX}reconciled added={self.added} pushed={self.pushed} superseded={self.superseded}"

    def json_object(self) -> dict[str, object]:
        return stamped("reconcile", **self._asdict())


class Replayed(NamedTuple):
    """The control plane was rebuilt from history."""

    threads: int
    messages: int

    def line(self) -> str:
        return f"{LINE_PREFIX}replayed threads={self.threads} messages={self.messages}"

    def json_object(self) -> dict[str, object]:
        return stamped("replay", **self._asdict())
