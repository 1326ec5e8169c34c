"""The exit codes of every command, in one place. docs/reference/exit-codes.md is generated from this table."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    DONE = 0
    USER = 1
    FAILURE = 2
    GATE = 3
    WAITING = 42
    INTERRUPTED = 130
    TERMINATED = 143


MEANING: Final[dict[ExitCode, str]] = {
    ExitCode.DONE: "done; for a council a report was written, whatever its verdict",
    ExitCode.USER: "invalid request (usage, settings, unknown name), nothing was changed; in flows also: "
    "the flow failed; in rig commands also: git refused; `doctor`: something is broken",
    ExitCode.FAILURE: "a failure of bridgehead or its environment: record, disk, network, a missing program",
    ExitCode.GATE: "a council gate refused the verdict",
    ExitCode.WAITING: "waiting for an agent: answer the request, then resume",
    ExitCode.INTERRUPTED: "ended by SIGINT (Ctrl-C)",
    ExitCode.TERMINATED: "ended by SIGTERM",
}
