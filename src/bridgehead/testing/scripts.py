"""Scripted answers: rules that are tried in order before the scenario decides.

A script is a JSON list of rules. A rule matches when all of its conditions do, and may be limited to a number of uses:

    [{"when": "You are the security expert", "say": {"outputs": []}},
     {"wire": "gemini", "scenario": "ok", "times": 2, "fault": "e429"},
     {"when": "review my change", "call": {"tool": "council", "arguments": {"staged": true}}, "times": 1},
     {"say": "anything else", "latency_s": 0.2}]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bridgehead.errors import ConfigError
from bridgehead.testing.exchange import Break, Breakage, CallTool, Fault, ModelRequest, Reaction, Refuse, Say, ToolKind
from bridgehead.testing.wires.base import compact


class Scripted(NamedTuple):
    """What a rule decided."""

    reaction: Reaction
    latency_seconds: float = 0.0


Script = Callable[[ModelRequest], Scripted | None]
"""Decides a request, or leaves it to the scenario by returning None."""


class BadScript(ConfigError):
    """A file of scripted answers that cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}", hint="a script is a JSON list of rules; see --help")


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
    """Call this tool of the agent; its result is followed by whatever rule comes next."""
    fault: str = ""
    latency_s: float = 0.0
    times: int | None = None

    def matches(self, request: ModelRequest) -> bool:
        return (
            (not self.wire or self.wire == request.wire)
            and (not self.scenario or self.scenario == request.scenario)
            and (not self.when or any(self.when in text for text in request.user_texts))
            # A request without tools (a title, a summary) is not the conversation that could use one.
            and (self.call is None or bool(request.tools))
        )

    def decide(self) -> Scripted:
        return Scripted(self._reaction(), self.latency_s)

    def _reaction(self) -> Reaction:
        if self.call is not None:
            return CallTool(ToolKind.NAMED, name=self.call.tool, arguments=self.call.arguments)
        if not self.fault:
            return Say(self.say if isinstance(self.say, str) else compact(self.say))
        if self.fault in set(Fault):
            return Refuse(Fault(self.fault))
        return Break(Breakage(self.fault))


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
