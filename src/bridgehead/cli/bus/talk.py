"""`bridgehead bus send`, `tail` and `chat`, as a participant or on a hub.

`announce` and `ask` through the bridge.
"""

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

from bridgehead.assembly.bus.views import participant_source, speak
from bridgehead.bus.access.join_file import read_join_file
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.participant import (
    Incoming,
    Satellite,
    SendRefused,
    Spoken,
)
from bridgehead.bus.gateway.pending_answers import Announced, SpokenAnswer
from bridgehead.bus.gateway.running import SpeakRequest
from bridgehead.bus.gateway.status import message_facts, message_line
from bridgehead.bus.interfaces import ItemAnswered, Notice, typed_answer
from bridgehead.bus.sockets.event_loop import run
from bridgehead.bus.wire.message import Accepted, Message, read_frame
from bridgehead.bus.wire.topics import GATEWAY_ONLY, NOTICE, OPERATOR, SPEAK
from bridgehead.cli.bus.participants import hub_url, settings_and_folder
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App
from bridgehead.errors import BridgeheadError, NotFound, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.host.terminal import escape_controls

PIECE_BYTES: Final = 64 * 1024
MOST_WAITING: Final = 64
CHAT_WAIT_S: Final = 600.0
"""An assistant says itself when it gives up; this is for one that says nothing at all.
"""
WHO: Final = (
    "`bridgehead bus participant list` shows who is connected; messages to a "
    "disconnected one are not kept"
)
HARDENED: Final = (
    "it receives the messages of a conversation; list more topics in hardened_extra "
    "of [bus]"
)


def _reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--hub-token", metavar="TOKEN", help="Bearer token for the hub."
    )(command)
    command = click.option(
        "--hub", metavar="URL", help="Hub URL; default: the configured or embedded hub."
    )(command)
    return click.option(
        "--join", type=click.Path(path_type=Path), help="Connect as this participant."
    )(command)


async def _reach(
    app: App, join: Path | None, hub: str | None, token: str | None
) -> Satellite | HubClient:
    if hub is not None and join is None:
        return await HubClient.connect(hub, token=token)
    settings, folder = settings_and_folder(app, None)
    if join is not None:
        return await Satellite.connect(read_join_file(folder.find_join_file(join)))
    return await HubClient.connect(
        hub_url(settings, folder), token=token or settings.serving.hub_token
    )


def _talk(main: Coroutine[Any, Any, int]) -> int:
    with suppress(KeyboardInterrupt):
        return run(main)
    return ExitCode.INTERRUPTED


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus send ovos.stop",
        (
            'bridgehead bus send --join kitchen.join.json --say "what time is it" '
            "--wait "
            "10"
        ),
        'bridgehead bus send --to kitchen --say "dinner is ready"',
    ),
)
@click.argument("topic", required=False)
@click.argument("data", required=False)
@click.option(
    "--say", metavar="TEXT", help="Send an utterance instead, and print what is spoken."
)
@click.option(
    "--to",
    metavar="ID",
    help="Send to this participant only; with --say, speak TEXT to it.",
)
@click.option("--lang", metavar="TAG", help="Language of the utterance.")
@click.option(
    "--wait",
    "wait_s",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds to wait for a reply.",
)
@_reaching
@click.pass_obj
def send(
    app: App,
    topic: str | None,
    data: str | None,
    say: str | None,
    to: str | None,
    lang: str | None,
    wait_s: float,
    join: Path | None,
    hub: str | None,
    hub_token: str | None,
) -> int:
    """Send one message: TOPIC with DATA (a JSON object), or an utterance with --say."""
    if (topic is None) == (say is None):
        raise UserError("give a TOPIC or --say TEXT")
    if topic in GATEWAY_ONLY:
        raise UserError(
            f"{topic} is a reserved topic: only the gateway sends it to participants",
            hint="`bridgehead bus announce TEXT` speaks to all connected participants",
        )
    settings, folder = settings_and_folder(app, None)
    source = None
    if to is not None:
        # A bridge that runs on this machine knows the participant's source.
        source = participant_source(folder, to)
        reaches = (join, hub, settings.serving.nats)
        may_be_elsewhere = any(reach is not None for reach in reaches)
        if source is None and not may_be_elsewhere:
            raise NotFound(
                f"the bus running here has no participant {to!r}, so nothing was sent",
                hint=WHO,
            )
        if source is None:
            source = to

    async def main() -> int:
        async with await _reach(app, join, hub, hub_token) as reached:
            if say is not None and source is None:
                spoken = await reached.ask(say, lang, wait_s=wait_s)
                app.emit(_spoken(spoken), partial(_words, spoken))
                return ExitCode.DONE if spoken.handled else ExitCode.FAILURE
            if topic is None:
                message = _message(SPEAK, _speech(say, lang), source)
            else:
                message = _message(topic, (data or "{}").encode(), source)
            await reached.send(message)
            if isinstance(reached, Satellite):
                await reached.settled(wait_s)
            elif source is not None:
                _refuse_undelivered(to, await reached.undelivered(wait_s))
        suffix = f" to {to}" if to else ""
        app.emit({"sent": message.type}, lambda: f"sent {message.type}{suffix}")
        return ExitCode.DONE

    return _talk(main())


def _speech(text: str | None, lang: str | None) -> bytes:
    """Return the data of a message that is spoken."""
    data = {"utterance": text}
    if lang:
        data["lang"] = lang
    return msgspec.json.encode(data)


def _refuse_undelivered(to: str | None, problem: str | None) -> None:
    """Raise if a message did not reach the participant it was for."""
    if problem is None:
        return
    otherwise = f"`bridgehead bus policy show {to}` shows what it receives"
    hint = {"absent": WHO, "hardened": HARDENED}.get(problem, otherwise)
    raise BridgeheadError(f"{str(to)!r} did not receive it: {problem}", hint=hint)


@click.command(
    cls=Command,
    examples=(
        'bridgehead bus announce "dinner is ready"',
        'bridgehead bus announce --site kitchen "the oven is hot"',
    ),
)
@click.argument("text")
@click.option("--site", metavar="NAME", help="Only participants at this site.")
@click.option("--lang", metavar="TAG", help="Language of the text.")
@click.option("--state", metavar="DIR", help="State directory of the bridge.")
@click.pass_obj
def announce(
    app: App, text: str, site: str | None, lang: str | None, state: str | None
) -> int:
    """Speak TEXT to every connected participant of the bus running here. Exits 2 if
    there is none.
    """
    told = speak(
        settings_and_folder(app, state)[1],
        SpeakRequest(text, lang, site, wait_s=0),
        Announced,
    )
    if not told.participants:
        raise BridgeheadError(
            "no participant is connected" + (f" at {site}" if site else ""), hint=WHO
        )
    app.emit(
        {"told": list(told.participants)},
        lambda: f"told {', '.join(told.participants)}",
    )
    return ExitCode.DONE


@click.command(
    cls=Command,
    examples=('bridgehead bus ask kitchen "shall I turn the oven off?" --wait 60',),
)
@click.argument("participant")
@click.argument("question")
@click.option("--lang", metavar="TAG", help="Language of the question.")
@click.option(
    "--wait",
    "wait_s",
    type=float,
    default=120.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)
@click.option("--state", metavar="DIR", help="State directory of the bridge.")
@click.pass_obj
def ask(
    app: App,
    participant: str,
    question: str,
    lang: str | None,
    wait_s: float,
    state: str | None,
) -> int:
    """Ask one participant a question and print the answer; it is also a pending item
    that others may answer. Exits 2 without an answer.
    """
    request = SpeakRequest(question, lang, participant=participant, wait_s=wait_s)
    answer = speak(settings_and_folder(app, state)[1], request, SpokenAnswer)
    if answer.text is None:
        hint = "--wait gives it more time" if "in time" in str(answer.problem) else WHO
        raise BridgeheadError(
            answer.problem or f"{participant} did not answer", hint=hint
        )
    said = answer.text
    app.emit(
        {"participant": participant, "answer": said}, lambda: escape_controls(said)
    )
    return ExitCode.DONE


def _message(topic: str, data: bytes, to: str | None) -> Message:
    context = {} if to is None else {"source": OPERATOR, "destination": to}
    parts = (msgspec.json.encode(topic), data, msgspec.json.encode(context))
    frame = b'{"type":%b,"data":%b,"context":%b}' % parts
    read = read_frame(frame)
    if not isinstance(read, Accepted):
        raise UserError(
            f"DATA is not valid: {read.reason}", hint="write one JSON object"
        )
    return read.message


@click.command(
    cls=Command,
    examples=(
        "bridgehead bus tail",
        "bridgehead bus tail --topic ovos.utterance. --data",
    ),
)
@click.option(
    "--topic", "prefix", default="", help="Show only topics with this prefix."
)
@click.option("--data", "with_data", is_flag=True, help="Show message data.")
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@_reaching
@click.pass_obj
def tail(
    app: App,
    prefix: str,
    with_data: bool,
    count: int | None,
    join: Path | None,
    hub: str | None,
    hub_token: str | None,
) -> int:
    """Show live messages: all of them on a hub, or those for one participant with
    --join.
    """

    async def main() -> int:
        shown = 0
        async with await _reach(app, join, hub, hub_token) as reached:
            reached.report = app.say
            receive = (
                reached.receive
                if isinstance(reached, Satellite)
                else reached.receive_again
            )
            while count is None or shown < count:
                event = await receive()
                message = event.message if isinstance(event, Incoming) else event
                if isinstance(message, Message) and message.type.startswith(prefix):
                    shown += 1
                    facts = message_facts(
                        message, iso_ms(SystemClock().now()), with_data=with_data
                    )
                    app.emit(facts, partial(message_line, facts))
        return ExitCode.DONE

    return _talk(main())


@click.command(cls=Command, examples=("bridgehead bus chat --join kitchen.join.json",))
@click.option("--lang", metavar="TAG", help="Language of your messages.")
@_reaching
@click.pass_obj
def chat(
    app: App,
    lang: str | None,
    join: Path | None,
    hub: str | None,
    hub_token: str | None,
) -> int:
    """Chat with the assistant. `answer ID TEXT` answers a pending item; an empty line
    exits.
    """

    async def main() -> int:
        async with await _reach(app, join, hub, hub_token) as reached:
            reached.report = app.say
            if isinstance(reached, Satellite):
                reached.aside = partial(_show_notice, app)
            lines = TypedLines()
            while said := (await _next_line(app, reached, lines)).strip():
                if (given := typed_answer(said)) is not None and isinstance(
                    reached, Satellite
                ):
                    await reached.answer(given.id, given.text)
                    while not isinstance(
                        event := await reached.receive(), ItemAnswered
                    ):
                        if isinstance(event, Incoming):
                            reached.aside(event.message)
                    app.insist(escape_controls(event.sentence))
                    if event.notice is not None:
                        _show_notice(app, Message(NOTICE, event.notice.to_data()))
                    continue
                try:
                    spoken = await reached.ask(said, lang, wait_s=CHAT_WAIT_S)
                except SendRefused as refused:  # the next line may be taken
                    app.insist(escape_controls(f"{refused.message}; {refused.hint}"))
                else:
                    app.emit(_spoken(spoken), partial(_words, spoken))
        return ExitCode.DONE

    return _talk(main())


def _spoken(spoken: Spoken) -> dict[str, Any]:
    return {"speak": list(spoken.speak), "handled": spoken.handled}


def _words(spoken: Spoken) -> str:
    nothing = {
        "answer": "(your answer was sent)",
        "unmatched": "(nothing on the bus understood that)",
    }
    otherwise = (
        nothing.get(spoken.outcome, "(empty answer)")
        if spoken.handled
        else "(no answer in time)"
    )
    return escape_controls(spoken.text or otherwise)


async def _next_line(
    app: App, reached: Satellite | HubClient, lines: TypedLines
) -> str:
    """Return what is typed next; notices that arrive meanwhile are shown at once."""
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
            app.insist(f"{ended}; press Enter to exit")
    return await typing


async def _show_notices(satellite: Satellite) -> None:
    while True:
        event = await satellite.receive()
        if isinstance(event, Incoming):
            satellite.aside(event.message)


def _show_notice(app: App, message: Message) -> None:
    if message.type == SPEAK and message.data.get("utterance"):
        app.insist(escape_controls(str(message.data["utterance"])))
    if message.type == NOTICE:
        told = msgspec.convert(message.data, Notice)
        by = [f"by {told.by}"] if told.by else []
        app.insist(
            escape_controls(
                "  ".join(
                    [told.status.replace("_", " "), told.kind, told.id, told.title, *by]
                )
            )
        )
        if told.awaits:
            facts = [f"{name}: {one}" for name, one in told.details.items()]
            how = f"answer with: answer {told.id} {'|'.join(told.choices) or 'TEXT'}"
            app.insist(
                "\n".join(
                    f"  {escape_controls(line)}"
                    for line in (*told.rest.splitlines(), *facts, how)
                )
            )


class TypedLines:
    """Reads in a thread of its own, which is left behind at the end: nobody has to
    press Enter for that.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        threading.Thread(target=self._read, name="typed-lines", daemon=True).start()

    async def next(self) -> str:
        """Return the next line with its line feed.

        Empty at the end, as `readline` has it.
        """
        return await self._lines.get()

    def _read(self) -> None:
        # Not through sys.stdin: a thread inside its buffer when the process ends brings
        # the interpreter down.
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
