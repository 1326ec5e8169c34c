"""Let participants see and answer pending items (design §1).

An answer counts once, wherever it is given; whoever comes second learns who was first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

import msgspec

from bridgehead.bus.interfaces import (
    AnswerRefused,
    ApprovalRequest,
    Approvals,
    ItemAnswer,
    ItemAnswered,
    Notice,
    Notices,
    ShownQuestions,
    spoken_answer,
    typed_answer,
)
from bridgehead.bus.participants.participants import Participant, Register
from bridgehead.bus.participants.record import Grant
from bridgehead.bus.relay import Relay
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")

MAX_AT_ONCE: Final = 64
"""Answers and look-ups under way at once; each occupies a worker thread."""
ELSEWHERE_S: Final = 1.0
"""How often to check whether somebody else has answered."""
AT_ONCE_EACH: Final = 4
"""The limit for one participant, so that nobody takes all the places."""


class PendingAnswers:
    """Takes answers of one gateway's participants to pending items."""

    def __init__(
        self, known: Register, approvals: Approvals | None, notices: Notices | None
    ) -> None:
        self._known = known
        self._approvals = approvals
        self._notices = notices
        self._tasks: dict[asyncio.Task[None], str] = {}
        """Running tasks, each with the participant it is for."""
        self._announced: dict[str, Notice] = {}

    def note(self, notice: Notice) -> None:
        """Remember a question that was announced, until it is settled."""
        if notice.awaits:
            self._announced[notice.id] = notice
        else:
            self._announced.pop(notice.id, None)

    def hears(
        self,
        participant_id: str,
        text: str,
        shown: ShownQuestions,
        reply: Callable[[ItemAnswered], None],
    ) -> bool:
        """Take an answer that was said at a door.

        Return False if the words are meant for the assistant.
        """
        last_announced = next(reversed(self._announced.values()), None)
        given = spoken_answer(text, last_announced)
        if given is None or not self.may(participant_id, Grant.APPROVE):
            return False
        # With several open questions, a yes to one must not approve another.
        if len(self._announced) > 1 and typed_answer(text) is None:
            which = f"say which: answer {given.id} {given.text}"
            reply(ItemAnswered(given.id, False, f"several questions are open; {which}"))
            return True
        answer = ItemAnswer(given.id, given.text, shown.digest_of(given.id))
        self.answer(participant_id, answer, reply)
        return True

    def may(self, participant_id: str, grant: Grant) -> bool:
        """Return whether the participant has this right now.

        A changed record counts at once (bus §10.3).
        """
        participant = self._known.get(participant_id)
        return participant is not None and participant.record.has(grant)

    def answer(
        self,
        participant_id: str,
        given: ItemAnswer,
        reply: Callable[[ItemAnswered], None],
    ) -> None:
        """Pass on an answer to a pending item, and reply with the result."""
        if not self.may(participant_id, Grant.APPROVE):
            reply(ItemAnswered(given.id, False, "this participant may not answer"))
        elif self._approvals is None:
            reply(ItemAnswered(given.id, False, "nothing can be answered here"))
        elif self._is_busy(participant_id):
            reply(ItemAnswered(given.id, False, "too many answers at once; try again"))
        else:
            self._run(
                participant_id,
                _answer(self._approvals, f"bus {participant_id}", given, reply),
            )

    def send_open_items(
        self, participant_id: str, send: Callable[[Notice], None]
    ) -> None:
        """Send open items to a page that was just opened, if it may see them."""
        if self._notices is None or not self.may(participant_id, Grant.NOTICES):
            return
        if not self._is_busy(participant_id):
            self._run(participant_id, _send_open_items(self._notices, send))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _is_busy(self, participant_id: str) -> bool:
        if len(self._tasks) >= MAX_AT_ONCE:
            return True
        return list(self._tasks.values()).count(participant_id) >= AT_ONCE_EACH

    def _run(self, participant_id: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = participant_id
        task.add_done_callback(self._tasks.pop)


async def _answer(
    approvals: Approvals,
    by: str,
    given: ItemAnswer,
    reply: Callable[[ItemAnswered], None],
) -> None:
    try:
        await asyncio.to_thread(approvals.answer, given.id, given.text, by, given.shown)
    except AnswerRefused as refused:
        reply(ItemAnswered(given.id, False, refused.message, refused.notice))
    except BridgeheadError as error:
        reply(ItemAnswered(given.id, False, error.message))
    else:
        reply(ItemAnswered(given.id, True, f"{given.id} was answered: {given.text}"))


async def _send_open_items(notices: Notices, send: Callable[[Notice], None]) -> None:
    try:
        for notice in await asyncio.to_thread(notices.open_items):
            send(notice)
    except BridgeheadError as error:
        _log.warning("pending items could not be read: %s", error.message)


class Announced(msgspec.Struct, frozen=True):
    """The participants an announcement reached."""

    participants: tuple[str, ...] = ()


class SpokenAnswer(msgspec.Struct, frozen=True):
    """The answer to a question, or why there is none."""

    text: str | None = None
    problem: str | None = None


class Speaker:
    """Makes announcements to participants, and asks one of them a question.

    A question is a pending item. What its participant says next is the answer and does
    not reach the hub. Somebody else may answer instead, wherever pending items are
    answered.
    """

    def __init__(self, relay: Relay, approvals: Approvals | None) -> None:
        self._relay = relay
        self._approvals = approvals
        self._waiting: dict[str, asyncio.Future[str]] = {}
        """Who is to answer, by source."""

    def announce(self, text: str, lang: str | None, site: str | None) -> Announced:
        """Say something to everybody who listens, or to those of one site."""
        reached = []
        for participant in self._listeners():
            own_site = participant.site or participant.record.site_determination
            if site is not None and site != own_site:
                continue
            if self._say(participant, text, lang):
                reached.append(participant.id)
        return Announced(tuple(reached))

    def _listeners(self) -> list[Participant]:
        known = self._relay.bridge.known
        names = [name for name in self._relay.connected if self._relay.listens(name)]
        found = [known.get(name) for name in names]
        return [participant for participant in found if participant is not None]

    async def ask(
        self, participant_id: str, text: str, lang: str | None, wait_s: float
    ) -> SpokenAnswer:
        """Ask a participant and wait for the answer."""
        participant = self._relay.bridge.known.get(participant_id)
        if participant is None or not self._relay.listens(participant_id):
            return SpokenAnswer(problem=f"{participant_id} is not connected")
        if self._approvals is None or participant.source in self._waiting:
            return SpokenAnswer(
                problem=f"{participant_id} has not answered an earlier question yet"
            )
        key = f"ask-{secrets.token_hex(8)}"
        first_line = text.strip().partition("\n")[0]
        title = f"{participant_id}: {first_line}"
        request = ApprovalRequest(key, title, text, wait_s, choices=())
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[participant.source] = waiting
        self._relay.overhearing.append(self._overhears)
        try:
            await asyncio.to_thread(self._approvals.ask, request)
            if not self._say(participant, text, lang, expect_response=True):
                return SpokenAnswer(problem="the hub is not connected")
            async with asyncio.timeout(wait_s):
                answer = await answered_anywhere(
                    self._approvals, key, f"bus {participant_id}", waiting
                )
                return SpokenAnswer(answer)
        except TimeoutError:
            return SpokenAnswer(problem=f"{participant_id} did not answer in time")
        finally:
            del self._waiting[participant.source]
            self._relay.overhearing.remove(self._overhears)
            await asyncio.shield(asyncio.to_thread(withdraw, self._approvals, key))

    def _say(
        self, participant: Participant, text: str, lang: str | None, **more: object
    ) -> bool:
        context = {
            "source": self._relay.bridge.settings.bridge_id,
            "destination": participant.source,
        }
        data: dict[str, object] = {"utterance": text}
        if lang:
            data["lang"] = lang
        return self._relay.publish(Message(SPEAK, data | more, context))

    def _overhears(self, message: Message) -> bool:
        """Take what a participant says if it is to answer a question."""
        if message.type != HANDLE:
            return False
        waiting = self._waiting.get(str(message.context.get("source")))
        if waiting is None or waiting.done():
            return False
        utterances = message.data.get("utterances")
        if not isinstance(utterances, list) or not utterances:
            return False
        waiting.set_result(str(utterances[0]))
        self._relay.publish(message.reply(HANDLED, {"is_answer": True}))
        return True


async def answered_anywhere(
    approvals: Approvals, key: str, by: str, waiting: asyncio.Future[str]
) -> str:
    """Return the answer to a pending item: ours, unless somebody else is faster."""
    while not waiting.done():
        await asyncio.wait((waiting,), timeout=ELSEWHERE_S)
        given = await asyncio.to_thread(approvals.answer_to, key)
        if given is not None:
            return given
    await asyncio.to_thread(approvals.settle, key, waiting.result(), by)
    return waiting.result()


def withdraw(approvals: Approvals, key: str) -> None:
    """Withdraw a pending item, unless it was answered."""
    with suppress(BridgeheadError):
        approvals.withdraw(key)
