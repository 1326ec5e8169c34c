"""Find out who runs this process: a known agent, or a person at a terminal.

This is evidence, not proof: an unrestricted program of the same user can detach from
its ancestors, clear its environment and open its own terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from bridgehead.host.family import PROC, find_process, living_processes

TERMINAL: Final = "/dev/tty"
AGENT_VARIABLES: Final = {
    "CLAUDECODE": "claude",
    "CLAUDE_CODE_ENTRYPOINT": "claude",
    "CLAUDE_CODE_SESSION": "claude",
    "CODEX_SANDBOX": "codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "codex",
    "CODEX_SESSION_ID": "codex",
    "CODEX_THREAD_ID": "codex",
    "CURSOR_AGENT": "cursor",
    "GEMINI_CLI": "gemini",
    "OPENCODE": "opencode",
    "OPENCODE_CLIENT": "opencode",
    "OPENCODE_SESSION_ID": "opencode",
    "QWEN_CODE": "qwen",
}
"""Variables that agents set for the commands they run."""
AGENT_PROGRAMS: Final = frozenset(
    {
        "aider",
        "agy",
        "amp",
        "claude",
        "codex",
        "copilot",
        "crush",
        "cursor-agent",
        "droid",
        "gemini",
        "goose",
        "opencode",
        "qwen",
    }
)
_PACKAGE: Final = re.compile(
    r"/(claude-code|codex|gemini-cli|opencode|opencode-ai|qwen-code)/"
)
_MOST_ANCESTORS: Final = 64
_WORDS_LOOKED_AT: Final = 3
"""Enough for an interpreter and the program it runs."""


def known_agent(environ: Mapping[str, str]) -> str:
    """Return the agent that runs this process, or an empty text.

    An agent is known by its variables, or as an ancestor.
    """
    for variable, agent in AGENT_VARIABLES.items():
        if environ.get(variable):
            return agent
    for words in _ancestors():
        agent = agent_of_command(words)
        if agent:
            return agent
    return ""


def agent_of_command(words: list[str]) -> str:
    """Return the agent that a command line starts; empty if it is none."""
    for word in words[:_WORDS_LOOKED_AT]:
        name = os.path.basename(word)  # noqa: PTH119
        stem = re.sub(r"\.(exe|cmd|m?js|py)$", "", name.casefold())
        if stem in AGENT_PROGRAMS:
            return stem
        package = _PACKAGE.search(word)
        if package:
            return package[1]
    return ""


def _ancestors() -> Iterator[list[str]]:
    """Yield the command lines of this process's ancestors, the nearest first."""
    parents = _parents()
    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        yield _command_line(pid)
        entry = find_process(pid)
        pid = entry.parent if entry else parents.get(pid, 0)


def _parents() -> dict[int, int]:
    """Return the parent of each process, if there is no `/proc` to ask one by one."""
    if os.path.isdir(f"{PROC}/self"):  # noqa: PTH112
        return {}
    parents = {}
    for entries in living_processes():
        for entry in entries:
            parents[entry.pid] = entry.parent
    return parents


def _command_line(pid: int) -> list[str]:
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return _command_line_by_ps(pid)
    return [word.decode("utf-8", "replace") for word in line.split(b"\0") if word]


def _command_line_by_ps(pid: int) -> list[str]:
    import subprocess

    from bridgehead.host.child import run_child

    try:
        listed = run_child(
            ["ps", "-o", "command=", "-p", str(pid)],
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return listed.stdout.decode("utf-8", "replace").split()


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def confirm_at_terminal(text: str) -> bool:
    """Show `text` at the controlling terminal; return whether the person types yes.

    stdin and stdout will not do, because they may belong to a program.
    """
    import termios

    try:
        with open(TERMINAL, "r+b", buffering=0) as terminal:
            # Drop what was typed before the question was shown.
            termios.tcflush(terminal, termios.TCIFLUSH)
            terminal.write(text.encode("utf-8", "backslashreplace"))
            typed = terminal.readline()
    except OSError:
        return False
    return typed.decode("utf-8", "replace").strip().casefold() in ("y", "yes")
