"""Whether a path that came out of a state file may be written to (flows §10): paths in files are hostile."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bridgehead.flows.errors import UnsafePath

_PRIVATE = frozenset({".git", ".bridgehead"})


def refuse_unsafe_output(output_path: str, root: Path, allowed: Iterable[Path]) -> None:
    """Raise UnsafePath unless `output_path` lies below the root or another directory the user has named."""
    reason = _fault(output_path, root, allowed)
    if reason is not None:
        raise UnsafePath("output_path", output_path, reason)


def refuse_other_project(project_path: str, root: Path) -> None:
    """Raise UnsafePath when a state says it belongs to another directory than the one it lies in."""
    if "\0" in project_path or os.path.realpath(project_path) != str(root):
        raise UnsafePath("project_path", project_path, f"it is not {root}")


def _fault(output_path: str, root: Path, allowed: Iterable[Path]) -> str | None:
    if "\0" in output_path or not output_path.isprintable():
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
