"""Whether a path that came out of a state file may be written to (flows §10): paths in files are hostile."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from bridgehead.flows.errors import UnsafePath

_PRIVATE = frozenset({".git", ".bridgehead"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def refuse_unsafe_output(output_path: str, root: Path, allowed: Iterable[Path]) -> None:
    """Raise UnsafePath unless `output_path` lies below the root or another directory the user has named."""
    reason = _fault(output_path, root, allowed)
    if reason is not None:
        raise UnsafePath("output_path", output_path, reason)


def refuse_other_project(project_path: str, root: Path) -> None:
    """Raise UnsafePath when a state says it belongs to another directory than the one it lies in."""
    if not Path(project_path).is_absolute() or not same_place(project_path, str(root)):
        raise UnsafePath("project_path", project_path, f"it is not {root}")


def same_place(one: str, other: str) -> bool:
    """Whether two spellings lead to the same place; text that no file can be named by leads nowhere."""
    return one == other or (
        is_path(one) and is_path(other) and os.path.realpath(one) == os.path.realpath(other)
    )


def is_path(text: str) -> bool:
    """Whether a file can have that name: the system can spell it, and nothing in it moves a terminal's cursor."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return not _CONTROL.search(text)


def _fault(output_path: str, root: Path, allowed: Iterable[Path]) -> str | None:
    if not is_path(output_path):
        return "it contains control characters"
    if not Path(output_path).is_absolute():
        return "it is not absolute"
    if ".." in output_path.split("/"):
        return "it contains '..'"
    # realpath follows the links of the part that exists and keeps the rest.
    resolved = Path(os.path.realpath(output_path))
    if resolved == root:
        return "it is the project itself"
    if resolved.is_relative_to(root) and not _PRIVATE.isdisjoint(resolved.relative_to(root).parts):
        return "it lies inside a directory of git or bridgehead"
    if not any(resolved.is_relative_to(os.path.realpath(directory)) for directory in (root, *allowed)):
        return f"it lies neither below {root} nor in a directory named on the command line"
    return None
