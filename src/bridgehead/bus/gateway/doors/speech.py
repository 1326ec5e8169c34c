"""Words from audio and audio from words: Wyoming services by URL, else pocketsphinx and
espeak-ng on this machine.

What a peer announces is bounded before it is read. The built-in two run in processes of
their own: recognition takes seconds, holds Python's lock meanwhile, and is ended by
ending its process.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from pocketsphinx import Decoder, Endpointer
from wyoming.event import Event, async_read_event, async_write_event

from bridgehead.bus.sockets.dial import keep_alive
from bridgehead.errors import BridgeheadError, ProtocolError, UserError
from bridgehead.host.command import our_python
from bridgehead.host.process import Cancel, Command, Ended, run

MICROPHONE: Final = {"rate": 16_000, "width": 2, "channels": 1}
SECOND: Final = 32_000
"""Bytes of a second of that."""
PAUSE: Final = SECOND // 2
MAX_SAID: Final = 30 * SECOND
MAX_SILENCE: Final = 15 * SECOND
MAX_EVENT_BYTES: Final = 256 * 1024
MAX_TEXT: Final = 2000
CONNECT_S: Final = 10.0
WORK_S: Final = 60.0
"""How long a service, or a program in its place, may take for one piece of work."""
AT_ONCE: Final = 2
"""Programs under way at once.

Each satellite has one for each direction at most, so they take turns.
"""
SURE: Final = 1e-18
"""How sure pocketsphinx must be of the one word it listens for.

Less hears it in other words, too.
"""
_RECOGNISER: Final = our_python(
    "-c", "from bridgehead.bus.gateway.doors.speech import main; main()"
)


class WyomingPeer(asyncio.StreamReader):
    """A connection to a satellite or a service, on which nobody announces more than we
    keep.
    """

    writer: asyncio.StreamWriter

    async def readexactly(self, n: int) -> bytes:
        if n > MAX_EVENT_BYTES:
            raise ProtocolError(
                f"an event of {n} bytes was announced; the limit is {MAX_EVENT_BYTES}"
            )
        return await super().readexactly(n)

    async def event(self, *kinds: str) -> Event:
        """Return the next event, or the next of these kinds."""
        while True:
            try:
                event = await async_read_event(self)
            except (
                AttributeError,
                KeyError,
                TypeError,
                RecursionError,
                EOFError,
            ) as error:
                raise ProtocolError(
                    f"not a Wyoming event: {type(error).__name__}"
                ) from error
            if event is None or not isinstance(event.data, dict):
                raise ConnectionError("the connection ended")
            if kinds and event.type == "error":
                raise BridgeheadError(
                    f"the speech service failed: {str(event.data.get('text'))[:200]}"
                )
            if not kinds or event.type in kinds:
                return event

    async def send(
        self,
        kind: str,
        data: Mapping[str, object] | None = None,
        payload: bytes | None = None,
    ) -> None:
        async with asyncio.timeout(CONNECT_S):
            await async_write_event(Event(kind, {**(data or {})}, payload), self.writer)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[WyomingPeer]:
    """Yield a connection to `tcp://host:port`, which notices in a minute that the other
    side has lost its power.
    """
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    peer = WyomingPeer()
    async with asyncio.timeout(CONNECT_S):
        transport, protocol = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(peer),
            str(parts.hostname),
            parts.port or 0,
        )
    peer.writer = asyncio.StreamWriter(transport, protocol, peer, loop)
    keep_alive(transport)
    try:
        yield peer
    finally:
        transport.abort()


class Utterance:
    """Cuts out of a stream what is said next: from its first word to the pause behind
    it.
    """

    def __init__(self) -> None:
        self._endpointer = Endpointer(sample_rate=MICROPHONE["rate"])
        self._rest = b""
        self._silence = 0
        self.said = bytearray()

    def add(self, audio: bytes) -> bool:
        """Take some more; whether it is over: after a pause, at the greatest length, or
        because nobody speaks.
        """
        self._rest += audio
        size = self._endpointer.frame_bytes
        while len(self._rest) >= size:
            self.said += self._endpointer.process(self._rest[:size]) or b""
            self._rest = self._rest[size:]
            self._silence = 0 if self._endpointer.in_speech else self._silence + size
        return (
            self._silence >= (PAUSE if self.said else MAX_SILENCE)
            or len(self.said) >= MAX_SAID
        )


class Speech:
    """What the satellites of one bus share: three services.

    None of the first two stands for the built-in one.
    """

    def __init__(
        self, stt: str | None, tts: str | None, wake: str | None, lang: str | None
    ) -> None:
        if tts is None and shutil.which("espeak-ng") is None:
            hint = (
                "apt install espeak-ng, or set voice_tts to tcp://HOST:PORT of a "
                "Wyoming service"
            )
            raise UserError(
                "espeak-ng is not installed, and voice_tts of [bus] is not set",
                hint=hint,
            )
        self._stt = stt
        self._tts = tts
        self.wake = wake
        self._lang = lang
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def recognise(self, audio: bytes, only: str | None = None) -> str:
        """Return the words in the audio, perhaps none.

        With `only`, listen for that word alone.
        """
        if self._stt is None:
            return (
                await self._run((*_RECOGNISER, *([only] if only else ())), audio)
            ).decode()
        async with asyncio.timeout(WORK_S), connected(self._stt) as peer:
            await peer.send(
                "transcribe", {"language": self._lang} if self._lang else {}
            )
            await peer.send("audio-start", MICROPHONE)
            for at in range(0, len(audio), SECOND):
                await peer.send("audio-chunk", MICROPHONE, audio[at : at + SECOND])
            await peer.send("audio-stop")
            return str((await peer.event("transcript")).data.get("text", ""))

    async def detect(self, heard: asyncio.Queue[bytes]) -> None:
        """Return when the wake word is among what is heard."""
        async with connected(str(self.wake)) as peer:
            await peer.send("detect")
            await peer.send("audio-start", MICROPHONE)

            async def pass_on() -> None:
                while True:
                    await peer.send("audio-chunk", MICROPHONE, await heard.get())

            passing = asyncio.get_running_loop().create_task(pass_on())
            try:
                await peer.event("detection")
            finally:
                passing.cancel()
                await asyncio.gather(passing, return_exceptions=True)

    async def synthesise(
        self, text: str, lang: str | None
    ) -> AsyncGenerator[tuple[dict[str, int], bytes], None]:
        """Yield the text spoken, in pieces as they are made, each with its form."""
        lang = lang or self._lang
        if self._tts is None:
            wav = await self._run(
                ("espeak-ng", "--stdin", "--stdout", "-v", lang or "en-us"),
                text[:MAX_TEXT].encode(),
            )
            yield {**MICROPHONE, "rate": int.from_bytes(wav[24:28], "little")}, wav[44:]
            return
        async with connected(self._tts) as peer:
            await peer.send(
                "synthesize",
                {
                    "text": text[:MAX_TEXT],
                    **({"voice": {"language": lang}} if lang else {}),
                },
            )
            while True:
                async with asyncio.timeout(WORK_S):
                    event = await peer.event("audio-chunk", "audio-stop")
                if event.type == "audio-stop":
                    return
                yield (
                    {name: int(event.data.get(name, 0)) for name in MICROPHONE},
                    event.payload or b"",
                )

    async def _run(self, argv: tuple[str, ...], given: bytes) -> bytes:
        cancel = Cancel()
        command = Command(argv, stdin=given)
        try:
            async with self._turns:
                done = await asyncio.to_thread(
                    run,
                    command,
                    timeout_seconds=WORK_S,
                    idle_seconds=None,
                    cancel=cancel,
                )
        finally:
            cancel.cancel()  # whoever stopped waiting wants no more of it
        if done.ended is not Ended.EXITED or done.exit_code != 0:
            raise BridgeheadError(
                f"{argv[0]} failed: "
                f"{done.reason or done.error_text().strip()[-200:] or done.ended}"
            )
        return done.stdout


def main() -> None:
    """Print what is said in the audio on standard input.

    With a word as argument, that word if it is in there.
    """
    only = (
        {"lm": None, "keyphrase": sys.argv[1], "kws_threshold": SURE}
        if sys.argv[1:]
        else {}
    )
    decoder = Decoder(samprate=MICROPHONE["rate"], loglevel="FATAL", **only)
    decoder.start_utt()
    # Around a word of its own; without it short ones are not understood.
    silence = bytes(SECOND // 4)
    decoder.process_raw(silence + sys.stdin.buffer.read() + silence, full_utt=True)
    decoder.end_utt()
    heard = decoder.hyp()
    sys.stdout.write(heard.hypstr if heard is not None else "")
