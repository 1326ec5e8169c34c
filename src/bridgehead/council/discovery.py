"""What exists in this process and on this machine, before anything is chosen (council §4): cheap, no side effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridgehead.council.runtimes.base import NativeDispatcher
from bridgehead.council.runtimes.machine import Machine

PROGRAMS: Final = ("claude", "gemini", "agy", "codex", "opencode")

# Hints only, never sufficient for anything but naming the host seat (council §4).
_EXECUTOR_HINTS: Final = {
    "CLAUDE_CODE_SESSION": "claude-code",
    "CLAUDECODE": "claude-code",
    "CODEX_SESSION_ID": "codex",
    "OPENCODE_SESSION_ID": "opencode",
    "OPENCODE_CLIENT": "opencode",
    "GEMINI_CLI": "gemini",
}
_BRIDGE_OF_EXECUTOR: Final = {
    "claude-code": "claude",
    "codex": "codex",
    "opencode": "opencode",
    "gemini": "gemini",
}
UNKNOWN: Final = "unknown"


def executor_type(environment: Mapping[str, str], client_name: str | None = None) -> str:
    """Which agent runs us: `claude-code opencode codex gemini`, or `unknown`; an MCP client may have said its name."""
    said = (client_name or "").casefold()
    for executor in ("claude-code", "opencode", "codex", "gemini"):
        if executor in said or (executor == "claude-code" and "claude" in said):
            return executor
    return next((executor for name, executor in _EXECUTOR_HINTS.items() if environment.get(name)), UNKNOWN)


def host_bridge(executor: str) -> str | None:
    """The bridge the agent that runs us would sit for."""
    return _BRIDGE_OF_EXECUTOR.get(executor)


def discovery_manifest(machine: Machine, native: NativeDispatcher | None, executor: str) -> dict[str, Any]:
    """The manifest that is kept with the run and written in the first event."""
    programs = {name: machine.which(name) for name in PROGRAMS}
    return {
        "executor_type": executor,
        "native_dispatch": {
            "available": native is not None,
            "tool_name": None,
            "session_continuity": False,
            "messaging": native is not None and native.messaging,
        },
        "mcp_tools": {"available": False, "servers": [], "tools": []},
        "cli_tools": {
            name: {"available": path is not None, "path": path, "version": None}
            for name, path in programs.items()
        },
        "recommended_dispatch": _recommended(native, programs),
    }


def _recommended(native: NativeDispatcher | None, programs: Mapping[str, str | None]) -> str:
    if native is not None:
        return "native"
    return "cli" if any(programs.values()) else "none"
