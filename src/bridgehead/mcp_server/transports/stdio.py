"""The server over standard input and output: one message a line, nothing else ever on
stdout.

Answers from the tables are written by the loop itself, so that a host learns our tools
at once; everything else runs in threads. When the client closes stdin, what is under
way is stopped as by Ctrl-C and put away before we end.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from bridgehead.mcp_server.jsonrpc import (
    Code,
    Malformed,
    Message,
    Reply,
    RpcError,
    error,
    read_message,
)
from bridgehead.mcp_server.server import Server
from bridgehead.mcp_server.transports.conversation import (
    Answer,
    CarryOut,
    Conversation,
    Effect,
    Stop,
)

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly
    from bridgehead.mcp_server.transports.calls import Calls

MOST_LINE_BYTES: Final = 64 * 1024 * 1024


def serve(make_assembly: Callable[[], Assembly]) -> None:
    """Serve one client until it closes stdin."""
    # The client's two pipes under numbers of our own: a stray `print` or a child goes
    # to stderr, never between.
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _StdioServer(Server(make_assembly), outgoing).run(incoming)


class _StdioServer:
    def __init__(self, server: Server, outgoing: BinaryIO) -> None:
        self._server = server
        self._conversation = Conversation(server)
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._reader_left = False
        self._calls: Calls | None = None

    def run(self, incoming: BinaryIO) -> None:
        try:
            for message in _messages(incoming):
                effect = self._conversation.received(message)
                if effect is not None:
                    self._carry_out(effect)
        finally:
            if self._calls is not None:
                self._calls.stop_all()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Answer(content):
                self._send(content)
            case CarryOut(request, client):
                try:
                    self._started_calls().start(request, client)
                except RpcError as refused:
                    self._send(error(request.id, refused))
            case Stop(request_id):
                if self._calls is not None:
                    self._calls.stop(request_id)
            case Reply():
                if self._calls is not None:
                    self._calls.questions.replied(effect)

    def _started_calls(self) -> Calls:
        if self._calls is None:
            from bridgehead.mcp_server.transports.calls import Calls

            self._calls = Calls(self._server, self._send)
        return self._calls

    def _send(self, content: bytes) -> bool:
        """Return one line.

        A client that no longer reads is noticed when it closes stdin too.
        """
        with self._lock:
            try:
                if not self._reader_left:
                    self._outgoing.write(content + b"\n")
                    self._outgoing.flush()
            except OSError:
                self._reader_left = True
            return not self._reader_left


def _messages(incoming: BinaryIO) -> Iterator[Message]:
    """Yield every line as a message.

    Blank lines are passed over, and one that is too long is refused, not kept.
    """
    while line := incoming.readline(MOST_LINE_BYTES):
        if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = incoming.readline(MOST_LINE_BYTES)
            yield Malformed(
                None,
                Code.INVALID_REQUEST,
                f"the message is larger than {MOST_LINE_BYTES >> 20} MiB",
            )
        elif line.strip():
            yield read_message(line)
