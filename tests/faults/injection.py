"""Fails one system call of a command and runs the next one: what `shim.c` does where there is a C compiler.

Without one, `PythonShim` fails the calls that our own code makes; SQLite and git are then left alone, and it is said.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

SHIM = Path(__file__).with_name("shim.c")
STATE_BYTES = 1024
PREFIX_AT, WHAT_AT = 20, 512
COMMAND_SECONDS = 120
CRASHED = 137


class Kind(IntEnum):
    COUNT = 0
    EIO = 1
    ENOSPC = 2
    EINTR = 3
    CRASH = 4
    TORN = 5


KINDS = (Kind.EIO, Kind.ENOSPC, Kind.EINTR, Kind.CRASH, Kind.TORN)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Injector:
    """One shim, one folder whose files it watches, commands run as forked children of this process."""

    def __init__(self, base: Path, state: Path, *, native: bool) -> None:
        self.folder = base / "work"
        self._base = base
        self._native = native
        with state.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), STATE_BYTES)

    def run(
        self, work: Callable[[], object], environ: Mapping[str, str], cwd: Path
    ) -> Done:
        """What `work` printed in a child of its own; it may end the process as commands do."""
        out, err = self._base / "out", self._base / "err"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(COMMAND_SECONDS)
                for stream, path in ((1, out), (2, err)):
                    os.dup2(
                        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                        stream,
                    )
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.environ.clear()
                os.environ.update(environ)
                if not self._native:
                    PythonShim(self._state).install()
                os.chdir(cwd)
                work()
                code = 0
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                with suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Done(
            code, out.read_text(errors="replace"), err.read_text(errors="replace")
        )

    @contextmanager
    def armed(self, kind: Kind, fail_at: int) -> Any:
        struct.pack_into("<5I", self._state, 0, 1, kind, fail_at, 0, 0)
        prefix = str(self.folder).encode()
        self._state[PREFIX_AT : PREFIX_AT + len(prefix) + 1] = prefix + b"\0"
        self._state[WHAT_AT : WHAT_AT + 1] = b"\0"
        try:
            yield
        finally:
            struct.pack_into("<I", self._state, 0, 0)

    @property
    def counted(self) -> int:
        return int(struct.unpack_from("<I", self._state, 12)[0])

    @property
    def hit(self) -> str | None:
        """The call that failed, None when it was never made."""
        if not struct.unpack_from("<I", self._state, 16)[0]:
            return None
        return (
            self._state[WHAT_AT:STATE_BYTES]
            .partition(b"\0")[0]
            .decode(errors="replace")
        )

    def keep(self) -> None:
        """What is in the folder now is what every point begins with."""
        shutil.rmtree(self._base / "template", ignore_errors=True)
        shutil.copytree(self.folder, self._base / "template", symlinks=True)

    def reset(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._base / "template", self.folder, symlinks=True)


# Calls of `os`, and whether they take room on the disk.
PYTHON_CALLS = {
    "open": True, "write": True, "fsync": False, "rename": False, "replace": False, "link": True, "unlink": False,
    "mkdir": True, "ftruncate": True,
}  # fmt: skip


class PythonShim:
    """Counts and fails the calls of `os`, in this process only."""

    def __init__(self, state: mmap.mmap) -> None:
        self._state = state

    def install(self) -> None:
        for name, fills in PYTHON_CALLS.items():
            setattr(os, name, self._counting(name, getattr(os, name), fills))

    def _counting(
        self, name: str, real: Callable[..., Any], fills: bool
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            armed, kind, fail_at, count, _ = struct.unpack_from("<5I", self._state, 0)
            prefix = self._state[PREFIX_AT:WHAT_AT].partition(b"\0")[0].decode()
            if not armed or not self._path(arguments, options).startswith(prefix + "/"):
                return real(*arguments, **options)
            struct.pack_into("<I", self._state, 12, count + 1)
            due = (
                count + 1 >= fail_at and fills
                if kind == Kind.ENOSPC
                else count + 1 == fail_at
            )
            if not due or not kind:
                return real(*arguments, **options)
            struct.pack_into("<I", self._state, 16, 1)
            what = f"{name} {self._path(arguments, options)}"[:400].encode() + b"\0"
            self._state[WHAT_AT : WHAT_AT + len(what)] = what
            if kind == Kind.TORN and name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            if kind in (Kind.CRASH, Kind.TORN):
                os._exit(CRASHED)
            number = {
                Kind.EIO: errno.EIO,
                Kind.ENOSPC: errno.ENOSPC,
                Kind.EINTR: errno.EINTR,
            }[Kind(kind)]
            if number == errno.EINTR and name in ("open", "write", "fsync"):
                return real(*arguments, **options)  # Python itself calls again
            raise OSError(number, os.strerror(number))

        return call

    @staticmethod
    def _path(arguments: tuple[Any, ...], options: Mapping[str, Any]) -> str:
        target = (
            arguments[1]
            if len(arguments) > 1 and isinstance(arguments[1], str | Path)
            else arguments[0]
        )
        handles = Path("/proc/self/fd")
        with suppress(OSError):
            if isinstance(target, int):
                return str((handles / str(target)).readlink())
            directory = options.get("dir_fd", options.get("dst_dir_fd"))
            if directory is not None:
                return str((handles / str(directory)).readlink() / target)
            return str(Path.cwd() / target)
        return ""


def start(arguments: list[str], *, native: bool) -> int:
    """Run `python -m faults` again under the shim; says so where there is none."""
    with tempfile.TemporaryDirectory(prefix="bridgehead-faults-") as name:
        base = Path(os.path.realpath(name))
        state = base / "state"
        state.write_bytes(bytes(STATE_BYTES))
        environ = {**os.environ, "FAULT_STATE": str(state), "FAULT_BASE": str(base)}
        compiler = shutil.which("gcc") or shutil.which("cc")
        if native and sys.platform == "linux" and compiler is not None:
            shim = base / "shim.so"
            subprocess.run(
                [
                    compiler,
                    "-shared",
                    "-fPIC",
                    "-O1",
                    "-o",
                    str(shim),
                    str(SHIM),
                    "-ldl",
                ],
                check=True,
            )
            environ["LD_PRELOAD"] = str(shim)
        else:
            print(
                "without a C compiler: only our own calls are failed, not those of SQLite and git",
                flush=True,
            )
        return subprocess.run(
            [sys.executable, "-m", "faults", "--inside", *arguments],
            env=environ,
            check=False,
        ).returncode
