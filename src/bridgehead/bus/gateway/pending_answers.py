"""Pending items and the participants who may know of them or answer them (design §1).

An answer is taken once, wherever it is given; whoever comes second learns who was first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final

from bridgehead.bus.interfaces import Approvals, ItemAnswer, Notice, Notices
from bridgehead.bus.participants.participants import Register
from bridgehead.bus.participants.record import Grant
from bridgehead.bus.wire import frames
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")

MAX_AT_ONCE: Final = 64
"""Answers and look-ups under way at once; each occupies a worker thread."""
AT_ONCE_EACH: Final = 4
"""So many of one participant, so that nobody takes all the places."""


class PendingAnswers:
    """Where participants of one gateway answer."""

    def __init__(self, known: Register, approvals: Approvals | None, notices: Notices | None) -> None:
        self._known = known
        self._approvals = approvals
        self._notices = notices
        self._tasks: dict[asyncio.Task[None], str] = {}
        """Each with the participant it is done for."""

    def may(self, participant_id: str, grant: Grant) -> bool:
        """Whether the record in force gives this right; a changed record counts at once (bus §10.3)."""
        participant = self._known.get(participant_id)
        return participant is not None and participant.record.has(grant)

    def answer(self, participant_id: str, given: ItemAnswer, reply: Callable[[bytes], None]) -> None:
        """Give a participant's answer to a pending item and read back what became of it."""
        if not self.may(participant_id, Grant.APPROVE):
            reply(frames.answered(given.id, ok=False, sentence="this participant may not answer"))
        elif self._approvals is None:
            reply(frames.answered(given.id, ok=False, sentence="nothing can be answered here"))
        elif self._is_busy(participant_id):
            reply(frames.answered(given.id, ok=False, sentence="too many answers at once; try again"))
        else:
            self._run(participant_id, _answer(self._approvals, f"bus {participant_id}", given, reply))

    def send_open_items(self, participant_id: str, send: Callable[[Notice], None]) -> None:
        """Send what waits to a page that was just opened, if it may know."""
        is_wanted = self._notices is not None and self.may(participant_id, Grant.NOTICES)
        if self._notices is not None and is_wanted and not self._is_busy(participant_id):
            self._run(participant_id, _send_open_items(self._notices, send))

    def close(self) -> None:
        for work in self._tasks:
            work.cancel()

    def _is_busy(self, participant_id: str) -> bool:
        own = sum(name == participant_id for name in self._tasks.values())
        return own >= AT_ONCE_EACH or len(self._tasks) >= MAX_AT_ONCE

    def _run(self, participant_id: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = participant_id
        task.add_done_callback(self._tasks.pop)


async def _answer(approvals: Approvals, by: str, given: ItemAnswer, reply: Callable[[bytes], None]) -> None:
    try:
        await asyncio.to_thread(approvals.answer, given.id, given.text, by)
    except BridgeheadError as error:
        reply(frames.answered(given.id, ok=False, sentence=error.message))
    else:
        reply(frames.answered(given.id, ok=True, sentence=f"{given.id} was answered: {given.text}"))


async def _send_open_items(notices: Notices, send: Callable[[Notice], None]) -> None:
    try:
        for notice in await asyncio.to_thread(notices.open_items):
            send(notice)
    except BridgeheadError as error:
        _log.warning("what waits could not be read: %s", error.message)
