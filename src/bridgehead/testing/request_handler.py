"""HTTP/1.1 in front of the wires: reads one request, lets the scenario decide, writes
the answer.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from bridgehead.testing.exchange import (
    Answer,
    Breakage,
    Fault,
    LoggedRequest,
    ModelRequest,
    Reaction,
    RequestLog,
    Say,
)
from bridgehead.testing.scripts import (
    SCENARIOS,
    Addressed,
    Script,
    Scripted,
    address,
    react,
)
from bridgehead.testing.wires import wire_for
from bridgehead.testing.wires.base import Wire
from bridgehead.testing.wires.openai import ChatCompletions

BODY_LIMIT: Final = 64 * 1024 * 1024
FAKE_MODEL: Final = "fake-model-1"
HTML_PAGE: Final = b"<html><body>This is not the API you are looking for.</body></html>"
BROKEN_EVENT: Final = b'data: {"oops": \n\n'


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What all connections of one server share."""

    log: RequestLog
    script: Script | None = None
    latency_seconds: float = 0.0
    stopping: threading.Event = field(default_factory=threading.Event)


class ModelHttpServer(ThreadingHTTPServer):
    """One thread per connection, none of which keeps the process alive."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        super().__init__((host, port), ModelRequestHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is everyday.

        Anything else is a fault of ours and is shown.
        """
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ModelRequestHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "fake-model"
    sys_version = ""
    server: ModelHttpServer

    def do_HEAD(self) -> None:
        self._answer_simply(200, None)

    def do_GET(self) -> None:
        addressed = address(self.path)
        if addressed.scenario in SCENARIOS and urlsplit(addressed.rest).path.endswith(
            "/models"
        ):
            self._list_models(addressed)
        else:
            self._answer_simply(404, {"error": {"message": "nothing here"}})

    def do_POST(self) -> None:
        addressed = address(self.path)
        body = self._read_body()
        if body is None:
            return
        path = urlsplit(addressed.rest).path
        wire = wire_for(path)
        if wire is None or addressed.scenario not in SCENARIOS:
            problem = (
                f"unknown scenario or path: {self.path}; scenarios: "
                f"{', '.join(SCENARIOS)}"
            )
            self._answer_simply(404, {"error": {"message": problem}}, logged_body=body)
            return
        request = wire.read(addressed.scenario, path, body)
        behaviour = self.server.behaviour
        scripted = behaviour.script(request) if behaviour.script else None
        decided = scripted or Scripted(
            react(request), addressed.latency_seconds + behaviour.latency_seconds
        )
        if self.server.behaviour.stopping.wait(decided.latency_seconds):
            self.close_connection = True
            return
        self._carry_out(decided.reaction, wire, request, body)

    def _carry_out(
        self, reaction: Reaction, wire: Wire, request: ModelRequest, body: Any
    ) -> None:
        match reaction:
            case Fault():
                refusal = wire.refuse(reaction, request.model)
                self._note(refusal.status, wire.name, body)
                self._send_json(refusal.status, refusal.body, refusal.headers)
            case Breakage():
                self._note(200, wire.name, body)
                self._break_off(reaction, wire, request)
            case answer:
                self._note(200, wire.name, body)
                self._say(answer, wire, request)

    def _say(self, answer: Answer, wire: Wire, request: ModelRequest) -> None:
        if request.streamed:
            self._send_events(
                [event.encode() for event in wire.stream(answer, request)]
            )
        else:
            self._send_json(200, wire.whole(answer, request))

    def _break_off(self, breakage: Breakage, wire: Wire, request: ModelRequest) -> None:
        match breakage:
            case Breakage.HANG:
                self.server.behaviour.stopping.wait()
                self.close_connection = True
            case Breakage.HTML:
                self._send_bytes(200, HTML_PAGE, "text/html")
            case Breakage.BAD_JSON:
                self._send_events([BROKEN_EVENT])
            case Breakage.CUT:
                answer = Say(request.echo)
                if request.streamed:
                    self._send_events(
                        [event.encode() for event in wire.cut_stream(answer, request)]
                    )
                else:
                    # What makes an agent that asks again without a stream succeed in
                    # the end.
                    self._say(answer, wire, request)

    def _list_models(self, addressed: Addressed) -> None:
        if addressed.scenario in set(Fault):
            refusal = ChatCompletions().refuse(Fault(addressed.scenario), FAKE_MODEL)
            self._answer_simply(refusal.status, refusal.body)
            return
        listed = {
            "object": "list",
            "data": [{"id": FAKE_MODEL, "object": "model"}],
            "models": [],
        }
        self._answer_simply(200, listed)

    def _read_body(self) -> dict[str, Any] | None:
        """Return the JSON object that was posted.

        A request that holds none is answered with 400 or 413.
        """
        chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        raw = self._read_chunks() if chunked else self._read_sized()
        if raw is None:
            self.close_connection = True
            self._answer_simply(
                413, {"error": {"message": "the request is too large or has no length"}}
            )
            return None
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self._answer_simply(
                400, {"error": {"message": "the body must be a JSON object"}}
            )
            return None
        return body

    def _read_sized(self) -> bytes | None:
        length = self.headers.get("content-length", "0")
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > BODY_LIMIT:
            return None
        return self.rfile.read(int(length))

    def _read_chunks(self) -> bytes | None:
        whole = bytearray()
        while True:
            digits = self.rfile.readline(100).partition(b";")[0].strip()
            if (
                not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", digits)
                or len(whole) + int(digits, 16) > BODY_LIMIT
            ):
                return None
            size = int(digits, 16)
            whole += self.rfile.read(size)
            self.rfile.readline(100)
            if size == 0:
                return bytes(whole)

    def _answer_simply(
        self, status: int, value: object, *, logged_body: Any = None
    ) -> None:
        self._note(status, "", logged_body)
        self._send_json(status, value)

    def _send_json(
        self, status: int, value: object, headers: dict[str, str] | None = None
    ) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self._send_bytes(status, body, "application/json", headers)

    def _send_bytes(
        self,
        status: int,
        body: bytes,
        content_type: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_events(self, events: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(event)
            self.wfile.flush()
        self.close_connection = True

    def _note(self, status: int, wire: str, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        addressed = address(self.path)
        self.server.behaviour.log.append(
            LoggedRequest(
                self.command, self.path, addressed.scenario, wire, status, headers, body
            )
        )

    def log_message(self, format: str, *args: object) -> None:
        """Requests are in the log; nothing is printed."""
