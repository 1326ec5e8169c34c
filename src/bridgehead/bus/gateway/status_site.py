"""The operator's status site: a listener on loopback for the owner of the state folder.

`running.json` says where it is.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.bus.access.credentials import bearer_token
from bridgehead.bus.access.join_file import Pin
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.bridge.counters import counter_lines
from bridgehead.bus.gateway.pending_answers import Speaker
from bridgehead.bus.gateway.running import (
    NAME,
    ChatLink,
    RunningBridge,
    SpeakRequest,
    read_running,
    write_running,
)
from bridgehead.bus.gateway.status import BusStatus, MessageHead, Rate, Rates, Tail
from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.relay import Relay
from bridgehead.bus.settings import is_loopback
from bridgehead.bus.sockets.base import NOT_FOUND, Answer, Request, Site, json_answer
from bridgehead.bus.sockets.listen import Listener, listen
from bridgehead.bus.sockets.origin import own_names, refusal
from bridgehead.host.clock import Clock, iso_ms

LOOPBACK: Final = "127.0.0.1"
SAMPLE_S: Final = 1.0
Describe = Callable[[tuple[Rate, ...], tuple[MessageHead, ...]], BusStatus]
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class StatusSite(Site):
    """Serves the bridge's status, single messages and links to the chat page, and
    speaks to participants.
    """

    def __init__(
        self,
        relay: Relay,
        describe: Describe,
        clock: Clock,
        new_chat_link: Callable[[], str],
        speaker: Speaker,
    ) -> None:
        self._new_chat_link = new_chat_link
        self._speaker = speaker
        self._relay = relay
        self._describe = describe
        self._clock = clock
        self._token = secrets.token_urlsafe(32)
        self._names = own_names(socket.gethostname())
        self.rates = Rates()
        self._tail = Tail()
        self._listener: Listener
        self._sampling: asyncio.Task[None]
        self._running: RunningBridge

    async def open(
        self, folder: StateFolder, join_url: str, pin: Pin, hub_address: str
    ) -> None:
        self._listener = await listen(self, LOOPBACK, 0)
        self._sampling = asyncio.get_running_loop().create_task(self._sample())
        self._running = RunningBridge(
            self._listener.port, self._token, os.getpid(), join_url, pin, hub_address
        )
        write_running(folder.path, self._running)

    async def close(self, folder: StateFolder) -> None:
        # Leave the file if another bridge has written its own.
        if read_running(folder.path) == self._running:
            (folder.path / NAME).unlink(missing_ok=True)
        self._sampling.cancel()
        await self._listener.close()

    # -- Site -----------------------------------------------------------------

    async def respond(self, request: Request) -> Answer:
        turned_away = refusal(request.headers, names=self._names)
        if turned_away is not None:
            return turned_away
        token = bearer_token(request.headers.get("authorization")) or ""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return Answer(401, b"the token is in running.json\n")
        if request.method == "POST" and request.path == "/link/chat":
            return json_answer(ChatLink(self._new_chat_link()))
        if request.method == "POST" and request.path == "/speak":
            return await self._speak(request.body)
        if request.method != "GET":
            return Answer(405, b"read only\n", headers=(("Allow", "GET"),))
        return self._read(request)

    def _read(self, request: Request) -> Answer:
        if request.path == "/status":
            return json_answer(self._status(_number(request, "after")))
        if request.path == "/message":
            content = self._tail.content(_number(request, "number"))
            return NOT_FOUND if content is None else json_answer(content)
        return NOT_FOUND

    async def _speak(self, body: bytes) -> Answer:
        try:
            speech = msgspec.json.decode(body, type=SpeakRequest)
        except msgspec.DecodeError as error:
            return Answer(400, f"{error}\n".encode())
        if speech.participant is None:
            announced = self._speaker.announce(speech.text, speech.lang, speech.site)
            return json_answer(announced)
        answer = await self._speaker.ask(
            speech.participant, speech.text, speech.lang, speech.wait_s
        )
        return json_answer(answer)

    def _status(self, after: int) -> BusStatus:
        heads = self._tail.heads(after, self._clock.monotonic())
        self._relay.watcher = lambda message: self._tail.note(
            message, iso_ms(self._clock.now())
        )
        return self._describe(self.rates.recent, heads)

    async def _sample(self) -> None:
        bridge = self._relay.bridge
        while True:
            self.rates.sample(bridge.taken, bridge.offered)
            self._tail.expire(self._clock.monotonic())
            if not self._tail.is_watched:
                self._relay.watcher = None
            await asyncio.sleep(SAMPLE_S)


def _number(request: Request, name: str) -> int:
    text = request.query.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if is_number else 0


class MetricsEndpoint(Site):
    """Serves `/metrics` for Prometheus (bus §10.6): counters of the relay and of the
    embedded hub.

    Only this machine may read them, because they need no credential.
    """

    def __init__(self, relay: Relay, hub: Hub | None) -> None:
        self._relay = relay
        self._hub = hub

    async def respond(self, request: Request) -> Answer:
        if request.path != "/metrics":
            return NOT_FOUND
        if request.address != "local" and not is_loopback(request.address):
            return Answer(403, b"metrics are read on this machine\n")
        return Answer(200, self.text().encode(), METRICS_TYPE)

    def text(self) -> str:
        known = list(self._relay.bridge.known)
        figures = [
            (
                "bridgehead_bus_participants_connected",
                "Participants connected.",
                sum(p.connected for p in known),
            ),
            (
                "bridgehead_bus_participants_known",
                "Participants known, those in grace included.",
                len(known),
            ),
            (
                "bridgehead_bus_held",
                "Messages held for a reconnect.",
                sum(len(p.held) for p in known),
            ),
            (
                "bridgehead_bus_queued",
                "Messages queued behind slow transports.",
                sum(len(p.queued) for p in known),
            ),
            (
                "bridgehead_bus_taken_total",
                "Messages taken from participants.",
                self._relay.bridge.taken,
            ),
            (
                "bridgehead_bus_offered_total",
                "Messages offered to participants.",
                self._relay.bridge.offered,
            ),
        ]
        if self._hub is None:
            return self._relay.counters.prometheus(figures)
        figures.append(
            ("bridgehead_hub_members", "Programs on the hub.", self._hub.members())
        )
        return self._relay.counters.prometheus(figures) + _hub_events(self._hub)


def _hub_events(hub: Hub) -> str:
    events = {**hub.counts, "published": hub.published}
    counts = {f'event="{event}"': count for event, count in events.items()}
    lines = counter_lines(
        "bridgehead_hub_events_total", "What happened on the hub.", counts
    )
    return "".join(f"{line}\n" for line in lines)
