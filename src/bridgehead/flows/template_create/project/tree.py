"""Look at a project on disk, within bounds: what git knows of it, else a walk. Never through symbolic links.

Files that git ignores, that look binary, that are named like secrets or hold what looks like one are not read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bridgehead.flows.template_create.project.dependencies import (
    LOCK_FILES,
    is_dependency_file,
)
from bridgehead.flows.template_create.project.heuristics import Material
from bridgehead.flows.template_create.project.languages import language_of
from bridgehead.flows.template_create.project.sampling import (
    choose_samples,
    is_excluded,
)
from bridgehead.host.command import Command
from bridgehead.host.file_errors import Refusal
from bridgehead.host.files import read_bounded
from bridgehead.host.process import run
from bridgehead.host.secrets_scan import scan

MOST_FILES: Final = 20_000
MOST_READ: Final = 160
MOST_DEPENDENCY_FILES: Final = 40
LARGEST_BYTES: Final = 64 * 1024
MOST_SOURCE_BYTES: Final = 4 * 1024 * 1024
_GIT_SECONDS: Final = 30.0


def look_at(root: Path, leave_out: Path) -> Material:
    """List the project and read what the analysis needs; `leave_out` is a directory of our own making."""
    ours = _below(root, leave_out)
    sizes = dict(_sizes(root))
    if ours:
        sizes = {
            path: size
            for path, size in sizes.items()
            if not path.startswith(f"{ours}/")
        }
    samples = choose_samples(sizes)
    wanted = [path for path in sizes if is_dependency_file(path)]
    paths = [*wanted[:MOST_DEPENDENCY_FILES], *samples, *_survey(sizes)]
    texts = {**dict(_texts(root, paths)), **dict(_locks(root))}
    shown = [path for path in samples if path in texts]
    return Material(sorted(sizes), texts, shown, root.name)


def read_sources(root: Path, first: Iterable[str], leave_out: Path) -> dict[str, str]:
    """Return the texts of `first`, then of every source file, then of others, as far as there is room."""
    paths = look_at(root, leave_out).paths
    sources = [path for path in paths if language_of(path) or is_dependency_file(path)]
    texts: dict[str, str] = {}
    room = MOST_SOURCE_BYTES
    for path, text in _texts(root, [*first, *sources, *paths]):
        room -= len(text)
        if room < 0:
            break
        texts[path] = text
    return texts


def read_text(root: Path, path: str) -> str | None:
    """A file's text; None when it is not to be read: too large, not text, a link, or it looks like a secret."""
    if is_excluded(path):
        return None
    try:
        text = read_bounded(root / path, LARGEST_BYTES, root=root).decode("utf-8-sig")
    except (Refusal, UnicodeDecodeError):
        return None
    return None if "\0" in text or scan(text) else text


def _texts(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in dict.fromkeys(paths):
        text = read_text(root, path)
        if text is not None:
            yield path, text


def _locks(root: Path) -> Iterator[tuple[str, str]]:
    """The lock files at the root: read for their versions, never shown and never a template."""
    for name in LOCK_FILES:
        try:
            yield name, read_bounded(root / name, MOST_SOURCE_BYTES, root=root).decode()
        except (Refusal, UnicodeDecodeError):
            continue


def _survey(sizes: dict[str, int]) -> list[str]:
    """Return source files to read for conventions, evenly over the whole project."""
    readable = [path for path, size in sizes.items() if size <= LARGEST_BYTES]
    sources = sorted(filter(language_of, readable))
    step = max(1, len(sources) // MOST_READ)
    return sources[::step][:MOST_READ]


def _sizes(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the regular files that may be looked at, with their sizes."""
    listed = _listed_by_git(root)
    count = 0
    for path in _walked(root) if listed is None else listed:
        if is_excluded(path) or not path.isprintable():
            continue
        try:
            found = os.lstat(root / path)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            yield path, found.st_size
            count += 1
        if count >= MOST_FILES:
            return


def _listed_by_git(root: Path) -> list[str] | None:
    """What git tracks or would track below `root`; None where git does not answer."""
    options = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = run(
        Command(("git", *options, "-C", str(root), *words)),
        timeout_seconds=_GIT_SECONDS,
        idle_seconds=None,
    )
    if listed.exit_code != 0 or listed.stdout_truncated:
        return None
    return sorted({name for name in listed.text().split("\0") if name})


def _walked(root: Path) -> Iterator[str]:
    """Yield every file below `root`, sorted, not going through links or into excluded directories."""
    for directory, directories, names in os.walk(root, followlinks=False):
        entered = [name for name in directories if not is_excluded(f"{name}/x")]
        directories[:] = sorted(entered)
        for name in sorted(names):
            yield Path(directory, name).relative_to(root).as_posix()


def _below(root: Path, path: Path) -> str | None:
    """Return `path` relative to the root, with slashes; None if it is not inside."""
    if not path.is_relative_to(root) or path == root:
        return None
    return path.relative_to(root).as_posix()
