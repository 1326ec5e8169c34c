"""The scenarios of the model server: what a path prefix `/s/<scenario>` makes the model do.

A scenario name may end in `.<n>ms`, which delays every answer: `ok.250ms`. Unknown names are refused with 404, so a
typing error in a test is noticed.
"""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

from bridgehead.testing.exchange import Break, Breakage, CallTool, Fault, ModelRequest, Reaction, Refuse, Say, ToolKind

DEFAULT: Final = "ok"

SCENARIOS: Final[dict[str, str]] = {
    "ok": "a normal reply that counts the user messages and echoes the end of the last one",
    "empty": "a normal reply without any text",
    "e401": "401 in the vendor's shape",
    "e400key": "400 with the reason API_KEY_INVALID, what Google sends for a bad key",
    "e404": "404, unknown model",
    "ectx": "400, input too long",
    "e429": "429 with retry-after: 1",
    "equota": "429, quota exhausted",
    "e500": "500",
    "e529": "529, overloaded",
    "malformed": "200 with an HTML page",
    "badsse": "200 with a broken JSON line, then the connection closes",
    "cut": "a stream without its terminal event",
    "hang": "the request is accepted and never answered",
    "toolwrite": "first a tool call that writes the file named by PATH=... in the prompt, then text",
    "toolbash": "first a shell command that writes that file, then text",
    "toolsleep": "first a shell command that runs for five minutes, then text",
    "evil": "as ok; a second prefix that a careful client never contacts",
}

_PREFIX: Final = re.compile(r"/s/(?P<name>[A-Za-z0-9_-]+)(?:\.(?P<delay>\d{1,6})ms)?(?=/|$|\?)")
# An interpreter and not a bare `sleep`: agents treat that command specially.
_SLEEP_COMMAND: Final = "python3 -c 'import time; time.sleep(300)'"


class Addressed(NamedTuple):
    """A path taken apart: which scenario, how much delay, and what is left for the wire."""

    scenario: str
    latency_seconds: float
    rest: str


def address(path: str) -> Addressed:
    """Take the scenario prefix off `path`; without one the scenario is `ok`."""
    match = _PREFIX.match(path)
    if match is None:
        return Addressed(DEFAULT, 0.0, path)
    delay = int(match["delay"] or 0) / 1000
    return Addressed(match["name"], delay, path[match.end() :] or "/")


def react(request: ModelRequest) -> Reaction:
    """What the model does in the scenario of `request`; stateless, so any number of clients may share it."""
    scenario = request.scenario
    if scenario in set(Fault):
        return Refuse(Fault(scenario))
    if scenario in set(Breakage):
        return Break(Breakage(scenario))
    # A request that offers no tools (a title, a summary) is not the conversation the scenario is about.
    if scenario.startswith("tool") and request.tools and not request.answers_tool:
        return _tool_call(scenario, request.target_path)
    return Say("" if scenario == "empty" else request.echo)


def _tool_call(scenario: str, path: str) -> CallTool:
    match scenario:
        case "toolwrite":
            return CallTool(ToolKind.WRITE, path=path)
        case "toolbash":
            return CallTool(ToolKind.SHELL, command=f"echo pwned > {shlex.quote(path)}")
        case _:
            return CallTool(ToolKind.SHELL, command=_SLEEP_COMMAND)
