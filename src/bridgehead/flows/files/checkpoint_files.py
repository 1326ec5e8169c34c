"""Read, write and move the files in a flow's root (flows §5, §10).

Files are read as untrusted, written atomically, and moved aside rather than deleted.
`RunFiles` stands for what a run writes besides request and response. Most flows write
nothing else, as their state is in the journal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
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

_CHECKPOINT_NAMES: Final = "|".join(map(re.escape, CHECKPOINT_FILES))
_LEFTOVER: Final = rf"\.(?:{_CHECKPOINT_NAMES})\.([0-9]+)\.[0-9a-f]{{16}}\.tmp"


class Unsafe:
    """The reason why a file that exists is not trusted.

    `uid` is set if only the owner of the file is wrong.
    """

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
        """Whose answers are accepted; None for the allowed owners of the root."""
        self.size_limits = size_limits
        """The most bytes a file may have, by name."""

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
        """Return the content of a file, or why it is not trusted; None without a file.

        A trusted file is regular, has one link, a trusted owner and no excessive size.
        """
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
        """Read as `read` does, but wait for a writer that is not atomic (R8).

        A recent file that cannot be parsed is read again, a few times.
        """
        for _ in range(SETTLE_TRIES):
            content = self._read_answer(path, accept_foreign_owner)
            if not self._is_unsettled(path, content):
                return content
            self.clock.sleep(SETTLE_PAUSE_SECONDS)
        return self._read_answer(path, accept_foreign_owner)

    def _read_answer(
        self, path: Path, accept_foreign_owner: bool
    ) -> bytes | Unsafe | None:
        owners = self.response_owners
        if owners is None:
            owners = self.root.allowed_owners
        content = self.read(path, owners=owners)
        uid = content.uid if isinstance(content, Unsafe) else None
        if uid is None or not accept_foreign_owner:
            return content
        log_warning(
            f"{path} belongs to uid {uid}; accepted because of --accept-foreign-owner"
        )
        return self.read(path, owners=owners | {uid})

    def _is_unsettled(self, path: Path, content: bytes | Unsafe | None) -> bool:
        if content is None or _is_final(content):
            return False
        try:
            modified = os.lstat(path).st_mtime
        except OSError:
            return False
        return self.clock.now().timestamp() - modified < SETTLE_AGE_SECONDS

    def written_at(self, path: Path) -> datetime:
        """Return when a file was last written; the present time if it is gone."""
        try:
            return datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
        except OSError:
            return self.clock.now()

    def response_paths(self) -> list[Path]:
        """Return the files that hold answers.

        They are the response file, which handlers write, and those in the inbox, with
        answers to requests that are still queued.
        """
        paths = [self.response_path]
        inbox = self.root.inbox
        if inbox.is_dir() and not inbox.is_symlink():
            paths += sorted(inbox.glob("*.json"))
        return [path for path in paths if os.path.lexists(path)]

    def write(self, path: Path, document: Mapping[str, Any]) -> None:
        write_atomic(path, file_bytes(document), private=True, root=self.root.path)

    def remove(self, path: Path) -> None:
        """Delete a file durably; do nothing if it is gone already."""
        with suppress(FileMissing), translated(path, "removed"):
            path.unlink()
            _sync(path.parent)

    def reject(self, path: Path, reason: str) -> None:
        """Move a file of any kind that answers nothing to rejected/."""
        make_private_dir(self.root.rejected, root=self.root.path)
        name = f"{self._stamp()}-{os.urandom(4).hex()}-{path.name}"
        target = self.root.rejected / name
        with suppress(FileMissing), translated(path, "moved"):
            path.rename(target)
            log_warning(f"{path.name} was moved to {target}: {reason}")

    def archive_orphans(self) -> None:
        """Move away a request and answers that belong to no run."""
        for path in (self.request_path, *self.response_paths()):
            if os.path.lexists(path):
                self.reject(path, "no paused flow claims it")

    def clean_up(self) -> list[Path]:
        """Delete the three files; return those left for not being regular files."""
        return [path for path in self._movable() if not _dispose(path, path.unlink)]

    def move_to_post_mortem(self, flow_id: str) -> Path:
        """Move the three files, as far as they exist, to a new folder in post-mortem/.

        Only the newest folders are kept. Return the new one.
        """
        folder = self.root.post_mortem / f"{self._stamp()}-{flow_id}"
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
        """Delete temporary files of processes that are gone (flows §10)."""
        for path in self.root.path.glob(".*.tmp"):
            match = re.fullmatch(_LEFTOVER, path.name)
            if match and not is_alive(int(match[1])):
                with suppress(OSError):
                    path.unlink()

    def _movable(self) -> list[Path]:
        paths = [self.root.path / name for name in CHECKPOINT_FILES]
        return [path for path in paths if os.path.lexists(path)]

    def _stamp(self) -> str:
        return f"{self.clock.now():%Y%m%dT%H%M%S.%fZ}"


def _is_final(content: bytes | Unsafe) -> bool:
    """Return whether more writing would not make the file readable."""
    if isinstance(content, Unsafe):
        return content.uid is not None
    try:
        read_object(content)
    except Unreadable:
        return False
    return True


def _dispose(path: Path, act: Callable[[], object]) -> bool:
    """Call `act` if the file is regular, else warn; return whether it was disposed of.

    A file that is gone already counts as disposed of.
    """
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
    with opened_directory(directory) as handle, suppress(OSError):
        os.fsync(handle)


NOT_RESTORED: Final = object()


class RunFiles:
    """What a run writes besides request and response.

    This base class writes nothing and restores nothing; `StateFile` writes the
    published state file.
    """

    def enter(self, number: int, name: str) -> None:
        """Note that the run has entered a phase."""

    def has_completed(self, number: int) -> bool:
        """Return whether it has been noted that the phase ended."""
        return True

    def complete(
        self, number: int, name: str, key: str | None, result: Any, summary: str
    ) -> None:
        """Note that a phase has ended; its result is kept under `key`."""

    def remember(self, key: str, value: Any) -> None:
        """Keep a value, beside the results of phases."""

    def note_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Note that requests are new or have changed."""

    def note_result(self, path: str, result: str | None) -> None:
        """Note the result of a call in the present phase; None if the call failed."""

    def request_context(self) -> Mapping[str, Any]:
        """Return what every request of the run has in its context."""
        return {}

    def save(self) -> None:
        """Write what was noted; the journal has it already."""

    def restored_phase(self, number: int, key: str | None) -> Any:
        """Return the result of a phase as restored from the file.

        Return NOT_RESTORED if the phase has to be run.
        """
        return NOT_RESTORED

    def restored_result(self, path: str) -> str | None:
        """Return the restored result of a call in a phase that has not ended."""
        return None

    def restored_call(self, phase: int, phase_name: str, agent: str) -> Call | None:
        """Return the outstanding call restored from the file, if it matches.

        It is returned only once.
        """
        return None
