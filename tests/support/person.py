"""A person at a terminal: runs a command there, reads what it shows and types an answer.

Run as a program, it starts the command with a terminal of its own and with no ancestor but the system's first process:
the tests themselves may run under an agent.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.installed import SCRIPTS, Machine

ASKS = b"[y/N] "


@dataclass(frozen=True)
class AtTerminal:
    """How a command ended, and what it showed on the terminal."""

    code: int
    out: str
    err: str
    screen: str


def at_terminal(
    machine: Machine, *arguments: str, types: str = "yes\n", **extra: str
) -> AtTerminal:
    """Run an installed command as a person at a terminal would."""
    words = [str(SCRIPTS / "bridgehead"), *arguments]
    return run_at_terminal(
        words, machine.project, machine.environ(**extra), types=types
    )


def run_at_terminal(
    words: list[str], cwd: Path, environ: Mapping[str, str], *, types: str = "yes\n"
) -> AtTerminal:
    wanted = {
        "words": words,
        "cwd": str(cwd),
        "environ": dict(environ),
        "types": types,
    }
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(wanted).encode(),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": tests},
        check=True,
        timeout=120,
    )
    return AtTerminal(**json.loads(done.stdout))


def _main() -> None:
    wanted = json.load(sys.stdin)
    go_read, go_write = os.pipe()
    end_read, end_write = os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork() == 0:
            os.close(go_write)
            os.close(end_read)
            os.read(go_read, 1)
            with os.fdopen(end_write, "w") as end:
                json.dump(_at_own_terminal(wanted), end)
        os._exit(0)
    os.waitpid(between, 0)  # from now on the other one is nobody's child
    os.close(end_write)
    os.write(go_write, b".")
    with os.fdopen(end_read) as end:
        sys.stdout.write(end.read())


def _at_own_terminal(wanted: dict[str, object]) -> dict[str, object]:
    words = [str(word) for word in wanted["words"]]  # type: ignore[attr-defined]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid, terminal = pty.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(str(wanted["cwd"]))
            os.execve(words[0], words, wanted["environ"])  # type: ignore[arg-type]
        screen = b""
        while True:
            try:
                shown = os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody has the terminal any more
                break
            if not shown:
                break
            asked_before = ASKS in screen
            screen += shown
            if ASKS in screen and not asked_before:
                os.write(terminal, str(wanted["types"]).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return {
            "code": code,
            "out": out.read().decode(),
            "err": err.read().decode(),
            "screen": screen.decode(),
        }


if __name__ == "__main__":
    _main()
