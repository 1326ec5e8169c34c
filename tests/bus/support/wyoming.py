"""Voices for the voice door: satellites and services that a test plays itself, and a real satellite of files."""

from __future__ import annotations

import array
import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from wyoming.event import Event, async_read_event, async_write_event

from bus.support.running import free_port, until

PYTHON: Final = Path(
    os.environ.get(
        "BRIDGEHEAD_WYOMING", Path(__file__).parents[3] / ".venv/wyoming/bin/python"
    )
)
MICROPHONE: Final = {"rate": 16_000, "width": 2, "channels": 1}
SECOND: Final = 32_000
LOUD: Final = b"\x01" * SECOND
QUIET: Final = bytes(SECOND)


class Connection:
    """One that somebody made to us."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> Event | None:
        try:
            return await async_read_event(self.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def send(self, kind: str, payload: bytes | None = None, **data: Any) -> None:
        await async_write_event(Event(kind, data, payload), self.writer)

    async def send_audio(self, audio: bytes) -> None:
        for at in range(0, len(audio), 2048):
            await self.send("audio-chunk", audio[at : at + 2048], **MICROPHONE)


@asynccontextmanager
async def served(
    talk: Callable[[Connection], Awaitable[None]], port: int = 0
) -> AsyncIterator[str]:
    """A Wyoming server; its URL."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writers.append(writer)
        try:
            await talk(Connection(reader, writer))
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


class PlayedSatellite:
    """A satellite of the test's own: says what it is told to, and keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.connections: list[Connection] = []
        self.url = ""

    async def talk(self, connection: Connection) -> None:
        self.connections.append(connection)
        while (event := await connection.read()) is not None:
            self.events.append(event)

    @asynccontextmanager
    async def there(self, port: int = 0) -> AsyncIterator[PlayedSatellite]:
        async with served(self.talk, port) as self.url:
            yield self

    def count(self, kind: str) -> int:
        return sum(event.type == kind for event in self.events)

    @property
    def sound(self) -> bytes:
        return b"".join(
            event.payload or b"" for event in self.events if event.type == "audio-chunk"
        )

    async def send(self, kind: str, payload: bytes | None = None, **data: Any) -> None:
        await self.connections[-1].send(kind, payload, **data)

    async def says(self, audio: bytes = LOUD + QUIET, stage: str = "asr") -> None:
        """Somebody called it and says something."""
        await until(lambda: self.count("run-satellite") > 0)
        await self.send("run-pipeline", start_stage=stage, end_stage="tts")
        await self.connections[-1].send_audio(audio)


class PlayedServices:
    """Speech to text that knows the words beforehand, and text to speech of a given length."""

    def __init__(self) -> None:
        self.words: list[str] = []
        """What is understood next; the last one again and again."""
        self.seconds = 1.0
        self.heard: list[int] = []
        """Bytes of each utterance."""
        self.spoken: list[str] = []
        self.stt = self.tts = ""

    async def recognise(self, connection: Connection) -> None:
        size = 0
        while (event := await connection.read()) is not None:
            size += len(event.payload or b"")
            if event.type == "audio-stop":
                self.heard.append(size)
                await connection.send(
                    "transcript",
                    text=self.words.pop(0) if len(self.words) > 1 else self.words[0],
                )

    async def _synthesise(self, connection: Connection) -> None:
        while (event := await connection.read()) is not None:
            self.spoken.append(event.data["text"])
            await connection.send("audio-start", **MICROPHONE)
            await connection.send_audio(b"\x07" * int(self.seconds * SECOND))
            await connection.send("audio-stop")

    @asynccontextmanager
    async def there(self) -> AsyncIterator[dict[str, str]]:
        """Settings that name them."""
        async with served(self.recognise) as stt, served(self._synthesise) as tts:
            yield {"voice_stt": stt, "voice_tts": tts}


class LoudEndpointer:
    """Takes everything that is not silent for speech."""

    frame_bytes = 960
    in_speech = False
    loud = 0
    """Frames of speech so far, of all."""

    def __init__(self, sample_rate: int) -> None:
        assert sample_rate == 16_000

    def process(self, frame: bytes) -> bytes | None:
        self.in_speech = any(frame)
        LoudEndpointer.loud += self.in_speech
        return frame if self.in_speech else None


def espeak(text: str) -> bytes:
    """What espeak-ng makes of it: 22050 Hz, 16 bits, one channel."""
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed (make test installs it where it may)")
    command = ["espeak-ng", "--stdin", "--stdout", "-v", "en-us"]
    return subprocess.run(
        command, input=text.encode(), capture_output=True, check=True
    ).stdout[44:]


def spoken(text: str) -> bytes:
    """The same as a microphone sends it, with some silence around."""
    given = array.array("h", espeak(text))
    step = 22050 / 16000
    taken = array.array("h")
    for number in range(int((len(given) - 1) / step)):
        at, part = divmod(number * step, 1)
        taken.append(int(given[int(at)] * (1 - part) + given[int(at) + 1] * part))
    return bytes(SECOND // 2) + taken.tobytes() + bytes(2 * SECOND)


class RealSatellite:
    """`wyoming-satellite` with a file for a microphone and one for a speaker."""

    def __init__(self, folder: Path, name: str) -> None:
        if not PYTHON.exists():
            pytest.skip(
                "wyoming-satellite is not installed (make test installs it, or set BRIDGEHEAD_WYOMING)"
            )
        self.name = name
        self.port = free_port()
        self.microphone, self.speaker, self.log = (
            folder / f"{name}.{part}" for part in ("in", "out", "log")
        )
        self._seen = 0
        self.microphone.touch()
        self.speaker.touch()

    @property
    def setting(self) -> str:
        return f"{self.name}=tcp://127.0.0.1:{self.port}"

    @property
    def sound(self) -> bytes:
        return self.speaker.read_bytes()

    def hears(self, text: str) -> None:
        with self.microphone.open("ab") as file:
            file.write(spoken(text))

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        speaker = shlex.join([sys.executable, "-c", SPEAKER, str(self.speaker)])
        command = [
            *(
                str(PYTHON),
                "-W",
                "ignore",
                "-m",
                "wyoming_satellite",
                "--no-zeroconf",
                "--debug",
            ),
            *("--uri", f"tcp://127.0.0.1:{self.port}", "--name", self.name, *options),
            *(
                "--mic-command",
                shlex.join(
                    [sys.executable, "-c", MICROPHONE_OF_A_FILE, str(self.microphone)]
                ),
            ),
            *("--snd-command", speaker),
        ]
        with (
            self.log.open("ab") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()

    async def begins(self, words: str = "Streaming audio") -> None:
        """It has written this into its log once more."""
        before, self._seen = self._seen, self._seen + 1
        await until(lambda: self.log.read_text().count(words) > before)


SPEAKER: Final = "import os, sys; out = open(sys.argv[1], 'ab', 0)\nwhile data := os.read(0, 65536): out.write(data)"
"""What comes is there at once."""
MICROPHONE_OF_A_FILE: Final = """\
import os, sys, time
satellite, file = os.getppid(), open(sys.argv[1], "rb")
while os.getppid() == satellite:
    if audio := file.read(2048):
        os.write(1, audio)
    else:
        time.sleep(0.02)
"""
"""Says what is written into the file, as it is written; ends with its satellite."""
