"""Define the errors of flow commands, all with exit code 1 (flows §6).

Lesser problems are logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from bridgehead.errors import BridgeheadError, StoreError, UserError
from bridgehead.exit_codes import ExitCode

RETRY_IT = "retry it with everything recorded: bridgehead flow retry"


class FlowRefused(UserError):
    """Nothing was run and nothing was touched.

    `says` is the message and `advice` the hint, both with placeholders for the facts.
    """

    action: ClassVar[str] = "refused"
    says: ClassVar[str]
    advice: ClassVar[str | None] = None

    def __init__(self, *facts: object) -> None:
        super().__init__(
            self.says.format(*facts), hint=self.advice and self.advice.format(*facts)
        )


class LockHeld(FlowRefused):
    action = "refuse_locked"
    says = "another process is running a flow in {}{}"
    advice = "wait for it to end, then retry"

    def __init__(self, root: Path, holder: str | None) -> None:
        super().__init__(root, f" ({holder})" if holder else "")


class RequestExpired(FlowRefused):
    """The time to answer is over, and the flow continues without an answer."""

    action = "expired"
    says = "request {} expired at {} and no longer takes an answer"
    advice = (
        "nothing was changed; `bridgehead flow resume` continues the flow without an "
        "answer"
    )


class NoCheckpoint(FlowRefused):
    action = "no_checkpoint"
    says = "no run is paused in {}"
    advice = "start a flow with: bridgehead flow run NAME"


class HasFailed(NoCheckpoint):
    """Nothing is paused, but the run that is meant can go on from where it failed."""

    says = "{1} in {0} is not paused, it failed: {2}"
    advice = f"{RETRY_IT} {{1}}"


class StateCorrupt(FlowRefused):
    action = "state_corrupt"
    says = "{} cannot be read: {}"
    advice = (
        "restore the file, or start over with --fresh (the old files are kept in "
        "post-mortem/)"
    )


class UnsupportedVersion(FlowRefused):
    action = "unsupported_version"
    says = "{} was written for contract version {}, this program supports 1.x"
    advice = "resume it with the program that wrote it, or start over with --fresh"


class StateInvalid(FlowRefused):
    action = "state_invalid"
    says = "{} is not a valid state: {}"
    advice = "restore the file, or start over with --fresh"

    def __init__(self, path: Path, problems: Iterable[object]) -> None:
        super().__init__(path, "; ".join(map(str, problems)))


class UnsafePath(FlowRefused):
    action = "unsafe_path"
    says = "{} {!r} of the paused run is refused: {}"
    advice = (
        "if it is intended, give the directory with --output; otherwise start over "
        "with --fresh"
    )


class IncompatibleFlow(FlowRefused):
    action = "incompatible_flow"
    says = "flow {} was paused by version {} and is now version {}"
    advice = "run the old version, or use --force-version if its steps are unchanged"


class OtherRun(FlowRefused):
    action = "refuse_other_run"
    says = "{} has a paused run of {}, so {} was not started"
    advice = "{3}"


class ForeignAnswer(FlowRefused):
    action = "refuse_foreign_owner"
    says = "{} belongs to uid {}, answers are accepted from uid {}"
    advice = "if that account is your handler's, repeat with --accept-foreign-owner"

    def __init__(self, path: Path, uid: int, allowed: Iterable[int]) -> None:
        super().__init__(path, uid, ", ".join(map(str, sorted(allowed))))


class JournalTracked(FlowRefused):
    action = "journal_tracked"
    says = "git tracks {}: a repository must not contain recorded results"
    advice = (
        "git rm -r --cached .bridgehead/flows removes them from git and keeps the "
        "files of your runs"
    )


class UnsafeRoot(FlowRefused):
    action = "unsafe_root"
    says = "{} cannot be used for a flow: {}"


class NonDeterministic(FlowRefused):
    action = "non_deterministic"
    says = "the flow took a different path than before it paused: {1} at {0}"
    advice = (
        "restore the old code and resume, or mark intended changes with "
        "ctx.patched(NAME); nothing is lost"
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
        super().__init__(
            f"flow {name} failed: {reason}",
            hint="; ".join(filter(None, (hint, kept))) or None,
        )
        self.actions = tuple(actions)
        self.error_type = error_type
        self.post_mortem = post_mortem


class JournalUnusable(StoreError):
    """The journal cannot be read or written."""

    exit_code = ExitCode.USER

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the flow journal {path} cannot be used: {reason}",
            hint=(
                "it contains all steps and answers: fix its owner or permissions, or "
                "restore it from a backup"
            ),
        )


def log_warning(message: str) -> None:
    # Imported only when needed: importing logging takes a quarter of the time budget
    # of a pause.
    import logging

    logging.getLogger("bridgehead.flows").warning("%s", message)
