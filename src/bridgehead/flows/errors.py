"""How a flow command ends when it does not end well; every one is exit 1 (flows §6). Lesser faults are logged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from bridgehead.errors import BridgeheadError, StoreError, UserError
from bridgehead.exit_codes import ExitCode


class FlowRefused(UserError):
    """Nothing was run and nothing was touched."""

    action: ClassVar[str] = "refused"


class LockHeld(FlowRefused):
    action = "refuse_locked"

    def __init__(self, root: Path, holder: str | None) -> None:
        held = f" ({holder})" if holder else ""
        super().__init__(f"another process is running a flow in {root}{held}", hint="wait for it to end, then retry")


class NoCheckpoint(FlowRefused):
    action = "no_checkpoint"

    def __init__(self, root: Path) -> None:
        super().__init__(f"no run is paused in {root}", hint="start a flow with: bridgehead flow run NAME")


class HasFailed(NoCheckpoint):
    """Nothing is paused, but the run that is meant can go on from where it failed."""

    def __init__(self, root: Path, flow_id: str, error: str) -> None:
        FlowRefused.__init__(
            self, f"{flow_id} in {root} is not paused, it failed: {error}", hint=way_on_after_failure(flow_id)
        )


def way_on_after_failure(flow_id: str) -> str:
    return f"retry it with everything recorded: bridgehead flow retry {flow_id}"


class StateCorrupt(FlowRefused):
    action = "state_corrupt"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read: {reason}",
            hint="restore the file, or start over with --fresh (the old files are kept in post-mortem/)",
        )


class UnsupportedVersion(FlowRefused):
    action = "unsupported_version"

    def __init__(self, path: Path, version: str) -> None:
        super().__init__(
            f"{path} was written for contract version {version}, this program supports 1.x",
            hint="resume it with the program that wrote it, or start over with --fresh",
        )


class StateInvalid(FlowRefused):
    action = "state_invalid"

    def __init__(self, path: Path, problems: Iterable[object]) -> None:
        super().__init__(
            f"{path} is not a valid state: {'; '.join(map(str, problems))}",
            hint="restore the file, or start over with --fresh",
        )


class UnsafePath(FlowRefused):
    action = "unsafe_path"

    def __init__(self, key: str, path: str, reason: str) -> None:
        super().__init__(
            f"{key} {path!r} of the paused run is refused: {reason}",
            hint="if it is intended, give the directory with --output; otherwise start over with --fresh",
        )


class IncompatibleFlow(FlowRefused):
    action = "incompatible_flow"

    def __init__(self, name: str, paused_version: str, version: str) -> None:
        super().__init__(
            f"flow {name} was paused by version {paused_version} and is now version {version}",
            hint="run the old version, or use --force-version if its steps are unchanged",
        )


class OtherRun(FlowRefused):
    action = "refuse_other_run"

    def __init__(self, root: Path, paused: str, wanted: str, ways_out: str) -> None:
        super().__init__(f"{root} has a paused run of {paused}, so {wanted} was not started", hint=ways_out)


class ForeignAnswer(FlowRefused):
    action = "refuse_foreign_owner"

    def __init__(self, path: Path, uid: int, allowed: Iterable[int]) -> None:
        super().__init__(
            f"{path} belongs to uid {uid}, answers are accepted from uid {', '.join(map(str, sorted(allowed)))}",
            hint="if that account is your handler's, repeat with --accept-foreign-owner",
        )


class JournalTracked(FlowRefused):
    action = "journal_tracked"

    def __init__(self, tracked: str) -> None:
        super().__init__(
            f"git tracks {tracked}: a repository must not contain recorded results",
            hint="git rm -r --cached .bridgehead/flows removes them from git and keeps the files of your runs",
        )


class UnsafeRoot(FlowRefused):
    action = "unsafe_root"

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(f"{root} cannot be used for a flow: {reason}")


class NonDeterministic(FlowRefused):
    action = "non_deterministic"

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"the flow took a different path than before it paused: {detail} at {path}",
            hint="restore the old code and resume, or mark intended changes with ctx.patched(NAME); nothing is lost",
        )


class FlowMistake(UserError):
    """A flow is written, named or called in a way that cannot work."""


class FlowFailed(BridgeheadError):
    """The flow ran and did not reach its end."""

    exit_code = ExitCode.USER

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        actions: Sequence[str] = (),
        error_type: str | None = None,
        post_mortem: Path | None = None,
        hint: str | None = None,
    ) -> None:
        kept = f"its files are in {post_mortem}" if post_mortem else None
        super().__init__(f"flow {name} failed: {reason}", hint="; ".join(filter(None, (hint, kept))) or None)
        self.actions = tuple(actions)
        self.error_type = error_type
        self.post_mortem = post_mortem


class JournalUnusable(StoreError):
    """The journal cannot be read or written."""

    exit_code = ExitCode.USER

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the flow journal {path} cannot be used: {reason}",
            hint="it contains all steps and answers: fix its owner or permissions, or restore it from a backup",
        )


def log_warning(message: str) -> None:
    # Imported when there is something to say: logging alone would take a quarter of a pause's time budget.
    import logging

    logging.getLogger("bridgehead.flows").warning("%s", message)
