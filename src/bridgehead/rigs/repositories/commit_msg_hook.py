"""The one hook that runs: the clone's own `commit-msg`, called by us because plumbing calls none (rigs §8).

It runs as `git commit` would run it, except when the way to it leads through a tracked file: that a remote can change.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bridgehead.host.child import run_child
from bridgehead.rigs.repositories.errors import CommitFailed
from bridgehead.rigs.repositories.git_clone import Clone

_LONGEST_CHAIN = 40  # of symbolic links, as in Linux


def find_hook(clone: Clone) -> Path | None:
    """Return the hook if there is one that can be executed."""
    hook = clone.location.hooks_dir / "commit-msg"
    return hook if hook.is_file() and os.access(hook, os.X_OK) else None


def is_tracked_hook(clone: Clone, hook: Path) -> bool:
    """Tell whether anything on the way to the hook, links included, is a tracked file."""
    top_level = clone.location.top_level
    configured = clone.settings.path("core.hookspath")  # git has followed its links already, we must not
    ways = [hook, hook.resolve(), *([top_level / configured / hook.name] if configured else ())]
    inside = {
        str(place.relative_to(top_level))
        for place in _places_on_the_way(ways)
        if place.is_relative_to(top_level) and place != top_level
    }
    if not inside:
        return False
    return bool(inside.intersection(clone.git.read("ls-files", "-z", "--", *sorted(inside)).fields))


def run_hook(clone: Clone, hook: Path, message_file: Path, index: Path) -> str:
    """Let the hook judge and edit the message; return what it printed, or raise CommitFailed with it."""
    environment = {**clone.git.environment, "GIT_INDEX_FILE": str(index)}
    command = [str(hook), str(message_file)]
    try:
        finished = _run(command, clone.location.top_level, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise CommitFailed(f"the commit-msg hook cannot be run: {error.strerror}") from error
        finished = _run(
            ["/bin/sh", *command], clone.location.top_level, environment
        )  # no #! line: git does the same
    printed = finished.stdout.decode("utf-8", "replace")
    if finished.returncode != 0:
        raise CommitFailed(printed or f"the commit-msg hook ended with {finished.returncode}")
    return printed


def tidy_message(text: str) -> str:
    """Clean a message as `git commit -m` does: no blank edges, no trailing blanks, no runs of empty lines."""
    lines: list[str] = []
    for line in (line.rstrip(" \t\r") for line in text.split("\n")):  # what git calls blanks
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n" if any(lines) else ""


def _run(
    command: list[str], directory: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return run_child(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _places_on_the_way(ways: list[Path]) -> Iterator[Path]:
    """Yield each path, every directory above it, and the same for wherever links lead."""
    pending = list(ways)
    for _ in range(_LONGEST_CHAIN):
        if not pending:
            return
        path = Path(os.path.normpath(pending.pop()))
        for place in (path, *path.parents):
            yield place
            if place.is_symlink():
                below = path.relative_to(place)
                pending.append(place.parent / place.readlink() / below)
