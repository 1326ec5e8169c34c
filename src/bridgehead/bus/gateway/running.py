"""`running.json`: where the bridge of a state folder listens, for whoever asks it.

Nothing here needs the extra `bus`: a council and the dashboard look whether a bridge
runs, also on a machine that has none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bridgehead.bus.access.join_file import Pin
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.host.locks import is_alive

NAME: Final = "running.json"
MAX_BYTES: Final = 4096


class ChatLink(msgspec.Struct, frozen=True):
    """Opens the chat page, once."""

    url: str


class SpeakRequest(msgspec.Struct, frozen=True):
    """Words for everybody, for a site, or a question for one participant."""

    text: str
    lang: str | None = None
    site: str | None = None
    participant: str | None = None
    wait_s: float = 120.0


class RunningBridge(msgspec.Struct, frozen=True):
    """A bridge that serves from this folder."""

    port: int
    """On loopback."""
    token: str
    pid: int
    join_url: str = ""
    """Where participants connect."""
    pin: Pin = Pin()
    """What they recognise it by."""
    hub_address: str = ""
    """Of its own hub, where it has one."""


def write_running(folder: Path, bridge: RunningBridge) -> None:
    write_atomic(folder / NAME, msgspec.json.encode(bridge), private=True)


def read_running(folder: Path) -> RunningBridge | None:
    """Return the bridge that wrote the file last, None without one.

    It may be gone meanwhile.
    """
    try:
        return msgspec.json.decode(
            read_bounded(folder / NAME, MAX_BYTES), type=RunningBridge
        )
    except (FileMissing, msgspec.DecodeError):
        return None


def running_url(folder: Path) -> str | None:
    """Return where participants connect to the bridge that runs now, None when none
    does.
    """
    bridge = running_bridge(folder)
    return None if bridge is None else bridge.join_url or None


def running_bridge(folder: Path) -> RunningBridge | None:
    """Return the bridge that runs now.

    None when none does, or it died without a word.
    """
    bridge = read_running(folder)
    return bridge if bridge is not None and is_alive(bridge.pid) else None
