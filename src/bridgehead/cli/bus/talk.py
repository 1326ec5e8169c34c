"""`bridgehead bus send`, `tail` and `chat`: as a participant with a join file, or directly on a hub."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bridgehead.bus.access.join_file import read_join_file
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.participant import Incoming, ItemAnswered, Satellite, Spoken
from bridgehead.bus.gateway.status import message_facts, message_line
from bridgehead.bus.interfaces import ItemAnswer, typed_answer
from bridgehead.bus.settings import HUB_ADDRESS
from bridgehead.bus.sockets.libraries import run
from bridgehead.bus.wire.message import Accepted, Message, read_frame
from bridgehead.bus.wire.topics import NOTICE
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.host.terminal import escape_controls

PIECE_BYTES: Final = 64 * 1024
MOST_WAITING: Final = 64
DEFAULT_HUB = f"ws://{HUB_ADDRESS}/core"


def _reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--hub-token", metavar="TOKEN", help="Bearer token of the hub.")(command)
    command = click.option("--hub", metavar="URL", default=DEFAULT_HUB, show_default=True, help="A hub.")(
        command
    )
    return click.option(
        "--join", type=click.Path(path_type=Path), help="Take part as this participant instead."
    )(command)


async def _reach(join: Path | None, hub: str, token: str | None) -> Satellite | HubClient:
    if join is not None:
        return await Satellite.connect(read_join_file(join))
    return await HubClient.connect(hub, token=token)


def _talk(main: Coroutine[Any, Any, int]) -> int:
    with suppress(KeyboardInterrupt):
        return run(main)
    return ExitCode.INTERRUPTED


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus send ovos.stop",
        'bridgehead bus send --join kitchen.join.json --say "what time is it" --wait 10',
    ),
)
@click.argument("topic", required=False)
@click.argument("data", required=False)
@click.option("--say", metavar="TEXT", help="Send an utterance instead, and print what is spoken.")
@click.option("--lang", metavar="TAG", help="Language of the utterance.")
@click.option(
    "--wait", "wait_s", type=float, default=30.0, show_default=True, help="Seconds to wait for the end."
)
@_reaching
@click.pass_obj
def send(
    app: App,
    topic: str | None,
    data: str | None,
    say: str | None,
    lang: str | None,
    wait_s: float,
    join: Path | None,
    hub: str,
    hub_token: str | None,
) -> int:
    """Send one message: TOPIC with DATA (a JSON object), or an utterance with --say."""
    if (topic is None) == (say is None):
        raise UserError("give a TOPIC or --say TEXT")

    async def main() -> int:
        async with await _reach(join, hub, hub_token) as reached:
            if say is not None:
                spoken = await reached.ask(say, lang, wait_s=wait_s)
                app.emit(_spoken(spoken), partial(_words, spoken))
                return ExitCode.DONE if spoken.handled else ExitCode.FAILURE
            message = _message(topic or "", data)
            await reached.send(message)
            if isinstance(reached, Satellite):
                await reached.settled(wait_s)
        app.emit({"sent": message.type}, lambda: f"sent {message.type}")
        return ExitCode.DONE

    return _talk(main())


def _message(topic: str, data: str | None) -> Message:
    frame = b'{"type":%b,"data":%b}' % (msgspec.json.encode(topic), (data or "{}").encode())
    read = read_frame(frame)
    if not isinstance(read, Accepted):
        raise UserError(f"this is no message: {read.reason}", hint="DATA must be one JSON object")
    return read.message


@click.command(
    cls=Command, examples=("bridgehead bus tail", "bridgehead bus tail --topic ovos.utterance. --data")
)
@click.option("--topic", "prefix", default="", help="Only topics that begin with this.")
@click.option("--data", "with_data", is_flag=True, help="Show what messages carry, too.")
@click.option("--count", type=click.IntRange(1), help="End after so many.")
@_reaching
@click.pass_obj
def tail(
    app: App,
    prefix: str,
    with_data: bool,
    count: int | None,
    join: Path | None,
    hub: str,
    hub_token: str | None,
) -> int:
    """Show messages as they pass: on a hub all of them, as a participant those for it."""

    async def main() -> int:
        shown = 0
        async with await _reach(join, hub, hub_token) as reached:
            while count is None or shown < count:
                event = await reached.receive()
                message = event.message if isinstance(event, Incoming) else event
                if isinstance(message, Message) and message.type.startswith(prefix):
                    shown += 1
                    facts = message_facts(message, iso_ms(SystemClock().now()), with_data=with_data)
                    app.emit_line(facts, partial(_line, facts))
        return ExitCode.DONE

    return _talk(main())


@click.command(cls=Command, examples=("bridgehead bus chat --join kitchen.join.json",))
@click.option("--lang", metavar="TAG", help="Language you write in.")
@_reaching
@click.pass_obj
def chat(app: App, lang: str | None, join: Path | None, hub: str, hub_token: str | None) -> int:
    """Talk to the assistant line by line. `answer ID TEXT` answers a pending item; an empty line ends."""

    async def main() -> int:
        async with await _reach(join, hub, hub_token) as reached:
            if isinstance(reached, Satellite):
                reached.aside = partial(_show_notice, app)
            lines = TypedLines()
            while said := (await _next_line(app, reached, lines)).strip():
                if (given := typed_answer(said)) is not None and isinstance(reached, Satellite):
                    await _answer(app, reached, given)
                    continue
                spoken = await reached.ask(said, lang)
                app.emit_line(_spoken(spoken), partial(_words, spoken))
        return ExitCode.DONE

    return _talk(main())


def _line(facts: dict[str, Any]) -> str:
    return escape_controls(message_line(facts))


def _spoken(spoken: Spoken) -> dict[str, Any]:
    return {"speak": list(spoken.speak), "handled": spoken.handled}


def _words(spoken: Spoken) -> str:
    silence = "(nothing was said)" if spoken.handled else "(no answer in time)"
    return escape_controls(spoken.text or silence)


async def _next_line(app: App, reached: Satellite | HubClient, lines: TypedLines) -> str:
    """What is typed next; notices that arrive meanwhile are shown at once."""
    if sys.stdin.isatty():
        app.stderr.write("> ")
        app.stderr.flush()
    typing = asyncio.create_task(lines.next())
    if isinstance(reached, Satellite):
        showing = asyncio.create_task(_show_notices(reached))
        await asyncio.wait((typing, showing), return_when=asyncio.FIRST_COMPLETED)
        showing.cancel()
        await asyncio.wait((showing,))
        if not showing.cancelled() and (ended := showing.exception()) is not None:
            app.say(f"{ended}; Enter leaves")
    return await typing


async def _show_notices(satellite: Satellite) -> None:
    while True:
        event = await satellite.receive()
        if isinstance(event, Incoming):
            satellite.aside(event.message)


def _show_notice(app: App, message: Message) -> None:
    if message.type == NOTICE:
        fields = [message.data.get(key) for key in ("status", "kind", "id", "title")]
        app.say(escape_controls("  ".join(str(value) for value in fields if value)))


async def _answer(app: App, satellite: Satellite, given: ItemAnswer) -> None:
    await satellite.answer(given.id, given.text)
    while not isinstance(event := await satellite.receive(), ItemAnswered):
        if isinstance(event, Incoming):
            satellite.aside(event.message)
    app.say(escape_controls(event.sentence))


class TypedLines:
    """Reads in a thread of its own, which is left behind at the end: nobody has to press Enter for that."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        threading.Thread(target=self._read, name="typed-lines", daemon=True).start()

    async def next(self) -> str:
        """The next line with its line feed; empty at the end, as `readline` has it."""
        return await self._lines.get()

    def _read(self) -> None:
        # Not through sys.stdin: a thread inside its buffer when the process ends brings the interpreter down.
        begun = b""
        while piece := os.read(sys.stdin.fileno(), PIECE_BYTES):
            *whole, begun = (begun + piece).split(b"\n")
            for line in whole:
                self._hand_over(line + b"\n")
        if begun:
            self._hand_over(begun)
        self._hand_over(b"")

    def _hand_over(self, line: bytes) -> None:
        putting = self._lines.put(line.decode("utf-8", "replace"))
        try:
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()
        except RuntimeError:  # the loop is closed: nobody listens any more
            putting.close()
