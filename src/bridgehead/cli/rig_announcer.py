"""Hands what a rig did to the record, after the git work is done. The record is never needed (rigs §14.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class LateAnnouncer:
    """Opens the record only when there is something to say, so that other commands pay nothing for it."""

    def __init__(self, project: str, *, warn: Callable[[str], None]) -> None:
        self._project = project
        self._warn = warn

    def announce(self, kind: str, facts: Mapping[str, object]) -> None:
        from bridgehead.errors import BridgeheadError

        try:
            from bridgehead.assembly.announcing import append_event

            append_event(self._project, kind, facts)
        except BridgeheadError as error:
            self._warn(f"not recorded: {error.message}")
