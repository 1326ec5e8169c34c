"""`running.json` in the state folder: where the operator's door of the running bridge is, for its owner only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic

NAME: Final = "running.json"
MAX_BYTES: Final = 4096


class RunningBridge(msgspec.Struct, frozen=True):
    """A bridge that serves from this folder."""

    port: int
    """On loopback."""
    token: str
    pid: int
    join_url: str = ""
    """Where participants connect."""
    cert_sha256: str | None = None
    """The certificate it shows them, None for plain connections."""


def write_running(folder: Path, bridge: RunningBridge) -> None:
    write_atomic(folder / NAME, msgspec.json.encode(bridge), private=True)


def read_running(folder: Path) -> RunningBridge | None:
    """The bridge that wrote the file last, None without one; it may be gone meanwhile."""
    try:
        return msgspec.json.decode(read_bounded(folder / NAME, MAX_BYTES), type=RunningBridge)
    except (FileMissing, msgspec.DecodeError):
        return None


def running_url(folder: Path) -> str | None:
    """Where participants connect to the bridge that runs now, None when none does."""
    bridge = running_bridge(folder)
    return None if bridge is None else bridge.join_url or None


def running_bridge(folder: Path) -> RunningBridge | None:
    """The bridge that runs now; None when none does, or it died without a word."""
    bridge = read_running(folder)
    return bridge if bridge is not None and _lives(bridge.pid) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def remove_running(folder: Path, bridge: RunningBridge) -> None:
    """Take the file away unless another bridge has written its own."""
    if read_running(folder) == bridge:
        (folder / NAME).unlink(missing_ok=True)
