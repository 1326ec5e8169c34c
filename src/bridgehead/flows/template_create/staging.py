"""Build a package in a directory of its own, then move it into place (flows §11)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from bridgehead.flows.errors import FlowMistake
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import Refusal
from bridgehead.host.files import read_bounded, write_atomic

LARGEST_BYTES = 1024 * 1024


class Staging:
    """The unfinished package of a run, beside its final place."""

    def __init__(self, output: Path, flow_id: str) -> None:
        self.output = output
        named = output if output.name else output.absolute()
        self.path = named.parent / f"{named.name}.staging-{flow_id}"
        self._replaced = named.parent / f"{named.name}.replaced-{flow_id}"

    @classmethod
    def installed(cls, output: Path) -> Staging:
        """A package that is in its place, to be read like one that is not yet."""
        package = cls(output, "")
        package.path = output
        return package

    def write(self, files: Mapping[str, str]) -> None:
        """Put files into the package, by their paths in it."""
        make_dir(self.path)
        for name, text in files.items():
            target = self.path / name
            make_dir(target.parent, root=self.path)
            write_atomic(target, text, root=self.path)

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if it is missing or not text."""
        try:
            return read_bounded(
                self.path / name, LARGEST_BYTES, root=self.path
            ).decode()
        except (Refusal, UnicodeDecodeError):
            return None

    def agents(self) -> dict[str, str]:
        """Return the texts of the agent files, by name."""
        folder = self.path / "agents"
        if not folder.is_dir():
            return {}
        names = sorted(path.stem for path in folder.iterdir() if path.suffix == ".md")
        return {
            name: text
            for name in names
            if (text := self.read(f"agents/{name}.md")) is not None
        }

    def is_installed(self, manifest: str) -> bool:
        """Return whether this package is in place already.

        It is if the process died after the move, before that was recorded.
        """
        try:
            return (
                read_bounded(self.output / "manifest.json", LARGEST_BYTES)
                == manifest.encode()
            )
        except Refusal:
            return False

    def install(self, *, force: bool) -> None:
        """Rename the package into place; only then remove what was there."""
        # What a killed process had half written is no part of the package.
        for leftover in self.path.rglob(".*.tmp"):
            leftover.unlink()
        if os.path.lexists(self.output):
            refuse_taken(self.output, force)
            self.output.rename(self._replaced)
        self.path.rename(self.output)
        self.remove_replaced()

    def remove_replaced(self) -> None:
        """Remove the package that was replaced."""
        shutil.rmtree(self._replaced, ignore_errors=True)

    def abandon(self) -> None:
        """Remove the unfinished package, and restore one that was moved aside."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._replaced.is_dir() and not os.path.lexists(self.output):
            self._replaced.rename(self.output)


def refuse_taken(output: Path, force: bool) -> None:
    """Raise unless the package may be put at `output`."""
    try:
        found = os.lstat(output)
    except FileNotFoundError:
        return
    if not force:
        hint = "give another directory with --output, or replace it with --force"
        raise FlowMistake(f"{output} already exists", hint=hint)
    if not stat.S_ISDIR(found.st_mode):
        raise FlowMistake(
            f"{output} is not a directory, so --force does not replace it"
        )
