"""What the model does: a scenario, chosen by a path prefix `/s/<scenario>`, or a script
before it.

A scenario name may end in `.<n>ms`, which delays every answer: `ok.250ms`. Unknown
names are refused with 404, so a typing error in a test is noticed.

A script is a JSON list of rules. A rule matches when all of its conditions do, and may
be limited to a number of uses:

    [{"when": "You are the security expert", "say": {"outputs": []}},
     {"wire": "gemini", "scenario": "ok", "times": 2, "fault": "e429"},
     {"when": "review my change", "call": {"tool": "council", "arguments": {"staged": true}}, "times": 1},
     {"say": "anything else", "latency_s": 0.2}]
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.errors import ConfigError
from bridgehead.testing.exchange import (
    Breakage,
    CallTool,
    Ending,
    Fault,
    ModelRequest,
    Reaction,
    Say,
    ToolKind,
)
from bridgehead.testing.wires.base import compact

DEFAULT: Final = "ok"

SCENARIOS: Final[dict[str, str]] = {
    "ok": (
        "a normal reply that counts the user messages and echoes the end of the last "
        "one"
    ),
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
    "length": "a reply that ends at the limit of tokens",
    "filter": "a reply that the vendor's content filter stops",
    "hang": "the request is accepted and never answered",
    "toolwrite": (
        "first a tool call that writes the file named by PATH=... in the prompt, then "
        "text"
    ),
    "toolbash": "first a shell command that writes that file, then text",
    "toolsleep": "first a shell command that runs for five minutes, then text",
    "evil": "as ok; a second prefix that a careful client never contacts",
}

_PREFIX: Final = re.compile(
    r"/s/(?P<name>[A-Za-z0-9_-]+)(?:\.(?P<delay>\d{1,6})ms)?(?=/|$|\?)"
)
# An interpreter and not a bare `sleep`: agents treat that command specially.
_SLEEP_COMMAND: Final = "python3 -c 'import time; time.sleep(300)'"


class Addressed(NamedTuple):
    """A path taken apart: which scenario, how much delay, and what is left for the
    wire.
    """

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
    """Return what the model does in the scenario of `request`.

    Stateless, so any number of clients may share it.
    """
    scenario = request.scenario
    if scenario in {*Fault, *Breakage}:
        return _fault(scenario)
    # A request that offers no tools (a title, a summary) is not the conversation the
    # scenario is about.
    if scenario.startswith("tool") and request.tools and not request.answers_tool:
        path = request.target_path
        if scenario == "toolwrite":
            return CallTool(ToolKind.WRITE, path=path)
        writes = f"echo pwned > {shlex.quote(path)}"
        return CallTool(
            ToolKind.SHELL, command=writes if scenario == "toolbash" else _SLEEP_COMMAND
        )
    if scenario in set(Ending):
        return Say(request.echo, Ending(scenario))
    return Say("" if scenario == "empty" else request.echo)


def _fault(name: str) -> Fault | Breakage:
    return Fault(name) if name in set(Fault) else Breakage(name)


class Scripted(NamedTuple):
    """What a rule decided."""

    reaction: Reaction
    latency_seconds: float = 0.0


Script = Callable[[ModelRequest], Scripted | None]
"""Decides a request, or leaves it to the scenario by returning None."""


class BadScript(ConfigError):
    """A file of scripted answers that cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}", hint="a script is a JSON list of rules; see --help"
        )


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool by name, or by how its name ends."""

    tool: str
    arguments: dict[str, Any] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scripted answer and when to give it."""

    when: str = ""
    """Text that must occur somewhere in the conversation."""
    wire: str = ""
    scenario: str = ""
    say: Any = None
    """A string, or a value that is written as JSON."""
    call: ToolCall | None = None
    """Call this tool of the agent; its result is followed by whatever rule comes next.
    """
    fault: str = ""
    latency_s: float = 0.0
    times: int | None = None

    def matches(self, request: ModelRequest) -> bool:
        return (
            (not self.wire or self.wire == request.wire)
            and (not self.scenario or self.scenario == request.scenario)
            and (not self.when or any(self.when in text for text in request.user_texts))
            # A request without tools (a title, a summary) is not the conversation that
            # could use one.
            and (self.call is None or bool(request.tools))
        )

    def decide(self) -> Scripted:
        return Scripted(self._reaction(), self.latency_s)

    def _reaction(self) -> Reaction:
        if self.call is not None:
            return CallTool(
                ToolKind.NAMED, name=self.call.tool, arguments=self.call.arguments
            )
        if self.fault:
            return _fault(self.fault)
        return Say(self.say if isinstance(self.say, str) else compact(self.say))


class RuleScript:
    """Rules in order; the first one that matches and is not used up decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._uses = [0] * len(self._rules)
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Scripted | None:
        with self._lock:
            for index, rule in enumerate(self._rules):
                used_up = rule.times is not None and self._uses[index] >= rule.times
                if not used_up and rule.matches(request):
                    self._uses[index] += 1
                    return rule.decide()
        return None


def load_script(path: Path) -> RuleScript:
    """Read a script file; every rule is checked before the server starts."""
    try:
        rules = msgspec.json.decode(path.read_bytes(), type=list[Rule])
    except OSError as error:
        raise BadScript(path, error.strerror or "cannot be read") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadScript(path, str(error)) from error
    for number, rule in enumerate(rules, start=1):
        if problem := _problem(rule):
            raise BadScript(path, f"rule {number}: {problem}")
    return RuleScript(rules)


def _problem(rule: Rule) -> str | None:
    if sum((rule.say is not None, bool(rule.fault), rule.call is not None)) != 1:
        return "give either `say`, `fault` or `call`"
    known = [*Fault, *Breakage]
    if rule.fault and rule.fault not in known:
        return f"unknown fault {rule.fault!r}; known: {', '.join(known)}"
    if rule.latency_s < 0 or (rule.times is not None and rule.times < 1):
        return "latency_s must be at least 0 and times at least 1"
    return None
