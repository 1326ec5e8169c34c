"""A door: people of another network (chat rooms, voice devices) talk to the bus without
knowing of it.

A door is one participant in managing mode; each of its rooms is a channel with a
session of its own. To add one, derive from `Door` and write three methods: `run` stays
connected to the network and calls `heard` for what is said there, `speak` says
something in a room, `think` shows there that an answer is being made. One that can show
an answer while it is made says so by `shows_pieces` and writes `piece`, too; one with
many people behind it makes each room a participant by `participant`. Everything else is
the bus's: sessions, policy and limits of the record, turns, late answers.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, Final

import msgspec

from bridgehead.bus.actions import CloseCode, Delivery
from bridgehead.bus.client.participant import (
    LONGEST_WAIT_S,
    REFUSED,
    waits,
)
from bridgehead.bus.interfaces import ItemAnswered, Notice, ShownQuestions
from bridgehead.bus.participants.record import Grant, ParticipantRecord
from bridgehead.bus.relay import Relay
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import HANDLED, NOTICE, PIECE, SPEAK, STOP
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")
STOP_WORDS: Final = frozenset({"stop", "!stop"})
WORTH_SAYING: Final = frozenset({"needs_you", "finished", "failed"})
"""The notices that are worth a word in a room."""


class Door(ABC):
    """What the bus does for every door; see above for what a door does itself."""

    listens = True
    shows_pieces = False
    longest_notice = 4000

    def __init__(self, relay: Relay, record: ParticipantRecord) -> None:
        self._relay = relay
        self._record = record
        self._open: dict[str, str] = {}
        """Questions without an end marker, each with its room."""
        self._shown: dict[str, ShownQuestions] = {}
        """The questions in view, for each participant of this door."""
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def run(self) -> None:
        """Be connected and listen.

        Whatever it raises, it is called again after a while.
        """

    @abstractmethod
    def speak(
        self, room: str, text: str, message_id: str | None, *, is_open: bool
    ) -> None:
        """Say `text` in a room, as an answer to a message where there is one.

        Must not wait.
        """

    @abstractmethod
    def think(self, room: str, message_id: str, *, on: bool) -> None:
        """Show that an answer to a message is being made, or no longer.

        Must not wait.
        """

    def piece(self, room: str, text: str, message_id: str) -> None:  # noqa: B027
        """Show one more piece of an answer; must not wait.

        In the end every door speaks the whole.
        """

    def participant(self, room: str) -> str:
        """Return who speaks in a room: the door itself, unless its rooms take part each
        for itself.
        """
        return self._record.id

    def heard(self, room: str, text: str, message_id: str) -> None:
        """Take what a person said in a room, under an id that the network gave it."""
        speaker = self.participant(room)
        is_answer = self._relay.hears_answer(
            speaker,
            text,
            self._shown_to(speaker),
            lambda result: self._read_back(room, speaker, result),
        )
        if is_answer:
            return
        value: dict[str, Any] = {
            "text": text,
            "channel": room,
            "utterance_id": message_id,
        }
        if self.shows_pieces:
            value["pieces"] = True
        if text.strip().lower() in STOP_WORDS and room in self._open.values():
            value = {"type": STOP, "channel": room}
        else:
            self._open[message_id] = room
            self.think(room, message_id, on=True)
        self._relay.take(speaker, msgspec.json.encode(value), value=value)

    def _shown_to(self, participant_id: str) -> ShownQuestions:
        return self._shown.setdefault(participant_id, ShownQuestions())

    def _read_back(self, room: str, participant_id: str, result: ItemAnswered) -> None:
        """Say the result of an answer, and repeat the question if it has changed."""
        lines = [result.sentence]
        if result.notice is not None:
            self._shown_to(participant_id).show(result.notice)
            lines.append(result.notice.words(self.longest_notice, may_answer=True))
        self.speak(room, "\n".join(lines), None, is_open=False)

    def hush(self) -> None:  # noqa: B027
        """Stop speaking; a door that shows text has nothing to stop."""

    async def start(self) -> None:
        await self.join()
        self.keep_running()

    async def join(self) -> None:
        entering = self._relay.join(self._record, self)
        if entering is None:
            return
        error = await entering
        if error is not None:
            raise error

    def keep_running(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep_running())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._relay.leave(self._record.id, self)

    async def _keep_running(self) -> None:
        now = asyncio.get_running_loop().time
        pauses = waits()
        while True:
            began = now()
            try:
                await self.run()
            except BridgeheadError as error:
                _log.warning("%s: %s", self._record.id, error)
            # A network is a guest: the bus goes on without it.
            except Exception as error:
                kind = type(error).__name__
                _log.warning("%s: %s: %s", self._record.id, kind, error)
            if now() - began > LONGEST_WAIT_S:
                pauses = waits()
            await asyncio.sleep(next(pauses))

    # -- ParticipantConnection ------------------------------------------------

    def welcome(self, source: str) -> None:
        _log.debug("%s is %s on the bus", self._record.id, source)

    def deliver(self, delivery: Delivery, place: str = "") -> None:
        """Say what the bus says.

        `place` is the room for what is said outside of conversations.
        """
        if delivery.topic == STOP:
            self.hush()
        if delivery.topic not in (PIECE, SPEAK, HANDLED, NOTICE):
            return
        message = msgspec.json.decode(delivery.body)
        data = message["data"]
        message_id = message["context"].get("utterance_id")
        is_open = message_id in self._open
        room = context_session_id(message["context"])
        if place and room.partition(" ")[0] != place:
            room = place
        if delivery.topic == NOTICE:
            self._show_notice(msgspec.convert(data, Notice), room, place)
        elif delivery.topic == SPEAK:
            self._shown_to(delivery.participant).speak()
            self.speak(
                room, str(data.get("utterance", "")), message_id, is_open=is_open
            )
        elif not is_open:
            return
        elif delivery.topic == PIECE:
            self._shown_to(delivery.participant).speak()
            self.piece(room, str(data.get("text", "")), message_id)
        else:
            del self._open[message_id]
            self.think(room, message_id, on=False)

    def _show_notice(self, notice: Notice, room: str, place: str) -> None:
        """Say a notice that is worth a word, and keep its question in view."""
        if notice.status not in WORTH_SAYING:
            return
        if not place and not self.listens:
            return
        reader = self.participant(place) if place else self._record.id
        known = self._relay.bridge.known.get(reader)
        may_answer = known is not None and known.record.has(Grant.APPROVE)
        self._shown_to(reader).show(notice)
        text = notice.words(self.longest_notice, may_answer=may_answer)
        self.speak(room, text, None, is_open=False)

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        """Say that a message was refused.

        The one that is named, else the newest, which is being taken.
        """
        newest = next(reversed(self._open), "")
        message_id = str(details.get("utterance_id", newest))
        room = self._open.get(message_id)
        if room is None:
            return
        reason = REFUSED.get(code, f"The bridge refused that ({code}).")
        self.speak(room, reason, message_id, is_open=True)
        del self._open[message_id]
        self.think(room, message_id, on=False)

    def close(self, code: CloseCode) -> None:
        if self._task is not None:
            self._task.cancel()
