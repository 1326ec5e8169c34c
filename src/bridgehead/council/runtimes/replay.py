"""Recorded replies played back: the same prompt gets the same answer, another prompt none (council §21).

A recording is keyed by bridge, role, round and prompt: a changed prompt is noticed instead of being papered over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import msgspec

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import Call, CallUsage
from bridgehead.council.runtimes.base import InProcess, Missing, SeatSetup
from bridgehead.council.runtimes.exchange import Answered, Outcome, Refused
from bridgehead.council.runtimes.machine import Machine
from bridgehead.errors import ConfigError


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One call and what came of it; `error_class` is set for a call that failed."""

    key: str
    bridge: str
    role: str
    round: int
    text: str = ""
    error_class: ErrorClass | None = None
    message: str = ""
    session: str | None = None
    model: str | None = None
    usage: CallUsage = CallUsage()

    def outcome(self) -> Outcome:
        if self.error_class is not None:
            return Refused(self.error_class, self.message, usage=self.usage)
        return Answered(self.text, self.session, self.model, self.usage)


class BadRecording(ConfigError):
    """A file of recordings that cannot be read."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: not a recorded reply: {problem}")


class ReplayConnection(InProcess):
    """Answers from recordings alone; a call that was never recorded fails."""

    kind = "cli"
    runtime_name = "replay"

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings: Mapping[str, Recording] = {one.key: one for one in recordings}

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        return Missing("no_connection", "recordings are handed in, not found")

    def answer(self, call: Call) -> Outcome:
        recorded = self._recordings.get(replay_key(call))
        if recorded is None:
            return Refused(ErrorClass.OTHER, f"no reply was recorded for {call.key} with this prompt")
        return recorded.outcome()


def replay_key(call: Call) -> str:
    """The name under which a reply to this call is kept."""
    parts = (call.key.bridge, call.key.agent, str(call.key.round), call.prompt)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def record(call: Call, outcome: Outcome) -> Recording:
    """A call and its outcome as a recording."""
    facts = {
        "key": replay_key(call),
        "bridge": call.key.bridge,
        "role": call.key.agent,
        "round": call.key.round,
    }
    if isinstance(outcome, Refused):
        failure = {"error_class": outcome.error_class, "message": outcome.message}
        return msgspec.convert({**facts, **failure, "usage": outcome.usage}, Recording)
    answer = {
        "text": outcome.text,
        "session": outcome.session,
        "model": outcome.model,
        "usage": outcome.usage,
    }
    return msgspec.convert({**facts, **answer}, Recording)


def load_recordings(path: Path) -> list[Recording]:
    """Recordings from a file of JSON lines."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.append(msgspec.json.decode(line, type=Recording))
        except msgspec.DecodeError as error:
            raise BadRecording(path, number, str(error)) from error
    return found
