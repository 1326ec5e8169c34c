"""Format what commands that write or check something print (rigs §7–§10, §14).

There is one line for people, and one object for `--json`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.trust.incoming_changes import Refusal, SyncReport
from bridgehead.rigs.trust.verification_kinds import PathFindings, VerificationReport
from bridgehead.rigs.views.result_format import LINE_PREFIX, short, stamped, word

if TYPE_CHECKING:
    from bridgehead.rigs.envelope.fields import StatusClass
    from bridgehead.rigs.trust.attestation import Attestation


class Initialised(NamedTuple):
    """A clone got its identity."""

    rig_id: str
    root: str  # basename of the top level: stdout never shows a path of this machine
    display_name: str | None = None
    signing_key: str | None = None  # fingerprint

    def line(self) -> str:
        key = f" key={self.signing_key}" if self.signing_key else ""
        return f"{LINE_PREFIX}init OK rig-id={self.rig_id} root={self.root}{key}"

    def json_object(self) -> dict[str, object]:
        return stamped("init", **self._asdict())


class Scaffolded(NamedTuple):
    """A request was written, to be filled in."""

    thread_id: str
    file_path: str

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}scaffolded type=REQUEST thread={self.thread_id} "
            f"file={self.file_path}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped(
            "new", thread_id=self.thread_id, file_path=self.file_path, type="REQUEST"
        )


class Sent(NamedTuple):
    """An envelope was committed, and pushed unless that was declined."""

    type: str
    thread_id: str
    file_path: str
    commit_sha: str
    body_hash: str
    status_class: "StatusClass"
    pushed: bool
    to: Sequence[str]
    references: Sequence[str] = ()
    concurrent_with: Sequence[str] | None = None  # paths, with automatic references
    row_id: int | None = None  # in the control plane

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}sent type={self.type} thread={self.thread_id} "
            f"file={self.file_path} commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        document = stamped("send", **self._asdict())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in document.items()
        }


class PushedTurns(NamedTuple):
    """What was committed here was pushed."""

    turns: int
    commit_sha: str

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}push turns={self.turns} "
            f"commit={short(self.commit_sha) or '-'}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped("push", turns=self.turns, commit_sha=self.commit_sha or None)


class Closed(NamedTuple):
    """A thread got its RESOLUTION.md."""

    thread_id: str
    status: "StatusClass"
    file_path: str
    commit_sha: str
    body_hash: str
    pushed: bool
    row_id: int | None = None

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}closed type=RESOLUTION thread={self.thread_id} "
            f"status={self.status} commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped("close", **self._asdict(), type="RESOLUTION")


class Relayed(NamedTuple):
    """A signed turn was committed for a human."""

    type: str
    thread_id: str
    file_path: str
    commit_sha: str
    attestation: "Attestation"
    in_reply_to: str
    body_hash: str
    pushed: bool
    row_id: int | None = None

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}relayed type={self.type} thread={self.thread_id} "
            f"file={self.file_path} "
            f"attested_by={self.attestation.attested_by} "
            f"nonce={self.attestation.nonce} "
            f"commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        attested = self.attestation._asdict()
        relayed = stamped(
            "relay",
            **self._asdict(),
            thread=self.thread_id,
            file=self.file_path,
            commit=self.commit_sha,
        )
        return {**relayed, **attested, "attestation": attested}


class Frozen(NamedTuple):
    """A thread was frozen."""

    thread_id: str
    expires: str

    def line(self) -> str:
        return f"{LINE_PREFIX}frozen thread={self.thread_id} until={self.expires}"

    def json_object(self) -> dict[str, object]:
        return stamped("freeze", thread_id=self.thread_id, expires=self.expires)


class Thawed(NamedTuple):
    """A thread was thawed."""

    thread_id: str

    def line(self) -> str:
        return f"{LINE_PREFIX}thawed thread={self.thread_id}"

    def json_object(self) -> dict[str, object]:
        return stamped("thaw", thread_id=self.thread_id)


class Synced(NamedTuple):
    """What a sync saw, whether it may be pulled, and whether it was."""

    report: SyncReport
    refusal: Refusal | None
    pulled: bool  # also where there was nothing to pull, as the reference has it
    verification: VerificationReport
    quarantined: tuple[PathFindings, ...] = ()

    @property
    def new_envelopes(self) -> int:
        """How many new envelopes take part in their threads."""
        quarantined = {found.path for found in self.quarantined}
        new_paths = [envelope.path for envelope in self.report.new_envelopes]
        return len([path for path in new_paths if path not in quarantined])

    @property
    def moved(self) -> bool:
        """Whether the branch was moved."""
        return self.pulled and self.report.remote_ahead > 0

    @property
    def diverged(self) -> bool:
        """Whether both sides differ in a way that the operator did not accept."""
        return self.refusal is not None and self.report.diverged

    def line(self) -> str:
        if self.refusal:
            return (
                f"{LINE_PREFIX}sync pulled=false diverged={word(self.diverged)} "
                f"reason={self.refusal}"
            )
        line = (
            f"{LINE_PREFIX}sync pulled={word(self.pulled)} fast_forward=true "
            f"new_envelopes={self.new_envelopes} diverged=false"
        )
        if self.quarantined:
            line += f" quarantined={len(self.quarantined)}"
        return line

    def json_object(self) -> dict[str, object]:
        report = self.report
        return stamped(
            "sync",
            pulled=self.pulled,
            fast_forward_eligible=report.fast_forward_eligible,
            diverged=self.diverged,
            new_envelopes=self.new_envelopes,
            divergence_report=report.json_object(),
            fast_forward=self.refusal is None,
            new_envelopes_count=self.new_envelopes,
            changed_envelopes_count=len(report.changed),
            local_head=report.local_head,
            remote_head=report.remote_head,
            reason=str(self.refusal) if self.refusal else None,
            verification=self.verification.json_object(),
            quarantined=[found.json_object() for found in self.quarantined],
        )


class Checked(NamedTuple):
    """The state of a clone, for tools that ask before they go on."""

    remote: bool  # reachable
    clean: bool
    behind: int
    ahead: int
    indexed: bool  # the control plane's cursor is at HEAD, or there is none

    @property
    def ok(self) -> bool:
        return (
            self.remote
            and self.clean
            and self.indexed
            and not self.behind
            and not self.ahead
        )

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}check ok={word(self.ok)} remote={word(self.remote)} "
            f"clean={word(self.clean)} "
            f"behind={self.behind} ahead={self.ahead} index={word(self.indexed)}"
        )

    def json_object(self) -> dict[str, object]:
        facts = self._asdict()
        indexed = facts.pop("indexed")
        return stamped("check", ok=self.ok, **facts, index=indexed)


class Verified(NamedTuple):
    """Committed envelopes were verified."""

    verification: VerificationReport
    quarantined: tuple[PathFindings, ...] = ()

    def line(self) -> str:
        found = self.verification
        line = (
            f"{LINE_PREFIX}verify checked={found.checked} ok={found.ok} "
            f"warned={found.warned} failed={found.failed}"
        )
        if self.quarantined:
            line += f" quarantined={len(self.quarantined)}"
        return line

    def json_object(self) -> dict[str, object]:
        return stamped(
            "verify",
            verification=self.verification.json_object(),
            quarantined=[found.json_object() for found in self.quarantined],
        )


class Reconciled(NamedTuple):
    """The control plane was brought in line with git."""

    added: int
    pushed: int
    superseded: int

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}reconciled added={self.added} pushed={self.pushed} "
            f"superseded={self.superseded}"
        )

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
