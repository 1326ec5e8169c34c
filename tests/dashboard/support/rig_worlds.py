"""Clones of one bridge for pages to look at, made in this process: a rig command of its own would cost more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridgehead.assembly.rigs.clones import clone_id
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.rigs.operations.init import NewRequest, new
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.views.results import Sent
from dashboard.support.hostile import CORPUS
from support.rig_bridges import Bridge, Clone, make_bridge

HOSTILE = (*(text for text in CORPUS if text.isprintable()), "\u202egnp.exe")
"""What can stand on one line of an envelope."""
HOSTILE_LINE = " ".join(HOSTILE)
MARKUP = (*(text for text in HOSTILE if "<" in text), "\u202e")
"""What must not be found in a page as it stands."""


@contextmanager
def at_home(home: Path, record: Path) -> Iterator[pytest.MonkeyPatch]:
    """Let git and the record of everything in this process be those of a scratch home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("BRIDGEHEAD_HOME", str(record))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("TZ", "UTC")
        yield patch


@dataclass(frozen=True)
class Member:
    """One clone and the rig in it."""

    clone: Clone

    @property
    def root(self) -> str:
        return str(self.clone.path)

    @property
    def address(self) -> str:
        return f"/threads/{clone_id(self.root)}"

    def open(self, thread_id: str) -> None:
        new(make_rig(self.root, _nobody), NewRequest(thread_id))

    def send(
        self, kind: str, thread_id: str, to: str, text: str, **more: object
    ) -> Sent:
        """What `rig send` does; others' envelopes are pulled first, as people do."""
        self.pull()
        request = SendRequest(kind, thread_id, [to], body=lambda: text)
        return send(make_rig(self.root, _nobody), request._replace(**more))

    def pull(self) -> None:
        self.clone.git("pull", "-q", "--rebase")

    def commit_file(self, path: str, text: str) -> None:
        """What somebody without our tools does."""
        place = self.clone.path / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        self.clone.git("add", "--", path)
        self.clone.git("commit", "-q", "-m", "by hand")


@dataclass(frozen=True)
class RigWorld:
    bridge: Bridge
    mac: Member
    win: Member


def make_world(base: Path) -> RigWorld:
    base.mkdir(parents=True)
    bridge = make_bridge(base)
    mac = Member(bridge.clone("cuda-bridge", "mac-m5max"))
    return RigWorld(bridge, mac, Member(bridge.clone("far", "win-5080")))


def hostile_envelope(thread_id: str) -> str:
    """An envelope of which every field is an attack."""
    quoted = HOSTILE_LINE.replace("'", "''")
    fields = (
        "from",
        "to",
        "date",
        "status",
        "type",
        "display_name",
        "tldr",
        "in_reply_to",
        "extra",
    )
    lines = [f"{name}: '{quoted} {name}'" for name in fields]
    return "\n".join(
        ["---", *lines, f"thread: {thread_id}", "---", HOSTILE_LINE, "the end", ""]
    )


def _nobody(_text: str) -> None:
    return None
