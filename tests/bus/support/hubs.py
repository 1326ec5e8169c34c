"""A hub on a free port, clients of it, and the OVOS programs that live in an environment of their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.hub.hub import Hub, HubSettings
from bridgehead.bus.sockets.dial import ClientConversation, Target, dial
from bridgehead.bus.sockets.listen import listen

OVOS = Path(os.environ.get("BRIDGEHEAD_OVOS") or Path(sys.prefix) / "ovos") / "bin"


def needs_ovos() -> pytest.MarkDecorator:
    """Skips, visibly, where the OVOS packages are not installed."""
    there = (OVOS / "python").exists()
    return pytest.mark.skipif(
        not there, reason="ovos-messagebus and ovos-bus-client are not installed"
    )


@asynccontextmanager
async def served_hub(**settings: Any) -> AsyncIterator[tuple[Hub, str]]:
    """An embedded hub and its URL."""
    hub = Hub(HubSettings(**settings))
    listener = await listen(hub, "127.0.0.1", 0)
    try:
        yield hub, f"ws://127.0.0.1:{listener.port}/core"
    finally:
        await listener.close()
        await hub.close()


async def member(url: str, **headers: str) -> ClientConversation:
    """A client that has read the greeting."""
    conversation = ClientConversation()
    await dial(
        Target(
            url,
            tuple((name.replace("_", "-"), value) for name, value in headers.items()),
        ),
        conversation,
    )
    greeting = json.loads(await conversation.receive())
    assert greeting == {
        "type": "connected",
        "data": {},
        "context": {"session": {"session_id": "default"}},
    }
    return conversation


def ovos_environment(folder: Path, **websocket: Any) -> dict[str, str]:
    """Variables that keep OVOS programs inside `folder`, with these bus settings."""
    (folder / "mycroft").mkdir(parents=True, exist_ok=True)
    (folder / "mycroft" / "mycroft.conf").write_text(
        json.dumps({"websocket": websocket})
    )
    private = {name: str(folder) for name in ("HOME", "TMPDIR")}
    private |= {
        f"XDG_{kind}_HOME": str(folder) for kind in ("CONFIG", "DATA", "CACHE", "STATE")
    }
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **private}


async def run_ovos(script: str, environment: dict[str, str], *arguments: str) -> str:
    """Run a script with the OVOS packages; its standard output."""
    process = await asyncio.create_subprocess_exec(
        str(OVOS / "python"),
        "-c",
        script,
        *arguments,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-2000:]
    return out.decode()
