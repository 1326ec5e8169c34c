"""Pending items and the participants who may know of them or answer them (design §1).

An answer goes the one way every answer goes, so it is taken once, and whoever comes second is told who was first.
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


class PendingAnswers:
    """Where participants of one gateway answer."""

    def __init__(self, known: Register, approvals: Approvals | None, notices: Notices | None) -> None:
        self._known = known
        self._approvals = approvals
        self._notices = notices
        self._tasks: set[asyncio.Task[None]] = set()

    def may(self, participant_id: str, grant: Grant) -> bool:
        """Whether the record in force gives this right; a changed record counts at once (bus §10.3)."""
        participant = self._known.get(participant_id)
        return participant is not None and participant.record.has(grant)

    def answer(self, participant_id: str, given: ItemAnswer, tell: Callable[[bytes], None]) -> None:
        """Give a participant's answer to a pending item and read back what became of it."""
        if not self.may(participant_id, Grant.APPROVE):
            tell(frames.answered(given.id, ok=False, sentence="this participant may not answer"))
        elif self._approvals is None:
            tell(frames.answered(given.id, ok=False, sentence="nothing can be answered here"))
        elif self._is_busy:
            tell(frames.answered(given.id, ok=False, sentence="too many answers at once; try again"))
        else:
            self._run(_answer(self._approvals, f"bus {participant_id}", given, tell))

    def recall(self, participant_id: str, tell: Callable[[Notice], None]) -> None:
        """Tell a page that was just opened what waits, if it may know."""
        if self._notices is not None and self.may(participant_id, Grant.NOTICES) and not self._is_busy:
            self._run(_recall(self._notices, tell))

    def close(self) -> None:
        for work in self._tasks:
            work.cancel()

    @property
    def _is_busy(self) -> bool:
        return len(self._tasks) >= MAX_AT_ONCE

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _answer(approvals: Approvals, by: str, given: ItemAnswer, tell: Callable[[bytes], None]) -> None:
    try:
        await asyncio.to_thread(approvals.answer, given.id, given.text, by)
    except BridgeheadError as error:
        tell(frames.answered(given.id, ok=False, sentence=error.message))
    else:
        tell(frames.answered(given.id, ok=True, sentence=f"{given.id} was answered: {given.text}"))


async def _recall(notices: Notices, tell: Callable[[Notice], None]) -> None:
    try:
        for notice in await asyncio.to_thread(notices.open_items):
            tell(notice)
    except BridgeheadError as error:
        _log.warning("what waits could not be read: %s", error.message)
