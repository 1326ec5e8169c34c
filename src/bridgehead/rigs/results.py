"""What a command that wrote something did: one line for people and scripts, one object for `--json` (rigs §7, §8, §10).

Field names on the wire are the public contract's; the compatible extras of other documents come with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.result_format import LINE_PREFIX, short, stamped

if TYPE_CHECKING:
    from bridgehead.rigs.attestation import Attestation
    from bridgehead.rigs.markers import StatusClass


class Initialised(NamedTuple):
    """A clone got its identity."""

    rig_id: str
    root: str  # basename of the top level: stdout never shows a path of this machine
    display_name: str | None = None

    def line(self) -> str:
        return f"{LINE_PREFIX}init OK rig-id={self.rig_id} root={self.root}"

    def json_object(self) -> dict[str, object]:
        return stamped("init", rig_id=self.rig_id, root=self.root, display_name=self.display_name)


class Scaffolded(NamedTuple):
    """A request was put down to be filled in."""

    thread_id: str
    file_path: str

    def line(self) -> str:
        return f"{LINE_PREFIX}scaffolded type=REQUEST thread={self.thread_id} file={self.file_path}"

    def json_object(self) -> dict[str, object]:
        return stamped("new", thread_id=self.thread_id, file_path=self.file_path, type="REQUEST")


class Sent(NamedTuple):
    """An envelope was committed, and pushed unless that was declined."""

    type: str
    thread_id: str
    file_path: str
    commit_sha: str
    body_hash: str
    status_class: StatusClass
    pushed: bool
    to: Sequence[str]
    references: Sequence[str] = ()
    concurrent_with: Sequence[str] | None = None  # paths, where references were filled in for the user
    row_id: int | None = None  # in the control plane

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}sent type={self.type} thread={self.thread_id} "
            f"file={self.file_path} commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped(
            "send",
            type=self.type,
            thread_id=self.thread_id,
            file_path=self.file_path,
            commit_sha=self.commit_sha,
            body_hash=self.body_hash,
            status_class=str(self.status_class),
            pushed=self.pushed,
            to=list(self.to),
            references=list(self.references),
            concurrent_with=None if self.concurrent_with is None else list(self.concurrent_with),
            row_id=self.row_id,
        )


class Closed(NamedTuple):
    """A thread got its RESOLUTION.md."""

    thread_id: str
    outcome: StatusClass
    file_path: str
    commit_sha: str
    body_hash: str
    pushed: bool
    row_id: int | None = None

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}closed type=RESOLUTION thread={self.thread_id} "
            f"status={self.outcome} commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        return stamped(
            "close",
            thread_id=self.thread_id,
            status=str(self.outcome),
            commit_sha=self.commit_sha,
            body_hash=self.body_hash,
            type="RESOLUTION",
            file_path=self.file_path,
            pushed=self.pushed,
            row_id=self.row_id,
        )


class Relayed(NamedTuple):
    """A signed turn was committed for a human."""

    type: str
    thread_id: str
    file_path: str
    commit_sha: str
    attestation: Attestation
    in_reply_to: str
    body_hash: str
    pushed: bool
    row_id: int | None = None

    def line(self) -> str:
        return (
            f"{LINE_PREFIX}relayed type={self.type} thread={self.thread_id} file={self.file_path} "
            f"attested_by={self.attestation.attested_by} nonce={self.attestation.nonce} "
            f"commit={short(self.commit_sha)}"
        )

    def json_object(self) -> dict[str, object]:
        attested = self.attestation._asdict()
        return stamped(
            "relay",
            type=self.type,
            thread_id=self.thread_id,
            file_path=self.file_path,
            commit_sha=self.commit_sha,
            attestation=attested,
            thread=self.thread_id,
            file=self.file_path,
            commit=self.commit_sha,
            **attested,
            in_reply_to=self.in_reply_to,
            body_hash=self.body_hash,
            pushed=self.pushed,
            row_id=self.row_id,
        )


class Frozen(NamedTuple):
    """A thread was asked to hold still."""

    thread_id: str
    expires: str

    def line(self) -> str:
        return f"{LINE_PREFIX}frozen thread={self.thread_id} until={self.expires}"

    def json_object(self) -> dict[str, object]:
        return stamped("freeze", thread_id=self.thread_id, expires=self.expires)


class Thawed(NamedTuple):
    """A thread may go on."""

    thread_id: str

    def line(self) -> str:
        return f"{LINE_PREFIX}thawed thread={self.thread_id}"

    def json_object(self) -> dict[str, object]:
        return stamped("thaw", thread_id=self.thread_id)
