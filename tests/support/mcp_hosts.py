"""MCP hosts for tests: the official client, and one of ours for lines that the official one cannot be made to say."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from bridgehead.assembly.application import Assembly
from bridgehead.mcp_server.transports.http import HttpApp
from support.installed import SCRIPTS, Machine

TOKEN = "a-token-of-this-test"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "claude-code", "version": "1"},
}


STORE = """\
import pickle


def find(connection, order_id):
    return connection.execute("SELECT id FROM orders WHERE id = '" + order_id + "'")


def load(blob):
    return pickle.loads(blob)
"""


def orders_project(folder: Path) -> Machine:
    """A machine with a small committed project that static analysis has something to say about."""
    machine = Machine(folder / "home", folder / "project")
    machine.home.mkdir()
    (machine.project / "orders").mkdir(parents=True)
    (machine.project / "orders" / "store.py").write_text(STORE)
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        subprocess.run(
            ["git", *identity, *words],
            cwd=machine.project,
            env=machine.environ(),
            check=True,
        )
    return machine


def with_client(
    machine: Machine,
    use: Callable[[Client], Awaitable[Any]],
    *,
    mode: str = "legacy",
    **options: Any,
) -> Any:
    """What `use` returns when the official client talks to us; `mode` chooses the generation of the protocol."""
    server = StdioServerParameters(
        command=str(SCRIPTS / "bridgehead"),
        args=["mcp"],
        cwd=machine.project,
        env=machine.environ(),
    )
    info = types.Implementation(name="claude-code", version="1")

    async def run() -> Any:
        async with Client(
            stdio_client(server), mode=mode, client_info=info, **options
        ) as client:
            return await use(client)

    return asyncio.run(run())


@contextmanager
def served(machine: Machine) -> Iterator[str]:
    """The address of the application, served for this test."""
    app = HttpApp(lambda: Assembly(machine.project, machine.environ()), token=TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            app.stop()
            server.should_exit = True
            thread.join()


def with_http_client(address: str, mode: str, use: Any, **options: Any) -> Any:
    async def run() -> Any:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(
                streamable_http_client(address, http_client=http), mode=mode, **options
            ) as client,
        ):
            return await use(client)

    return asyncio.run(run())


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that works."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@dataclass
class Lines:
    """A running `bridgehead mcp`, spoken to line by line."""

    process: subprocess.Popen[bytes]
    notifications: list[dict[str, Any]] = field(default_factory=list)

    def say(self, message: object) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, request_id: object, method: str, **params: Any) -> None:
        self.say(
            {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        )

    def hear(self) -> dict[str, Any]:
        """The next message, whatever it is; the test's time limit bounds the wait."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def answer_to(self, request_id: object) -> dict[str, Any]:
        """The response to a request; notifications on the way are kept."""
        while (message := self.hear()).get("id") != request_id or "method" in message:
            self.notifications.append(message)
        return message

    def introduce(self) -> dict[str, Any]:
        self.ask("hello", "initialize", **HELLO)
        return self.answer_to("hello")

    def leave(self) -> int:
        """Close stdin and wait for the end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=60)


@contextmanager
def serving(machine: Machine, **extra: str) -> Iterator[Lines]:
    process = subprocess.Popen(
        [str(SCRIPTS / "bridgehead"), "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=machine.project,
        env=machine.environ(**extra),
    )
    try:
        yield Lines(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
