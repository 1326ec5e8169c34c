"""A folder with a home of its own; commands are shown and run in it, some of them in the background."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

from bridgehead.exit_codes import ExitCode
from bridgehead.host.child import SignalsHeld, run_child
from bridgehead.host.command import beside_python, our_environment

WAITING_S: Final = 30.0
STOPPING_S: Final = 10.0


class DemoStopped(Exception):
    """A command ended otherwise than the demo expects."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"the demo stopped: exit code {exit_code}")
        self.exit_code = exit_code


class Sandbox:
    """Runs commands of this installation so that nothing outside `folder` is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environ = {
            **our_environment(os.environ),
            "BRIDGEHEAD_HOME": str(folder / "home"),
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
        }
        self._program = beside_python("bridgehead")
        self._running: list[BackgroundCommand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for command in reversed(self._running):
            command.stop()

    @property
    def program_for_people(self) -> str:
        """How somebody who stands where the demo was started calls this installation."""
        program = Path(self._program)
        if shutil.which("bridgehead") == str(program):
            return "bridgehead"
        return (
            os.path.relpath(program)
            if program.is_relative_to(Path.cwd())
            else str(program)
        )

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def heading(self, title: str) -> None:
        self.say(f"\n# {title}")

    def run(
        self, *arguments: str, at: Path, allowed: Collection[int] = (ExitCode.DONE,)
    ) -> None:
        """Show a command and run it; the demo stops when it ends in a way that is not allowed."""
        self._show(arguments, at)
        done = run_child(
            self._words(arguments), cwd=at, env=self._environ, stdin=subprocess.DEVNULL
        )
        if done.returncode not in allowed:
            raise DemoStopped(done.returncode)

    def git(self, *arguments: str, at: Path) -> None:
        """Preparation that is not part of the demo."""
        done = run_child(
            ["git", *arguments], cwd=at, env=self._environ, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise DemoStopped(done.returncode)

    def start(self, *arguments: str, at: Path) -> BackgroundCommand:
        """Show a command and let it run in the background."""
        self._show((*arguments, "&"), at)
        # Until the command is among those that are ended with the demo.
        with SignalsHeld():
            started = BackgroundCommand(
                subprocess.Popen(
                    self._words(arguments),
                    cwd=at,
                    env=self._environ,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the demo, which ends what it started itself
                )
            )
            self._running.append(started)
        return started

    def _words(self, arguments: tuple[str, ...]) -> list[str]:
        return [self._program, *arguments]

    def _show(self, arguments: tuple[str, ...], at: Path) -> None:
        words = " ".join(
            word if word == "&" else shlex.quote(word) for word in arguments
        )
        self.say(f"{at.name}$ bridgehead {words}")


class BackgroundCommand:
    """A command that runs beside the others; what it prints is kept."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read_lines, daemon=True).start()

    @property
    def lines(self) -> list[str]:
        """The lines so far."""
        with self._changed:
            return list(self._lines)

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait_for(self, text: str) -> str:
        """The first line that holds `text`."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._found(text) or self._process.poll() is not None, WAITING_S
            )
            found = self._found(text)
        if found is None:
            sys.stdout.write("\n".join(self._lines) + "\n")
            raise DemoStopped(self._process.poll() or ExitCode.FAILURE)
        return found

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOPPING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _found(self, text: str) -> str | None:
        return next((line for line in self._lines if text in line), None)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
