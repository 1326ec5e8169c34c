"""Install a pre-push hook that checks the verdict of the newest council.

It holds no council. An existing hook is kept and run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.errors import NotFound
from bridgehead.host.command import Command
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing, translated
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.host.process import run
from bridgehead.setup.planning import Change

NAME: Final = "pre-push"
KEPT: Final = "pre-push.before-bridgehead"
MOST_BYTES: Final = 1 << 20
GIT_SECONDS: Final = 30.0
_MARK: Final = "# bridgehead: the gate of the newest council"


def hook_text(level: str) -> str:
    """Return the hook.

    It answers for the verdict alone: without a report, or without bridgehead, the push
    goes on.
    """
    return f"""\
#!/bin/sh
{_MARK}. No council is held here.
# Pass it by once: git push --no-verify. Remove it: bridgehead setup git-hook --undo.
if command -v bridgehead >/dev/null 2>&1; then
    bridgehead council gate --level {level} --commit HEAD </dev/null >&2
    if [ $? -eq 3 ]; then
        echo "bridgehead: the push was stopped; bridgehead council show has the findings" >&2
        exit 1
    fi
fi
kept="$(dirname "$0")/{KEPT}"
if [ -x "$kept" ]; then
    exec "$kept" "$@"
fi
exit 0
"""


@dataclass(frozen=True, slots=True)
class HookPlan:
    """The hook before and after, and the hook of the user's that is kept beside it."""

    folder: Path
    change: Change
    keeps_foreign: bool = False  # a hook of the user's is there and moves to KEPT
    bring_back: bool = False  # the user's hook moves back from KEPT


def hooks_folder(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return where git looks for hooks, `core.hooksPath` included."""
    asking = Command(
        ["git", "rev-parse", "--git-path", "hooks"], cwd=directory, env=environ
    )
    done = run(asking, timeout_seconds=GIT_SECONDS, idle_seconds=None)
    if done.exit_code != 0:
        raise NotFound(
            f"{directory} is not in a git repository",
            hint="change to the repository, then retry",
        )
    return directory / Path(os.fsdecode(done.stdout).strip()).expanduser()


def plan_hook(folder: Path, level: str) -> HookPlan:
    """Return what installing would do."""
    old = _text(folder / NAME)
    foreign = old is not None and _MARK not in old
    return HookPlan(
        folder,
        Change(folder / NAME, None, old, hook_text(level)),
        keeps_foreign=foreign,
    )


def plan_removal(folder: Path) -> HookPlan:
    """Return what removing would do; a hook that is not ours stays."""
    old = _text(folder / NAME)
    kept = _text(folder / KEPT)
    if old is None or _MARK not in old:
        return HookPlan(folder, Change(folder / NAME, None, old, old))
    return HookPlan(
        folder, Change(folder / NAME, None, old, kept), bring_back=kept is not None
    )


def carry_out(plan: HookPlan) -> None:
    """Carry out a plan; at every moment either the old hook or ours is in place."""
    hook = plan.folder / NAME
    kept = plan.folder / KEPT
    if plan.change.action == "keep":
        return
    make_dir(plan.folder)
    if plan.keeps_foreign:
        mode = stat.S_IMODE(hook.stat().st_mode)
        write_atomic(kept, read_bounded(hook, MOST_BYTES))
        kept.chmod(mode)
    if plan.change.new is None:
        with translated(hook, "removed"):
            hook.unlink()
    elif plan.bring_back:
        with translated(kept, "moved"):
            kept.replace(hook)
    else:
        write_atomic(hook, plan.change.new)
        hook.chmod(0o755)


def _text(path: Path) -> str | None:
    try:
        return read_bounded(path, MOST_BYTES).decode("utf-8", "replace")
    except FileMissing:
        return None
