"""Answers that take longer than anybody waits for: each is a pending item until it is
there, and is then told to the person on whichever of their devices is used. What is
still open survives a restart.

What was asked in a conversation of its own (a channel, an HTTP request) is told in that
conversation and nowhere else: one key may stand for many people.
"""

from __future__ import annotations

import asyncio
import logging
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
    """A question whose answer is awaited, or waits for its person."""

    id: str
    person: str
    text: str
    lang: str | None
    context: dict[str, Any]
    """Of the message that asked, so that the answer finds its conversation."""
    expires: float
    answer: str | None = None
    conversation: str | None = None
    """Where alone it may be told.

    None: to its person on any device, empty: with no other request.
    """

    @property
    def spoken(self) -> dict[str, Any]:
        """Return the answer as it is said.

        In English it names the question, which may be long ago.
        """
        asked = (
            self.text if len(self.text) <= SHOWN else self.text[:SHOWN].rstrip() + " …"
        )
        lead = f"You asked: {asked}\n" if (self.lang or "en").startswith("en") else ""
        return {"utterance": f"{lead}{self.answer or SORRY}"} | (
            {"lang": self.lang} if self.lang else {}
        )


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
        """The last message by which a person asked something, in the order of last use.
        """
        self._saving = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        relay.overhearing.append(self._overhears)

    def start(self) -> list[LaterQuestion]:
        """Go on with what was open when the bus was stopped.

        Those that must be asked again.
        """
        for question in self._kept.values():
            self._begin(question)
        return [question for question in self._kept.values() if question.answer is None]

    def keep(
        self, question_id: str, text: str, lang: str | None, entry: Message
    ) -> None:
        """Whoever asked is told later."""
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
            if question.id not in self._kept:  # others took its place
                return
            question = self._kept[question.id] = msgspec.structs.replace(
                question, answer=text
            )
            await self._save()
        while not self._delivered[question.id].is_set() and not self._tell(question):
            if self._clock.now().timestamp() > question.expires + self._later_s:
                _log.warning("no participant collected the late answer %s", question.id)
                break
            try:
                await asyncio.wait_for(self._delivered[question.id].wait(), ELSEWHERE_S)
            except TimeoutError:
                continue
        self._forget(question.id)
        await self._save()

    async def _answer(self, question: LaterQuestion) -> str:
        key = f"later-{question.id}"
        left = question.expires - self._clock.now().timestamp()
        title = f"answered later: {question.text.strip().partition(chr(10))[0]}"
        waiting = self._waiting[question.id]
        try:
            request = ApprovalRequest(
                key, title, question.text, max(left, 1.0), choices=()
            )
            await asyncio.to_thread(self._approvals.ask, request)
            async with asyncio.timeout(max(left, 1.0)):
                return await answered_anywhere(
                    self._approvals, key, "the assistant", waiting
                )
        except TimeoutError:
            await asyncio.to_thread(withdraw, self._approvals, key)
            return SORRY
        # The record is away, which is no reason not to answer.
        except BridgeheadError as error:
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
        """Return the conversation of its own that something was asked in, None where it
        is its person's.
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
        """Whether the answer may be told to whoever asks this now."""
        if question.person != self._person(asking.context.get("source")):
            return False
        turn = self._turns.of(asking.context.get("utterance_id"))
        if turn is not None:
            return question.conversation in turn.continues
        return question.conversation == self._conversation(asking)

    def _tell(self, question: LaterQuestion) -> bool:
        """Say it in its conversation, or where the person last asked something, else on
        another device of theirs.
        """
        if question.conversation is not None:
            return self._tell_in_conversation(question)
        here = [
            participant
            for participant in self._relay.bridge.known
            if person_of(participant.record) == question.person
            and self._relay.listens(participant.id)
        ]
        if not here:
            return False
        last = self._last.get(question.person) or Message(HANDLE, {}, question.context)
        sources = [participant.source for participant in here]
        if last.context.get("source") in sources:
            return self._publish_late(last, question)
        context = {
            "source": self._relay.bridge.settings.bridge_id,
            "destination": here[0].source,
        }
        return self._relay.publish(Message(SPEAK, question.spoken, context))

    def _tell_in_conversation(self, question: LaterQuestion) -> bool:
        """Say it in the channel that asked, if somebody listens there."""
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
        """Note which device a person uses.

        One that comes and goes is told what waits before its own answer.
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
    """Return whose device it is: the person in its record, else its own and nobody
    else's.
    """
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
