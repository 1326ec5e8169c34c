"""The voice door: a Wyoming satellite (a microphone and a speaker in a room) talks to the assistant.

The satellite waits for us at its address; we connect, hear what its microphone sends, and speak through it. Each is a
participant of its own, which is there for the bus while it is connected.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from typing import Final

from bridgehead.bus.gateway.doors.door import STOP_WORDS, Door
from bridgehead.bus.gateway.doors.speech import (
    MICROPHONE,
    SECOND,
    Speech,
    Utterance,
    WyomingPeer,
    connected,
)
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.relay import Relay
from bridgehead.errors import BridgeheadError, ProtocolError

_log: Final = logging.getLogger("bridgehead.bus.voice")
FASTEST: Final = 8 * SECOND
"""Audio is read eight times as fast as it is spoken, so that nobody keeps the bus busy."""
EVENT_BYTES: Final = 512
"""What an event counts for at least."""
MOST_WAITING: Final = 512
"""Pieces of audio, or texts to be spoken, that wait; what comes after that is left out."""
LEAD_S: Final = 0.3
"""So much speech is sent ahead of its time: enough not to stutter, and little to be heard after a stop."""
STOP_WORD: Final = "stop"
RETRY_S: Final = 5.0
DEAF: Final = "I cannot understand speech right now."


class VoiceDoor(Door):
    """One satellite."""

    longest_notice = 400

    def __init__(
        self, relay: Relay, record: ParticipantRecord, *, url: str, speech: Speech
    ) -> None:
        super().__init__(relay, record)
        self._url = url
        self._speech = speech
        self._peer: WyomingPeer
        self._audio: asyncio.Queue[bytes] = asyncio.Queue()
        """What the microphone sends; an empty piece is its end."""
        self._texts: asyncio.Queue[str] = asyncio.Queue()
        self._listening: asyncio.Task[None] | None = None
        self._speaking: asyncio.Task[None] | None = None

    # -- Door -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.keep_running()  # it joins when the satellite is there

    async def run(self) -> None:
        async with connected(self._url) as self._peer:
            await self.join()
            speaking = asyncio.get_running_loop().create_task(self._speak_all())
            try:
                await self._peer.send("run-satellite")
                await self._receive()
            finally:
                self._relay.leave(self._record.id, self)
                self.hush()
                tasks = [
                    task
                    for task in (speaking, self._listening, self._speaking)
                    if task is not None
                ]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def speak(
        self, room: str, text: str, message_id: str | None, *, is_open: bool
    ) -> None:
        if self._texts.qsize() < MOST_WAITING:
            self._texts.put_nowait(text)

    def think(self, room: str, message_id: str, *, on: bool) -> None:
        """The protocol has no sign for it."""

    def hush(self) -> None:
        if self._speaking is not None and not self._speaking.done():
            self._texts = asyncio.Queue()
            self._speaking.cancel()

    # -- what is heard --------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            event = await self._peer.event()
            await asyncio.sleep(max(len(event.payload or b""), EVENT_BYTES) / FASTEST)
            if (
                event.payload
                and {name: event.data.get(name) for name in MICROPHONE} != MICROPHONE
            ):
                raise ProtocolError(
                    "its microphone must send 16 kHz, 16 bits, one channel"
                )
            if (
                event.type in ("audio-chunk", "audio-stop")
                and self._audio.qsize() < MOST_WAITING
            ):
                self._audio.put_nowait(event.payload or b"")
            elif event.type == "run-pipeline":
                # It listens all the time from now on, or this once, because somebody has called it or pressed a button.
                always = event.data.get("start_stage") == "wake"
                if not always:
                    self.hush()
                if self._listening is not None:
                    self._listening.cancel()
                    await asyncio.wait((self._listening,))
                self._audio = asyncio.Queue()
                self._listening = asyncio.get_running_loop().create_task(
                    self._listen(always=always)
                )

    async def _listen(self, *, always: bool) -> None:
        is_told = False
        while True:
            try:
                if always and self._speech.wake is not None:
                    await self._speech.detect(self._audio)
                    await self._peer.send("detection")
                    self.hush()
                await self._hear(was_called=not always or self._speech.wake is not None)
                is_told = False
            except (OSError, BridgeheadError) as error:
                _log.warning("%s: %s: %s", self._record.id, type(error).__name__, error)
                # Else it would send audio for ever.
                await self._peer.send("transcript", {"text": ""})
                if not is_told:
                    self.speak("", DEAF, None, is_open=False)
                    is_told = True
                await asyncio.sleep(RETRY_S if always else 0)
                self._audio = asyncio.Queue()
            if not always:
                return

    async def _hear(self, *, was_called: bool) -> None:
        """Understand what is said next. Who listens all the time hears itself speak; then only `stop` counts."""
        utterance = Utterance()
        only = None
        is_over = False
        while not is_over and (audio := await self._audio.get()):
            is_over = utterance.add(audio)
            # Speech that was hushed may take a moment to end, and does not count.
            if (
                utterance.said
                and (speech := self._speaking)
                and not (speech.done() or speech.cancelling())
            ):
                only = STOP_WORD  # also when the speech ends before the pause behind it
        if not utterance.said and not was_called:
            return
        await self._peer.send("voice-stopped")
        text = (
            await self._speech.recognise(bytes(utterance.said), only)
            if utterance.said
            else ""
        )
        await self._peer.send("transcript", {"text": text})
        if STOP_WORDS.intersection(text.lower().split()) and (only or self._open):
            self.hush()
            text = STOP_WORD if self._open else ""
        elif only:
            return
        if text.strip():
            self.heard("", text, secrets.token_hex(8))

    # -- what is said ---------------------------------------------------------------------------------------------

    async def _speak_all(self) -> None:
        while True:
            self._speaking = asyncio.get_running_loop().create_task(
                self._say(await self._texts.get())
            )
            await asyncio.wait((self._speaking,))
            if (
                not self._speaking.cancelled()
                and (error := self._speaking.exception()) is not None
            ):
                _log.warning("%s: %s: %s", self._record.id, type(error).__name__, error)

    async def _say(self, text: str) -> None:
        """Speak at the pace at which it is heard, so that it ends at once when it is to end."""
        now = asyncio.get_running_loop().time
        started = 0.0
        sent_s = 0.0
        await self._peer.send("synthesize", {"text": text})
        try:
            async with aclosing(
                self._speech.synthesise(text, self._record.lang)
            ) as pieces:
                async for form, audio in pieces:
                    if not started:
                        started = now()
                        await self._peer.send("audio-start", form)
                    a_second = form["rate"] * form["width"] * form["channels"]
                    size = form["rate"] // 10 * form["width"] * form["channels"]
                    for at in range(0, len(audio), size):
                        await asyncio.sleep(started + sent_s - LEAD_S - now())
                        await self._peer.send(
                            "audio-chunk", form, audio[at : at + size]
                        )
                        sent_s += len(audio[at : at + size]) / a_second
            await asyncio.sleep(started + sent_s - now())
        finally:
            if started:
                await self._peer.send("audio-stop")
