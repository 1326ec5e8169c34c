"""The voice door: a Wyoming satellite (a microphone and a speaker in a room) talks to
the assistant.

The satellite waits for us at its address; we connect, hear what its microphone sends,
and speak through it. Each is a participant of its own, which is there for the bus while
it is connected.
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
"""Audio is read eight times as fast as it is spoken, so that nobody keeps the bus busy.
"""
EVENT_BYTES: Final = 512
"""What an event counts for at least."""
MOST_WAITING: Final = 512
"""Pieces of audio, or texts to be spoken, that wait.

What comes after that is left out.
"""
LEAD_S: Final = 0.3
"""So much speech is sent ahead of its time: enough not to stutter, and little to be
heard after a stop.
"""
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

    # -- Door -----------------------------------------------------------------

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
        """Do nothing; the protocol has no sign for it."""

    def hush(self) -> None:
        if self._speaking is not None and not self._speaking.done():
            self._texts = asyncio.Queue()
            self._speaking.cancel()

    # -- what is heard --------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            event = await self._peer.event()
            audio = event.payload or b""
            await asyncio.sleep(max(len(audio), EVENT_BYTES) / FASTEST)
            audio_format = {name: event.data.get(name) for name in MICROPHONE}
            if audio and audio_format != MICROPHONE:
                raise ProtocolError(
                    "its microphone must send 16 kHz, 16 bits, one channel"
                )
            if event.type in ("audio-chunk", "audio-stop"):
                if self._audio.qsize() < MOST_WAITING:
                    self._audio.put_nowait(audio)
            elif event.type == "run-pipeline":
                # A satellite without a wake stage listens this once, because somebody
                # has called it or pressed a button.
                await self._start_listening(
                    always=event.data.get("start_stage") == "wake"
                )

    async def _start_listening(self, *, always: bool) -> None:
        """Begin to listen from now on, or this once."""
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
        has_excused = False
        while True:
            try:
                if always and self._speech.wake is not None:
                    await self._speech.detect(self._audio)
                    await self._peer.send("detection")
                    self.hush()
                await self._hear(was_called=not always or self._speech.wake is not None)
                has_excused = False
            except (OSError, BridgeheadError) as error:
                _log.warning("%s: %s: %s", self._record.id, type(error).__name__, error)
                # Else it would send audio for ever.
                await self._peer.send("transcript", {"text": ""})
                if not has_excused:
                    self.speak("", DEAF, None, is_open=False)
                    has_excused = True
                await asyncio.sleep(RETRY_S if always else 0)
                self._audio = asyncio.Queue()
            if not always:
                return

    async def _hear(self, *, was_called: bool) -> None:
        """Understand what is said next.

        Who listens all the time hears itself speak; then only `stop` counts.
        """
        utterance = Utterance()
        only_stop_counts = await self._record_utterance(utterance)
        if not utterance.said and not was_called:
            return
        await self._peer.send("voice-stopped")
        text = ""
        if utterance.said:
            only = STOP_WORD if only_stop_counts else None
            text = await self._speech.recognise(bytes(utterance.said), only)
        await self._peer.send("transcript", {"text": text})
        has_stop_word = not STOP_WORDS.isdisjoint(text.lower().split())
        if has_stop_word and (only_stop_counts or self._open):
            self.hush()
            text = STOP_WORD if self._open else ""
        elif only_stop_counts:
            return
        if text.strip():
            self.heard("", text, secrets.token_hex(8))

    async def _record_utterance(self, utterance: Utterance) -> bool:
        """Record until a pause; return whether we were speaking ourselves meanwhile."""
        was_speaking = False
        is_over = False
        while not is_over:
            audio = await self._audio.get()
            if not audio:
                break
            is_over = utterance.add(audio)
            if utterance.said and self._is_speaking():
                was_speaking = True
        return was_speaking

    def _is_speaking(self) -> bool:
        """Return whether speech is under way that was not hushed."""
        speech = self._speaking
        return speech is not None and not speech.done() and not speech.cancelling()

    # -- what is said ---------------------------------------------------------

    async def _speak_all(self) -> None:
        while True:
            self._speaking = asyncio.get_running_loop().create_task(
                self._say(await self._texts.get())
            )
            await asyncio.wait((self._speaking,))
            if self._speaking.cancelled():
                continue
            error = self._speaking.exception()
            if error is not None:
                _log.warning("%s: %s: %s", self._record.id, type(error).__name__, error)

    async def _say(self, text: str) -> None:
        """Speak at the pace at which it is heard, so that it ends at once when it is to
        end.
        """
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
                    frame_bytes = form["width"] * form["channels"]
                    bytes_per_second = form["rate"] * frame_bytes
                    chunk_bytes = form["rate"] // 10 * frame_bytes
                    for at in range(0, len(audio), chunk_bytes):
                        chunk = audio[at : at + chunk_bytes]
                        await asyncio.sleep(started + sent_s - LEAD_S - now())
                        await self._peer.send("audio-chunk", form, chunk)
                        sent_s += len(chunk) / bytes_per_second
            await asyncio.sleep(started + sent_s - now())
        finally:
            if started:
                await self._peer.send("audio-stop")
