"""What one command works with: places, settings, trust, the record.

Each is made when first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from bridgehead.config.declared import Value
from bridgehead.config.files import TrustedFiles, load_settings
from bridgehead.config.places import Places, find_places
from bridgehead.config.resolve import Settings
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.host.clock import SystemClock, iso_ms

if TYPE_CHECKING:
    from bridgehead.control_plane.stores.base import Store

PART_OF_NOUN = {
    "rig": Part.RIGS,
    "flow": Part.FLOWS,
    "council": Part.COUNCIL,
    "bus": Part.BUS,
}


class Assembly:
    """Everything one command may need, made when first asked for."""

    def __init__(
        self,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, Value] | None = None,
        *,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Without arguments: for this process, where it runs.

        `warn` gets each warning about settings.
        """
        self.cwd = cwd or Path.cwd()
        self.environ = os.environ if environ is None else environ
        self.flags = flags or {}
        self._warn = warn

    @cached_property
    def places(self) -> Places:
        return find_places(self.cwd, self.environ)

    @cached_property
    def settings(self) -> Settings:
        settings = load_settings(self.places, environ=self.environ, flags=self.flags)
        if self._warn is not None:
            for warning in settings.warnings:
                self._warn(warning)
        return settings

    @property
    def trusted_files(self) -> TrustedFiles:
        return TrustedFiles(self.places.trust_file)

    @property
    def project(self) -> str:
        """The project's root as events and pending items name it."""
        return str(self.places.project)

    @property
    def record_url(self) -> str:
        """Where the record is: the setting, or record.db in the user's data directory."""
        return self.settings.text("store.url") or str(self.places.record)

    def store(self, *, read_only: bool = False) -> Store:
        """Open the record.

        Read-only for commands that only list, so that they create nothing.
        """
        from bridgehead.control_plane.stores import open_store

        return open_store(self.record_url, read_only=read_only)


def event_now(
    project: str, kind: str, facts: Mapping[str, object], *, run_id: str | None = None
) -> Event:
    """Something that happened in `project` just now."""
    return Event(
        id=str(uuid4()),
        kind=kind,
        part=PART_OF_NOUN.get(kind.partition(".")[0], Part.RECORD),
        at=iso_ms(SystemClock().now()),
        project=project,
        run_id=run_id,
        data=dict(facts),
    )


def append_event(
    project: str,
    kind: str,
    facts: Mapping[str, object],
    *,
    run_id: str | None = None,
    assembly: Assembly | None = None,
) -> None:
    """Append what happened in `project` just now.

    `assembly` knows where the record is.
    """
    with (assembly or Assembly(Path(project))).store() as store:
        store.append([event_now(project, kind, facts, run_id=run_id)])
