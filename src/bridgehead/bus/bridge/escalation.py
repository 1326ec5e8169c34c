"""Escalation: what the local deployment did not understand goes to a stronger one (bus
§7). Pure.

The local "no match" and its end marker are held back until the upstream bridge has
answered; its speech and its end marker then take their place, in the context of the
local conversation. If no answer comes, the local ones go out. A second question of a
session waits until the first one has its answer.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Final

import msgspec

from bridgehead.bus.wire.message import Message, json_copy
from bridgehead.bus.wire.session import DEFAULT, context_session_id
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK, UNMATCHED

MAX_OPEN: Final = 256
WAITING_EACH: Final = 8
"""Questions of one session that wait behind the one that was sent upstream."""
TIMEOUT_S: Final = 30.0


class Escalate(msgspec.Struct, frozen=True):
    """Send this upstream; `hops` is what its frame says."""

    message: Message
    hops: int


class PutOnHub(msgspec.Struct, frozen=True):
    """The upstream answer, as the local conversation reads it."""

    message: Message
    hops: int


class Release(msgspec.Struct, frozen=True):
    """Go on with this local message as if nothing had been tried."""

    message: Message


EscalationEffect = Escalate | PutOnHub | Release


class _Open(msgspec.Struct):
    """One utterance that waits for upstream."""

    entry: Message
    hops: int
    held: list[Message]
    deadline: float = math.inf


class Escalation:
    """Escalations of one bridge, at most one for a session at a time.

    The others of a session stand behind it.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S, hop_limit: int = 4) -> None:
        self._timeout_s = timeout_s
        self._hop_limit = hop_limit
        self._open: dict[str, deque[_Open]] = {}
        self._now = 0.0
        self._due: list[EscalationEffect] = []
        self._upstream_is_there = False

    def upstream(self, *, there: bool) -> None:
        """Note that the upstream bridge came or went.

        Without it nothing is escalated.
        """
        self._upstream_is_there = there
        if not there:
            for session in list(self._open):
                while session in self._open:
                    self._give_up(session)

    def holds_back(self, message: Message, now: float, *, hops: int = 0) -> bool:
        """Return whether a hub message is kept from participants for now.

        `take_due` returns what to do about it. `hops` counts the bridges the utterance
        has crossed, so that two bridges do not escalate to each other for ever.
        """
        session = context_session_id(message.context)
        self._now = now
        waiting = self._open.get(session, ())
        if message.type == UNMATCHED:
            # A hub that uses both names says it twice (B-57).
            return any(message == one.entry for one in waiting) or self._begin(
                session, message, hops
            )
        if message.type == HANDLED:
            unfinished = next((one for one in waiting if len(one.held) == 1), None)
            if unfinished is not None:
                unfinished.held.append(message)
            return unfinished is not None
        return False

    def _begin(self, session: str, unmatched: Message, hops: int) -> bool:
        utterances = unmatched.data.get("utterances")
        if not self._upstream_is_there or session == DEFAULT or hops >= self._hop_limit:
            return False
        if not isinstance(utterances, list) or not utterances:
            return False
        here = self._open.get(session, ())
        if len(here) > WAITING_EACH or (not here and len(self._open) >= MAX_OPEN):
            return False
        self._open.setdefault(session, deque()).append(
            _Open(unmatched, hops, [unmatched])
        )
        if not here:
            self._send(self._open[session][0])
        return True

    def _send(self, waiting: _Open) -> None:
        """It is this question's turn."""
        waiting.deadline = self._now + self._timeout_s
        unmatched = waiting.entry
        context = {"session": json_copy(unmatched.context["session"])}
        if isinstance(utterance_id := unmatched.context.get("utterance_id"), str):
            context["utterance_id"] = utterance_id
        data: dict[str, Any] = {
            key: json_copy(value)
            for key, value in unmatched.data.items()
            if key in ("utterances", "lang")
        }
        self._due.append(Escalate(Message(HANDLE, data, context), waiting.hops + 1))

    def answered(self, message: Message, hops: int) -> None:
        """Take a message of the upstream bridge."""
        session = context_session_id(message.context)
        if session not in self._open:
            return
        waiting = self._open[session][0]
        if message.type == UNMATCHED:
            # Upstream did not understand it either, so the local answer stands.
            self._give_up(session)
        elif message.type in (SPEAK, HANDLED):
            # The local entry decides who hears it; its session is the participant's own
            # affair.
            self._due.append(
                PutOnHub(waiting.entry.forward(message.type, message.data), hops)
            )
            if message.type == HANDLED:
                self._end(session)

    def tick(self, now: float) -> None:
        """Escalations that took too long are given up."""
        self._now = now
        for session in [
            name for name, waiting in self._open.items() if waiting[0].deadline <= now
        ]:
            self._give_up(session)

    def next_deadline(self) -> float | None:
        return min(
            (waiting[0].deadline for waiting in self._open.values()), default=None
        )

    def take_due(self) -> list[EscalationEffect]:
        due = self._due
        self._due = []
        return due

    def _give_up(self, session: str) -> None:
        self._due += [Release(message) for message in self._open[session][0].held]
        self._end(session)

    def _end(self, session: str) -> None:
        """End the first question of the session; the next one has its turn."""
        waiting = self._open[session]
        waiting.popleft()
        if not waiting:
            del self._open[session]
        elif self._upstream_is_there:
            self._send(waiting[0])
