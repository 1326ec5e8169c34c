"""Pending items and the participants who may know of them or answer them (design §1).

An answer is taken once, wherever it is given; whoever comes second learns who was
first.
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
"""How often it is looked whether somebody else has answered."""
AT_ONCE_EACH: Final = 4
"""So many of one participant, so that nobody takes all the places."""


class PendingAnswers:
    """Where participants of one gateway answer."""

    def __init__(
        self, known: Register, approvals: Approvals | None, notices: Notices | None
    ) -> None:
        self._known = known
        self._approvals = approvals
        self._notices = notices
        self._tasks: dict[asyncio.Task[None], str] = {}
        """Each with the participant it is done for."""
        self._announced: dict[str, Notice] = {}

    def note(self, notice: Notice) -> None:
        """Remember the questions that people were told, while they are open."""
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

        False for what is meant for the assistant.
        """
        given = spoken_answer(text, next(reversed(self._announced.values()), None))
        if given is None or not self.may(participant_id, Grant.APPROVE):
            return False
        # Else a yes to one would approve another.
        if len(self._announced) > 1 and typed_answer(text) is None:
            which = f"say which: answer {given.id} {given.text}"
            reply(ItemAnswered(given.id, False, f"several questions are open; {which}"))
            return True
        seen = ItemAnswer(given.id, given.text, shown.digest_of(given.id))
        self.answer(participant_id, seen, reply)
        return True

    def may(self, participant_id: str, grant: Grant) -> bool:
        """Whether the record in force gives this right.

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
        """Give a participant's answer to a pending item and read back what became of
        it.
        """
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
        """Send what waits to a page that was just opened, if it may know."""
        is_wanted = self._notices is not None and self.may(
            participant_id, Grant.NOTICES
        )
        if (
            self._notices is not None
            and is_wanted
            and not self._is_busy(participant_id)
        ):
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


class Told(msgspec.Struct, frozen=True):
    """Whom an announcement reached."""

    participants: tuple[str, ...] = ()


class SpokenAnswer(msgspec.Struct, frozen=True):
    """What came of a question: an answer, or why there is none."""

    text: str | None = None
    problem: str | None = None


class Speaker:
    """Speaks to participants without having been asked: announcements, and questions to
    one of them.

    A question is a pending item. What its participant says next answers it and goes no
    further; somebody else may answer it instead, wherever pending items are answered.
    """

    def __init__(self, relay: Relay, approvals: Approvals | None) -> None:
        self._relay = relay
        self._approvals = approvals
        self._waiting: dict[str, asyncio.Future[str]] = {}
        """By source."""

    def announce(self, text: str, lang: str | None, site: str | None) -> Told:
        """Say it to everybody who is there for it, or to those of one site."""
        here = [
            self._relay.bridge.known.get(name)
            for name in self._relay.connected
            if self._relay.listens(name)
        ]
        return Told(
            tuple(
                participant.id
                for participant in here
                if participant is not None
                and site
                in (None, participant.site or participant.record.site_determination)
                and self._say(participant, text, lang)
            )
        )

    async def ask(
        self, participant_id: str, text: str, lang: str | None, wait_s: float
    ) -> SpokenAnswer:
        participant = self._relay.bridge.known.get(participant_id)
        if participant is None or not self._relay.listens(participant_id):
            return SpokenAnswer(problem=f"{participant_id} is not connected")
        if self._approvals is None or participant.source in self._waiting:
            return SpokenAnswer(
                problem=f"{participant_id} has not answered an earlier question yet"
            )
        key = f"ask-{secrets.token_hex(8)}"
        waiting = self._waiting[participant.source] = (
            asyncio.get_running_loop().create_future()
        )
        self._relay.overhearing.append(self._overhears)
        try:
            title = f"{participant_id}: {text.strip().partition(chr(10))[0]}"
            await asyncio.to_thread(
                self._approvals.ask,
                ApprovalRequest(key, title, text, wait_s, choices=()),
            )
            if not self._say(participant, text, lang, expect_response=True):
                return SpokenAnswer(problem="the hub is not connected")
            async with asyncio.timeout(wait_s):
                return SpokenAnswer(
                    await answered_anywhere(
                        self._approvals, key, f"bus {participant_id}", waiting
                    )
                )
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
        said = {"utterance": text, **({"lang": lang} if lang else {}), **more}
        return self._relay.publish(Message(SPEAK, said, context))

    def _overhears(self, message: Message) -> bool:
        waiting = self._waiting.get(str(message.context.get("source")))
        spoken = message.data.get("utterances")
        if (
            message.type != HANDLE
            or waiting is None
            or waiting.done()
            or not isinstance(spoken, list)
            or not spoken
        ):
            return False
        waiting.set_result(str(spoken[0]))
        self._relay.publish(message.reply(HANDLED, {"is_answer": True}))
        return True


async def answered_anywhere(
    approvals: Approvals, key: str, by: str, waiting: asyncio.Future[str]
) -> str:
    """Return the answer to a pending item.

    The one awaited here, unless somebody gives another one elsewhere first.
    """
    while not waiting.done():
        await asyncio.wait((waiting,), timeout=ELSEWHERE_S)
        given = await asyncio.to_thread(approvals.answer_to, key)
        if given is not None:
            return given
    await asyncio.to_thread(approvals.settle, key, waiting.result(), by)
    return waiting.result()


def withdraw(approvals: Approvals, key: str) -> None:
    with suppress(BridgeheadError):  # it was answered
        approvals.withdraw(key)
