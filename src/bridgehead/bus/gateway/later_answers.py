"""Answers that take longer than anybody waits for.

A question is a pending item until its answer is there; then the person hears it on
whichever of their devices they use. Open questions survive a restart.

The answer to something that was asked in a separate conversation (a channel, an HTTP
request) is given in that conversation and nowhere else, because many people may share
one key.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.bus.assistant.assistant import SORRY
from bridgehead.bus.gateway.http_turns import HttpTurns
from bridgehead.bus.gateway.pending_answers import (
    ELSEWHERE_S,
    answered_anywhere,
    withdraw,
)
from bridgehead.bus.interfaces import ApprovalRequest, Approvals
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.relay import Relay
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import HANDLE, SPEAK
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import Clock
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic

_log: Final = logging.getLogger("bridgehead.bus")
MAX_BYTES: Final = 16 * 1024 * 1024
MOST_KEPT: Final = 64
MOST_PEOPLE: Final = 1000
SHOWN: Final = 60
"""Characters of a question that are repeated with its answer."""


class LaterQuestion(msgspec.Struct, frozen=True):
    """A question without an answer yet, or whose answer was not delivered yet."""

    id: str
    person: str
    text: str
    lang: str | None
    context: dict[str, Any]
    """The context of the message that asked, by which the answer is addressed."""
    expires: float
    answer: str | None = None
    conversation: str | None = None
    """The only conversation in which it may be answered.

    None means on any device of its person; empty means with no other request.
    """

    @property
    def spoken(self) -> dict[str, Any]:
        """Return the data of the message that speaks the answer.

        In English it repeats the question, which may have been asked long ago.
        """
        text = self.answer or SORRY
        is_english = (self.lang or "en").startswith("en")
        if is_english:
            text = f"You asked: {self._shortened}\n{text}"
        if not self.lang:
            return {"utterance": text}
        return {"utterance": text, "lang": self.lang}

    @property
    def _shortened(self) -> str:
        if len(self.text) <= SHOWN:
            return self.text
        return self.text[:SHOWN].rstrip() + " …"


class LaterAnswers:
    """The open questions of one bus, and whom their answers are for."""

    def __init__(
        self,
        relay: Relay,
        approvals: Approvals,
        path: Path,
        clock: Clock,
        later_s: float,
        turns: HttpTurns | None = None,
    ) -> None:
        self._relay = relay
        self._approvals = approvals
        self._path = path
        self._clock = clock
        self._later_s = later_s
        self._turns = turns or HttpTurns()
        self._kept = _read(path)
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._delivered: dict[str, asyncio.Event] = {}
        self._last: dict[str, Message] = {}
        """The last message of each person that asked something, by time of use."""
        self._saving = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        relay.overhearing.append(self._overhears)

    def start(self) -> list[LaterQuestion]:
        """Go on with what was open when the bus stopped.

        Return the questions that must be asked again.
        """
        for question in self._kept.values():
            self._begin(question)
        return [question for question in self._kept.values() if question.answer is None]

    def keep(
        self, question_id: str, text: str, lang: str | None, entry: Message
    ) -> None:
        """Keep a question whose answer will come later."""
        person = self._person(entry.context.get("source"))
        expires = self._clock.now().timestamp() + self._later_s
        if len(self._kept) >= MOST_KEPT:
            self._forget(next(iter(self._kept)))
        self._kept[question_id] = LaterQuestion(
            question_id,
            person,
            text,
            lang,
            entry.context,
            expires,
            conversation=self._conversation(entry),
        )
        self._begin(self._kept[question_id])

    def answered(self, question_id: str, text: str) -> None:
        """Take the answer, or note that there is none."""
        waiting = self._waiting.get(question_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(text.strip() or SORRY)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- one question ---------------------------------------------------------

    def _begin(self, question: LaterQuestion) -> None:
        self._waiting[question.id] = asyncio.get_running_loop().create_future()
        self._delivered[question.id] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._attend(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, question: LaterQuestion) -> None:
        await self._save()
        if question.answer is None:
            text = await self._answer(question)
            if question.id not in self._kept:  # dropped to make room for others
                return
            question = msgspec.structs.replace(question, answer=text)
            self._kept[question.id] = question
            await self._save()
        await self._deliver(question)
        self._forget(question.id)
        await self._save()

    async def _deliver(self, question: LaterQuestion) -> None:
        """Try to deliver an answer until somebody has it or it has expired."""
        delivered = self._delivered[question.id]
        while not delivered.is_set() and not self._tell(question):
            if self._clock.now().timestamp() > question.expires + self._later_s:
                _log.warning("no participant collected the late answer %s", question.id)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(delivered.wait(), ELSEWHERE_S)

    async def _answer(self, question: LaterQuestion) -> str:
        """Return the answer of the assistant, or what a person answered instead."""
        key = f"later-{question.id}"
        first_line = question.text.strip().partition("\n")[0]
        title = f"answered later: {first_line}"
        remaining_s = max(question.expires - self._clock.now().timestamp(), 1.0)
        waiting = self._waiting[question.id]
        try:
            request = ApprovalRequest(
                key, title, question.text, remaining_s, choices=()
            )
            await asyncio.to_thread(self._approvals.ask, request)
            async with asyncio.timeout(remaining_s):
                return await answered_anywhere(
                    self._approvals, key, "the assistant", waiting
                )
        except TimeoutError:
            await asyncio.to_thread(withdraw, self._approvals, key)
            return SORRY
        except BridgeheadError as error:
            # The list of pending items is unavailable; the assistant still answers.
            _log.warning("%s", error)
            return await waiting

    def _forget(self, question_id: str) -> None:
        self._kept.pop(question_id, None)
        self._waiting.pop(question_id, None)

    async def _save(self) -> None:
        async with self._saving:
            kept = msgspec.json.encode(list(self._kept.values()))
            try:
                await asyncio.to_thread(write_atomic, self._path, kept, private=True)
            except BridgeheadError as error:
                _log.error("%s", error)

    # -- the person -----------------------------------------------------------

    def _person(self, source: object) -> str:
        participant = self._relay.bridge.known.by_source(str(source))
        return person_of(participant.record) if participant is not None else str(source)

    def _conversation(self, message: Message) -> str | None:
        """Return the separate conversation a message belongs to.

        None if it belongs to whatever its person says on any device.
        """
        turn = self._turns.of(message.context.get("utterance_id"))
        if turn is not None:
            return turn.conversation
        participant = self._relay.bridge.known.by_source(
            str(message.context.get("source"))
        )
        if participant is None or participant.record.person:
            return None
        hub_session = context_session_id(message.context)
        channel = participant.sessions.get(hub_session, hub_session)
        is_channel = participant.record.mode == "manage" and channel != hub_session
        return f"channel {channel}" if is_channel else None

    def _may_be_given(self, question: LaterQuestion, asking: Message) -> bool:
        """Return whether the sender of this message may hear the answer."""
        if question.person != self._person(asking.context.get("source")):
            return False
        turn = self._turns.of(asking.context.get("utterance_id"))
        if turn is not None:
            return question.conversation in turn.continues
        return question.conversation == self._conversation(asking)

    def _tell(self, question: LaterQuestion) -> bool:
        """Say the answer and return whether somebody could hear it.

        It is said in its conversation; if it has none, where the person last asked
        something, or else on another device of theirs.
        """
        if question.conversation is not None:
            return self._tell_in_conversation(question)
        sources = [
            participant.source
            for participant in self._relay.bridge.known
            if person_of(participant.record) == question.person
            and self._relay.listens(participant.id)
        ]
        if not sources:
            return False
        last = self._last.get(question.person) or Message(HANDLE, {}, question.context)
        if last.context.get("source") in sources:
            return self._publish_late(last, question)
        context = {
            "source": self._relay.bridge.settings.bridge_id,
            "destination": sources[0],
        }
        return self._relay.publish(Message(SPEAK, question.spoken, context))

    def _tell_in_conversation(self, question: LaterQuestion) -> bool:
        """Say the answer in the channel that asked, if somebody listens there."""
        asker = self._relay.bridge.known.by_source(str(question.context.get("source")))
        is_over_http = not str(question.conversation).startswith("channel ")
        if is_over_http or asker is None or not self._relay.listens(asker.id):
            return False
        return self._publish_late(Message(HANDLE, {}, question.context), question)

    def _publish_late(self, asked: Message, question: LaterQuestion) -> bool:
        """Reply to a message with the late answer to a question."""
        reply = asked.reply(SPEAK, question.spoken)
        context = {**reply.context, "late": True}
        return self._relay.publish(Message(SPEAK, reply.data, context))

    def _overhears(self, message: Message) -> bool:
        """Note which device a person uses, and tell it the answers that wait.

        A device that is there only while it asks hears them before its own answer.
        """
        if message.type != HANDLE:
            return False
        if self._conversation(message) is None:
            self._note_device(message)
        for question in self._kept.values():
            delivered = self._delivered[question.id]
            if question.answer is None or delivered.is_set():
                continue
            if not self._may_be_given(question, message):
                continue
            if self._relay.publish(message.reply(SPEAK, question.spoken)):
                delivered.set()
        return False

    def _note_device(self, message: Message) -> None:
        person = self._person(message.context.get("source"))
        self._last.pop(person, None)
        self._last[person] = Message(HANDLE, {}, message.context)
        if len(self._last) > MOST_PEOPLE:
            del self._last[next(iter(self._last))]


def person_of(record: ParticipantRecord) -> str:
    """Return a name for the person who uses a device; without one, the device's own."""
    return f"person {record.person}" if record.person else record.id


def _read(path: Path) -> dict[str, LaterQuestion]:
    try:
        kept = msgspec.json.decode(
            read_bounded(path, MAX_BYTES), type=list[LaterQuestion]
        )
    except FileMissing:
        return {}
    except (msgspec.DecodeError, BridgeheadError) as error:
        _log.warning("%s: a pending answer was lost: %s", path, error)
        return {}
    return {question.id: question for question in kept}
