"""Decide what a fetched history would bring, and whether to pull it (rigs §9.1, §9.2).

Only pure appends are pulled: new .md files in thread directories, on top of what is
here.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from bridgehead.rigs.envelope.names import arrives_as_envelope, thread_of


class Change(NamedTuple):
    """One line of `git diff --name-status`, from the merge base on."""

    status: str  # A M T D, or R and C with a score
    path: str
    old_path: str | None = None  # of renames and copies

    @property
    def touches_thread(self) -> bool:
        return any(path and thread_of(path) for path in (self.path, self.old_path))


class NewEnvelope(NamedTuple):
    """An envelope the remote would add."""

    path: str
    thread_id: str
    sha: str  # the fetched head


class ChangedPath(NamedTuple):
    """A change that is not an append."""

    path: str
    reason: str
    touches_thread: bool


class Refusal(StrEnum):
    """Why nothing is pulled; the first that applies is the one reported."""

    NON_APPEND = "non_append_change_on_remote"
    BOTH_AHEAD = "both_sides_diverged"
    NOT_ELIGIBLE = "not_fast_forward_eligible"


class SyncReport(NamedTuple):
    """What separates this clone from the remote, before anything is moved."""

    local_head: str
    remote_head: str
    local_ahead: int
    remote_ahead: int
    new_envelopes: tuple[NewEnvelope, ...] = ()
    changed: tuple[ChangedPath, ...] = ()
    # Commits of this clone that the remote had once, newest first.
    gone: tuple[str, ...] = ()

    @property
    def both_ahead(self) -> bool:
        return self.local_ahead > 0 and self.remote_ahead > 0

    @property
    def diverged(self) -> bool:
        return self.both_ahead or bool(self.changed)

    @property
    def fast_forward_eligible(self) -> bool:
        """Whether a fast-forward is possible, or there is nothing to pull."""
        if self.remote_ahead == 0:
            return True
        return bool(self.new_envelopes) and not self.diverged

    def refusal(
        self, *, accept_non_envelope: bool = False, rebuilds: bool = False
    ) -> Refusal | None:
        """Return why this may not be pulled; None if it may.

        If the caller `rebuilds` what is unpushed here, both sides may be ahead.
        """
        if self.remote_ahead == 0:
            return None
        changes_thread = any(change.touches_thread for change in self.changed)
        if changes_thread or (self.changed and not accept_non_envelope):
            return Refusal.NON_APPEND
        may_both_be_ahead = (rebuilds or accept_non_envelope) and not self.gone
        if self.both_ahead and not may_both_be_ahead:
            return Refusal.BOTH_AHEAD
        if not self.new_envelopes and not accept_non_envelope:
            return Refusal.NOT_ELIGIBLE
        return None

    def with_hidden(self, paths: Iterable[str], reason: str) -> "SyncReport":
        """Add changes that only commits inside the history show, not its two ends."""
        known = {change.path for change in self.changed}
        hidden = [
            ChangedPath(path, reason, True)
            for path in dict.fromkeys(paths)
            if path not in known
        ]
        return self._replace(changed=(*self.changed, *hidden)) if hidden else self

    def json_object(self) -> dict[str, object]:
        """Return the `divergence_report`."""
        return {
            "fast_forward_eligible": self.fast_forward_eligible,
            "new_envelopes": [envelope._asdict() for envelope in self.new_envelopes],
            "changed_envelopes": [
                {"path": change.path, "reason": change.reason}
                for change in self.changed
            ],
            "diverged": self.diverged,
            "remote_head": self.remote_head,
            "local_head": self.local_head,
        }


def report_changes(
    changes: Iterable[Change],
    *,
    local_head: str,
    remote_head: str,
    local_ahead: int,
    remote_ahead: int,
) -> SyncReport:
    """Sort the changes of a fetched history into appends and everything else."""
    new: list[NewEnvelope] = []
    changed: list[ChangedPath] = []
    for change in changes if remote_ahead else ():
        if change.status == "A" and arrives_as_envelope(change.path):
            new.append(
                NewEnvelope(change.path, change.path.partition("/")[0], remote_head)
            )
        else:
            reason = _REASONS.get(
                change.status[:1], f"unknown change ({change.status})"
            )
            changed.append(ChangedPath(change.path, reason, change.touches_thread))
    return SyncReport(
        local_head, remote_head, local_ahead, remote_ahead, tuple(new), tuple(changed)
    )


REWRITTEN_ON_THE_WAY = "modified in place (append-only rule violated)"
DELETED_ON_THE_WAY = "file deleted on remote"
_REASONS = {
    "A": "new file outside a known thread directory",
    "M": REWRITTEN_ON_THE_WAY,
    "R": "rename detected (envelopes must not move)",
    "C": "copy detected",
    "T": "type change detected",
    "D": DELETED_ON_THE_WAY,
}
