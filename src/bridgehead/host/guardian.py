"""A small process beside ours that ends what we started when we are gone without having
done so: kill -9, a closed terminal, a crash. It holds the far end of a pipe, and the
end of the pipe is our end.

It is a shell that waits, so that having it costs next to nothing; what it was told to
watch it ends with Python. Families are found by the mark in their environment, so this
needs `/proc` (Linux).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridgehead.host.command import isolated_python

SHELL = "/bin/sh"
MARK = "BRIDGEHEAD_RUN_ID"
# `+id` when a run begins, `-id` when it has been cleared up. At the end of the input
# the rest is ended.
_SCRIPT = """
trap '' HUP INT TERM
left=
while read -r line; do
  id=${line#?}
  case $line in
    +*) left="$left $id" ;;
    -*) case $left in *" $id"*) left="${left%%" $id"*}${left#*" $id"}" ;; esac ;;
  esac
done
[ -z "$left" ] || exec "$@" $left
"""
_END = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from bridgehead.host.family import end_marked; end_marked(sys.argv[2:])"
)


def mark_of(run_id: str) -> str:
    """Return the value of the mark.

    A run inside a run carries both, so that the outer one finds it too.
    """
    outer = os.environ.get(MARK)
    return f"{outer}:{run_id}" if outer else run_id


class Guardian:
    """The process beside this one, started with the first run.

    A fork of us gets its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._pipe: int | None = None

    @contextmanager
    def watching(self, run_id: str) -> Iterator[None]:
        """Have everything that carries `run_id` in its mark ended if we do not come to
        the end of the block.
        """
        self._tell(f"+{run_id}\n")
        try:
            yield
        finally:
            self._tell(f"-{run_id}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._owner != os.getpid():
                self._start()
            try:
                self._write(line)
            except BrokenPipeError:  # somebody ended it
                self._start()
                with suppress(BrokenPipeError):
                    self._write(line)

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            # It does not read; at worst it looks for a run that has ended.
            with suppress(BlockingIOError):
                os.write(self._pipe, line.encode())

    def _start(self) -> None:
        """Start it; a machine without a shell or `/proc` goes without."""
        if self._pipe is not None:
            os.close(self._pipe)
        self._owner = os.getpid()
        self._pipe = None
        if not Path("/proc/self/environ").exists():
            return
        ours, its = _pipe()
        try:
            os.posix_spawn(
                SHELL,
                [
                    SHELL,
                    "-c",
                    _SCRIPT,
                    SHELL,
                    *isolated_python("-c", _END, str(Path(__file__).parents[2])),
                ],
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, its, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # out of reach of a terminal that closes and of signals to our group
                setsid=True,
            )
        except (OSError, NotImplementedError):
            # NotImplementedError where the C library has no `setsid` for it.
            os.close(ours)
        else:
            self._pipe = ours
        finally:
            os.close(its)


def _pipe() -> tuple[int, int]:
    its, ours = os.pipe()
    os.set_blocking(ours, False)
    return ours, its


GUARDIAN = Guardian()
