"""The files in a flow's root: read as hostile, written whole, moved aside instead of lost (flows §5, §10).

`RunFiles` is what a run leaves there besides the pair; most flows leave nothing: their state is in the journal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import FileError
from bridgehead.flows.calls import Attempt, Call
from bridgehead.flows.errors import log_warning
from bridgehead.flows.files.json_bytes import Unreadable, file_bytes, read_object
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.words import (
    CHECKPOINT_FILES,
    REQUEST_FILE,
    RESPONSE_FILE,
    STATE_FILE,
)
from bridgehead.host.clock import Clock, SystemClock
from bridgehead.host.directories import make_private_dir, opened_directory
from bridgehead.host.file_errors import FileMissing, translated
from bridgehead.host.files import opened_regular, write_atomic
from bridgehead.host.locks import is_alive

MIB: Final = 1024 * 1024
SIZE_LIMITS: Final = {
    REQUEST_FILE: 16 * MIB,
    RESPONSE_FILE: 16 * MIB,
    STATE_FILE: 64 * MIB,
}
POST_MORTEMS_KEPT: Final = 10

SETTLE_TRIES: Final = 5
SETTLE_PAUSE_SECONDS: Final = 0.2
SETTLE_AGE_SECONDS: Final = 2.0

_LEFTOVER: Final = rf"\.(?:{'|'.join(map(re.escape, CHECKPOINT_FILES))})\.([0-9]+)\.[0-9a-f]{{16}}\.tmp"


class Unsafe:
    """A file that is there and is not to be believed. `uid` is set when only its owner is wrong."""

    def __init__(self, reason: str, uid: int | None = None) -> None:
        self.reason = reason
        self.uid = uid


class CheckpointFiles:
    """The three files of one root, and the folders they are moved to."""

    def __init__(
        self,
        root: FlowRoot,
        clock: Clock | None = None,
        response_owners: frozenset[int] | None = None,
        size_limits: Mapping[str, int] = SIZE_LIMITS,
    ) -> None:
        self.root = root
        self.clock = SystemClock() if clock is None else clock
        self.response_owners = response_owners
        """Whose answers are taken; the allowed owners of the root unless given."""
        self.size_limits = size_limits
        """The bytes a file may have, by its name."""

    @property
    def request_path(self) -> Path:
        return self.root.path / REQUEST_FILE

    @property
    def response_path(self) -> Path:
        return self.root.path / RESPONSE_FILE

    @property
    def state_path(self) -> Path:
        return self.root.path / STATE_FILE

    def read(
        self, path: Path, *, owners: frozenset[int] | None = None
    ) -> bytes | Unsafe | None:
        """The bytes of a regular file with one link and a believable owner; None when there is no file."""
        limit = self.size_limits.get(path.name, self.size_limits[RESPONSE_FILE])
        believed = self.root.allowed_owners if owners is None else owners
        try:
            with opened_regular(path, root=self.root.path) as handle:
                found = os.fstat(handle)
                if found.st_nlink != 1:
                    return Unsafe("it has more than one link")
                if found.st_uid not in believed:
                    return Unsafe(
                        f"foreign_owner: it belongs to uid {found.st_uid}",
                        uid=found.st_uid,
                    )
                if found.st_size > limit:
                    return Unsafe(f"too_large: it has more than {limit} bytes")
                content = bytearray()
                while chunk := os.read(handle, MIB):
                    content += chunk
                    if len(content) > limit:
                        return Unsafe(f"too_large: it has more than {limit} bytes")
                return bytes(content)
        except FileMissing:
            return None
        except FileError as error:
            return Unsafe(error.message)

    def read_response(
        self, path: Path, *, accept_foreign_owner: bool = False
    ) -> bytes | Unsafe | None:
        """Like `read`, patient with a writer that is not atomic: a young unreadable file is read again (R8)."""
        for _ in range(SETTLE_TRIES):
            content = self._read_answer(path, accept_foreign_owner)
            if not self._is_unsettled(path, content):
                break
            self.clock.sleep(SETTLE_PAUSE_SECONDS)
        return (
            self._read_answer(path, accept_foreign_owner)
            if self._is_unsettled(path, content)
            else content
        )

    def _read_answer(
        self, path: Path, accept_foreign_owner: bool
    ) -> bytes | Unsafe | None:
        owners = (
            self.root.allowed_owners
            if self.response_owners is None
            else self.response_owners
        )
        content = self.read(path, owners=owners)
        if (
            accept_foreign_owner
            and isinstance(content, Unsafe)
            and content.uid is not None
        ):
            log_warning(
                f"{path} belongs to uid {content.uid}; accepted because of "
                "--accept-foreign-owner"
            )
            return self.read(path, owners=owners | {content.uid})
        return content

    def _is_unsettled(self, path: Path, content: bytes | Unsafe | None) -> bool:
        if content is None or (isinstance(content, Unsafe) and content.uid is not None):
            return False
        if isinstance(content, bytes):
            try:
                read_object(content)
            except Unreadable:
                pass
            else:
                return False
        try:
            modified = os.lstat(path).st_mtime
        except OSError:
            return False
        return self.clock.now().timestamp() - modified < SETTLE_AGE_SECONDS

    def written_at(self, path: Path) -> datetime:
        """Return when a file was last written; now, if it is gone."""
        try:
            return datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
        except OSError:
            return self.clock.now()

    def response_paths(self) -> list[Path]:
        """Where answers may lie: the one file handlers know, and the inbox for requests still in the queue."""
        inbox = self.root.inbox
        waiting = (
            sorted(inbox.glob("*.json"))
            if inbox.is_dir() and not inbox.is_symlink()
            else []
        )
        return [
            path for path in (self.response_path, *waiting) if os.path.lexists(path)
        ]

    def write(self, path: Path, document: Mapping[str, Any]) -> None:
        write_atomic(path, file_bytes(document), private=True, root=self.root.path)

    def remove(self, path: Path) -> None:
        """Unlink, durably; fine when it is gone already."""
        with suppress(FileMissing), translated(path, "removed"):
            path.unlink()
            _sync(path.parent)

    def reject(self, path: Path, reason: str) -> None:
        """Move an answer that answers nothing into rejected/, whatever kind of file it is."""
        make_private_dir(self.root.rejected, root=self.root.path)
        target = (
            self.root.rejected
            / f"{self.clock.now():%Y%m%dT%H%M%S.%fZ}-{os.urandom(4).hex()}-{path.name}"
        )
        with suppress(FileMissing), translated(path, "moved"):
            path.rename(target)
            log_warning(f"{path.name} was moved to {target}: {reason}")

    def archive_orphans(self) -> None:
        """Move away a request and answers that belong to no outstanding call."""
        for path in (self.request_path, *self.response_paths()):
            if os.path.lexists(path):
                self.reject(path, "no paused flow claims it")

    def clean_up(self) -> list[Path]:
        """Remove the three files; the ones that are not regular files are left, and returned."""
        return [path for path in self._movable() if not _dispose(path, path.unlink)]

    def move_to_post_mortem(self, flow_id: str) -> Path:
        """Move what is there of the three files to a new folder in post-mortem/; the newest ten are kept."""
        folder = (
            self.root.post_mortem / f"{self.clock.now():%Y%m%dT%H%M%S.%fZ}-{flow_id}"
        )
        make_private_dir(folder, root=self.root.path)
        for path in self._movable():
            _dispose(path, partial(path.rename, folder / path.name))
        _sync(self.root.path)
        for old in sorted(self.root.post_mortem.iterdir())[:-POST_MORTEMS_KEPT]:
            with suppress(OSError):
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()
        return folder

    def sweep(self) -> None:
        """Remove half-written files of processes that are gone (flows §10)."""
        for path in self.root.path.glob(".*.tmp"):
            match = re.fullmatch(_LEFTOVER, path.name)
            if match and not is_alive(int(match[1])):
                with suppress(OSError):
                    path.unlink()

    def _movable(self) -> Iterator[Path]:
        return (
            self.root.path / name
            for name in CHECKPOINT_FILES
            if os.path.lexists(self.root.path / name)
        )


def _dispose(path: Path, act: Callable[[], object]) -> bool:
    """Act on a regular file; report one that is something else. True when nothing is left to report."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            log_warning(f"{path} is not a regular file and was left where it is")
            return False
        act()
    except FileNotFoundError:
        pass
    return True


def _sync(directory: Path) -> None:
    # Some file systems cannot sync a directory.
    with (
        opened_directory(directory) as handle,
        suppress(OSError),
    ):
        os.fsync(handle)


NOT_RESTORED: Final = object()


class RunFiles:
    """The base: nothing is written, nothing can be restored. `StateFile` keeps the published state file."""

    def enter(self, number: int, name: str) -> None:
        """The run is in that phase now."""

    def has_completed(self, number: int) -> bool:
        """Whether the end of that phase has been noted."""
        return True

    def complete(
        self, number: int, name: str, key: str | None, result: Any, summary: str
    ) -> None:
        """A phase has ended; `key` is where its result is kept."""

    def remember(self, key: str, value: Any) -> None:
        """Keep a value beside the results of phases."""

    def note_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Requests were made or have changed."""

    def note_result(self, path: str, result: str | None) -> None:
        """A call inside the present phase has ended; None when it failed."""

    def request_context(self) -> Mapping[str, Any]:
        """What every request says about the run."""
        return {}

    def save(self) -> None:
        """Write down what was noted; the journal has it already."""

    def restored_phase(self, number: int, key: str | None) -> Any:
        """The result of a phase known only from the file; NOT_RESTORED when it has to be run."""
        return NOT_RESTORED

    def restored_result(self, path: str) -> str | None:
        """The result of a call inside an unfinished phase, known only from the file."""
        return None

    def restored_call(self, phase: int, phase_name: str, agent: str) -> Call | None:
        """The outstanding call of that kind, known only from the file; given away once."""
        return None
