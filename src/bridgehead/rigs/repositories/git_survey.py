"""Look at a work tree: what git tracks, what differs from it, which names lie in the thread directories.

Two git processes run side by side and nothing is opened. Names come from the directories themselves, because ignored
files are envelopes too (rigs §2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from bridgehead.host.child import SignalsHeld
from bridgehead.rigs.filenames import is_thread_directory
from bridgehead.rigs.repositories.base import Survey
from bridgehead.rigs.repositories.git_command import Git, Running, demand
from bridgehead.rigs.repositories.git_status import ARGUMENTS, parse_status
from bridgehead.rigs.repositories.records import SYMLINK, TrackedFile
from bridgehead.rigs.repositories.work_tree import names_in

_MODE_END = 6


class GitSurvey(Survey):
    """One look; everything lazy is computed from what was seen then."""

    def __init__(self, git: Git, top_level: Path, thread: str | None) -> None:
        limits = ("--", thread) if thread else ("--",)
        index: Running | None = None
        try:
            with SignalsHeld():
                index = git.start("ls-files", "--stage", "-z", *limits)
            state = parse_status(demand("status", git.ask(*ARGUMENTS, *limits)).fields)
            self.index_text = demand("ls-files", index.answer()).text
        except BaseException:
            if index is not None:
                index.abandon()
            raise
        self.head = state.commit
        self.branch = state.branch
        self.ahead = state.ahead
        self.dirty = state.dirty
        self._top_level = top_level
        self._thread = thread

    def tracked(self) -> Mapping[str, TrackedFile]:
        return self._tracked

    def tracked_paths(self) -> set[str]:
        entries = self.index_text.split("\0")[:-1]
        start = entries[0].index("\t") + 1 if entries else 0  # mode, id and stage are as long in all of them
        return {entry[start:] for entry in entries}

    def names(self) -> Mapping[str, Sequence[str]]:
        return self._names

    @cached_property
    def _tracked(self) -> dict[str, TrackedFile]:
        files = {}
        for entry in self.index_text.split("\0")[:-1]:
            if entry.endswith(".md"):
                described, _, path = entry.partition("\t")
                blob = described[_MODE_END + 1 : -2] if described.endswith("0") else None
                files[path] = TrackedFile(blob, described.startswith(SYMLINK))
        return files

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        threads = [self._thread] if self._thread else names_in(self._top_level)
        found = (
            (thread, names_in(f"{self._top_level}/{thread}"))
            for thread in threads
            if is_thread_directory(thread)
        )
        return {thread: names for thread, names in found if names}
