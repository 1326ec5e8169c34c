"""Push to, fetch from and fast-forward to the branch all rigs read (rigs §8, §9.3)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bridgehead.errors import FileError, UserError
from bridgehead.host.files import read_bounded
from bridgehead.rigs.repositories.errors import FetchFailed, GitFailed, PushFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import (
    NETWORK_TIMEOUT_SECONDS,
    GitAnswer,
    require_success,
)
from bridgehead.rigs.repositories.git.freeze import FETCHED_FREEZES
from bridgehead.rigs.repositories.git.history import diff, is_ancestor, merge_base
from bridgehead.rigs.repositories.git.refs import local_ref, push_ref
from bridgehead.rigs.repositories.records import (
    Head,
    InTheWay,
    PathChange,
    Pushed,
    Raced,
    Wire,
)
from bridgehead.rigs.repositories.work_tree import keep

_FETCHED = "fetched"  # an empty file; its time is that of the last fetch
# The last commit the remote had before its history was rewritten.
_REPLACED = "replaced"
_MAX_ID_BYTES = 100
_STALE_SECONDS = 10.0  # git holds such a lock for milliseconds
_BLOCKED = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")
_OURS_TO_CLEAR = ("refs/remotes/", "refs/bridge/")
_BRANCHES = "refs/heads/"
_FETCH = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--prune",
    "--",
]
_MERGE = [
    "merge",
    "--ff-only",
    "--quiet",
    "--no-stat",
    "--no-autostash",
    "--no-overwrite-ignore",
]
_HEAD_FIELDS = (
    "HEAD",
    "refname",
    "objectname",
    "upstream",
    "upstream:remotename",
    "upstream:remoteref",
)
_HEAD_FORMAT = "".join(f"%({field})%00" for field in _HEAD_FIELDS)


def read_head(clone: Clone) -> Head:
    """Return the current branch, its commit and what it follows."""
    listed = clone.git.read("for-each-ref", f"--format={_HEAD_FORMAT}", _BRANCHES).text
    for line in listed.split("\n"):
        if line.startswith("*"):
            _, branch, commit, tracking_ref, remote, remote_branch, _ = line.split("\0")
            return Head(
                commit,
                branch.removeprefix(_BRANCHES),
                remote or None,
                remote_branch.removeprefix(_BRANCHES) or None,
                tracking_ref or None,
            )
    return _unusual_head(clone)


def _unusual_head(clone: Clone) -> Head:
    """Return a HEAD that is detached, or whose branch has no commit yet."""
    commit = clone.git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit.code == 0:
        return Head(commit.text.strip(), None)
    answer = clone.git.ask("symbolic-ref", "--quiet", "HEAD")
    branch = answer.text.strip().removeprefix(_BRANCHES)
    remote = clone.settings.get(f"branch.{branch}.remote")
    merge = clone.settings.get(f"branch.{branch}.merge")
    if not remote or not merge:
        return Head(None, branch)
    remote_branch = merge.removeprefix(_BRANCHES)
    tracking_ref = f"refs/remotes/{remote}/{remote_branch}"
    return Head(None, branch, remote, remote_branch, tracking_ref)


def wire_of(
    clone: Clone, head: Head, remote: str, branch: str, *, pushing: bool
) -> Wire | None:
    """Return the wire if HEAD is on it. See Repository.wire."""
    if not clone.settings.remotes():
        if pushing:
            raise UserError(
                f'this repository has no remote "{remote}" to push to; nothing was '
                "written",
                hint=f"git remote add {remote} URL, or repeat with --no-push",
            )
        return None
    current = _current_branch(head)
    is_on_wire = (head.remote, head.remote_branch) == (remote, branch)
    if not is_on_wire or head.tracking_ref is None:
        raise _off_the_wire(head, current, remote, branch)
    return Wire(remote, branch, head.tracking_ref)


def _off_the_wire(head: Head, current: str, remote: str, branch: str) -> UserError:
    if head.remote_branch:
        follows = f"follows {head.remote}/{head.remote_branch}"
    else:
        follows = "has no upstream configured"
    if current == branch:
        advice = f"git push --set-upstream {remote} {branch}"
    else:
        own = head.remote_branch or current
        advice = f"git switch {branch}, or set branch: {own} in .bridge/config.yaml"
    return UserError(
        f'branch "{current}" {follows}, but the bridge uses {remote}/{branch};'
        " nothing was written",
        hint=advice,
    )


def upstream_of(head: Head) -> Wire:
    """Return what the current branch follows, whatever it is called."""
    branch = _current_branch(head)
    if (
        head.remote is None
        or head.remote == "."
        or head.remote_branch is None
        or head.tracking_ref is None
    ):
        advice = f"git push --set-upstream origin {branch}"
        raise UserError(f'branch "{branch}" has no upstream configured', hint=advice)
    return Wire(head.remote, head.remote_branch, head.tracking_ref)


def _current_branch(head: Head) -> str:
    if head.branch is None:
        raise UserError(
            "detached HEAD (no current branch)",
            hint="check out the bridge's branch first",
        )
    return head.branch


def push(clone: Clone, wire: Wire, commit: str) -> Pushed | Raced:
    """Send one commit to the wire branch, if that is where this clone last saw it.

    A branch that was set back would take the commit too, and with it what was
    removed there.
    """
    answer = clone.git.read(
        "for-each-ref",
        "--format=%(objectname)",
        f"--merged={commit}",
        wire.tracking_ref,
    )
    seen = answer.text.strip() or None
    if seen:
        was_set_back = bool(gone_from_remote(clone, commit, seen))
    else:
        was_set_back = local_ref(clone, wire.tracking_ref) is not None
    if was_set_back:
        return Raced("[rejected] (non-fast-forward)")
    report = push_ref(
        clone, wire.remote, commit, f"{_BRANCHES}{wire.branch}", lease=seen
    )
    if report.taken:
        return Pushed(commit)
    if report.raced:
        # The words for a push without a lease.
        return Raced(report.reason.replace("stale info", "fetch first"))
    raise PushFailed(wire.remote, wire.branch, report.reason)


def fetch(clone: Clone, wire: Wire) -> str:
    """Fetch the wire branch and the freezes and return the commit the branch is at."""
    before = local_ref(clone, wire.tracking_ref)
    answer = _fetch(clone, wire)
    if answer.code != 0 and clear_stale_locks(clone, answer):
        answer = _fetch(clone, wire)
    if answer.code != 0:
        raise FetchFailed(wire.remote, answer.stderr)
    keep(clone.location.private_dir / _FETCHED, "")
    fetched = f"{wire.tracking_ref}^{{commit}}"
    found = clone.git.read("rev-parse", "--verify", fetched).text.strip()
    if before is not None and not is_ancestor(clone.git, before, found):
        keep(clone.location.private_dir / _REPLACED, before)
    return found


def gone_from_remote(clone: Clone, head: str, remote_head: str) -> list[str]:
    """Return the commits of `head` that the remote has lost, newest first.

    There are some if somebody rewrote history.
    """
    replaced = clone.location.private_dir / _REPLACED
    try:
        content = read_bounded(replaced, _MAX_ID_BYTES)
    except FileError:
        return []
    before = content.decode("ascii", "replace").strip()
    ours = merge_base(clone.git, head, before)
    if ours is None:
        return []
    answer = clone.git.read("rev-list", ours, f"^{remote_head}", "--")
    return answer.text.split()


def last_fetch_ms(clone: Clone) -> int | None:
    """Return when a fetch last succeeded, of ours or by hand."""
    fetched_here = clone.location.private_dir / _FETCHED
    fetched_by_hand = clone.location.git_dir / "FETCH_HEAD"
    moments: list[int] = []
    for trace in (fetched_here, fetched_by_hand):
        with suppress(OSError):
            moments.append(trace.stat().st_mtime_ns // 1_000_000)
    return max(moments, default=None)


def _fetch(clone: Clone, wire: Wire) -> GitAnswer:
    # Nothing but these is pruned.
    branch = f"+{_BRANCHES}{wire.branch}:{wire.tracking_ref}"
    return clone.git.ask(
        *_FETCH,
        wire.remote,
        branch,
        FETCHED_FREEZES,
        timeout_seconds=NETWORK_TIMEOUT_SECONDS,
    )


def clear_stale_locks(clone: Clone, refused: GitAnswer) -> bool:
    """Remove the locks that a refusal names if they are old.

    Return whether there were any, so that it makes sense to try again.
    """
    named = {Path(name) for name in _BLOCKED.findall(refused.stderr)}
    ours = tuple(f"{clone.location.common_dir}/{place}" for place in _OURS_TO_CLEAR)
    found_stale = False
    for lock in named:
        is_ours = str(lock).startswith(ours) and ".." not in lock.parts
        if is_ours and _is_stale(lock):
            lock.unlink(missing_ok=True)
            found_stale = True
    return found_stale


def _is_stale(lock: Path) -> bool:
    try:
        return time.time() - lock.lstat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return True  # it was given back meanwhile


def fast_forward(clone: Clone, head: Head, commit: str) -> InTheWay | None:
    """Move branch, index and work tree to `commit`, a descendant of HEAD.

    Return the files that are in the way, if there are any; then nothing is moved.
    """
    if head.commit is None:
        raise GitFailed(
            "the branch has no commit yet, so there is nothing to fast-forward"
        )
    changes = diff(clone.git, head.commit, commit)
    arriving = [change for change in changes if change.status in "ARC"]
    # What an earlier pull had written when it was cut off.
    leftovers = [
        change.path
        for change in arriving
        if clone.has_beginning_of(change.blob, change.path)
    ]
    found = {_blocker(clone, change.path) for change in arriving}
    blockers = {path for path in found if path is not None} - set(leftovers)
    if blockers:
        return InTheWay(tuple(sorted(blockers)))
    if leftovers:
        _remove(clone, leftovers)
    return _merge(clone, commit, changes)


def _merge(clone: Clone, commit: str, changes: Iterable[PathChange]) -> InTheWay | None:
    """Let git move to a commit, over files that an earlier pull had half written."""
    answer = clone.git.ask(*_MERGE, commit, shielded=True)
    refused = _files_named(answer)
    if answer.code != 0 and refused:
        blobs = {change.path: change.blob for change in changes if change.status == "M"}
        if not all(_was_half_written(clone, path, blobs.get(path)) for path in refused):
            return InTheWay(refused)
        clone.write_index("checkout-index", "--force", "--", *refused)
        answer = clone.git.ask(*_MERGE, commit, shielded=True)
    require_success("merge", answer)
    return None


def _remove(clone: Clone, paths: list[str]) -> None:
    """Remove files from the index and the work tree."""
    answer = clone.write_index("update-index", "--force-remove", "--", *paths)
    require_success("update-index", answer)
    for path in paths:
        (clone.location.top_level / path).unlink(missing_ok=True)


def _files_named(answer: GitAnswer) -> tuple[str, ...]:
    """Return the files that git refuses to overwrite, one per line behind a tab."""
    lines = answer.stderr.splitlines()
    return tuple(line.strip() for line in lines if line.startswith("\t"))


def _was_half_written(clone: Clone, path: str, blob: str | None) -> bool:
    """Return whether a pull was killed while it replaced this file with `blob`.

    An empty file was more likely emptied by its owner.
    """
    if blob is None or clone.blob_on_disk(path) == clone.blob_id(b""):
        return False
    return clone.has_beginning_of(blob, path)


def _blocker(clone: Clone, path: str) -> str | None:
    """Return what lies where a new file would go and is not ours to lose.

    That is the path itself, or a file above it. Links git finds by itself.
    """
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        place = clone.location.top_level.joinpath(*parts[:depth])
        is_directory_above = depth < len(parts) and place.is_dir()
        if place.exists() and not is_directory_above:
            return "/".join(parts[:depth])
    return None
