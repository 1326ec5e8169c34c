"""What else can be the assistant of a bus: a council, a flow; each in a process of its own, asked over the real bus."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.assistants import (
    TAKES_TOOLS,
    UnknownAssistant,
    agent_for,
    spoken_report,
    tool_servers,
)
from bridgehead.bus.assistant.agents import ModelFailed
from bridgehead.bus.assistant.assistant import SORRY
from bridgehead.bus.interfaces import AgentQuestion
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer
from bridgehead.council.runtimes.machine import Machine
from bridgehead.errors import ConfigError
from bridgehead.testing.exchange import CallTool, ModelRequest, Say, ToolKind
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Scripted
from bus.support.running import free_port, run, until
from bus.support.serving import served_bus
from support.peer_clis import furnish

FLOW = """
from bridgehead.flows import flow

@flow("butler", version="1")
def butler(ctx, text: str, participant: str = "", lang: str = "en"):
    if text == "whom shall I ask":
        return ctx.ask("who", agent="person", prompt="Whom?")
    if text == "everything":
        return {"text": text}
    return f"{participant} said {ctx.step('shout', text.upper)} in {lang}"
"""


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    project = tmp_path / "project"
    project.mkdir()
    return Assembly(
        project, {"BRIDGEHEAD_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    )


def served(tmp_path: Path, assembly: Assembly, name: str) -> Any:
    agent = agent_for(assembly, name, 300)
    return served_bus(tmp_path / "bus", agent=agent, assistant_timeout_s=300)


def test_a_flow_is_the_assistant_and_gets_what_it_declares(
    tmp_path: Path, assembly: Assembly
) -> None:
    (assembly.cwd / "butler.py").write_text(FLOW)

    async def main() -> None:
        async with (
            served(tmp_path, assembly, "flow:butler.py") as server,
            await server.satellite("kitchen") as kitchen,
        ):
            assert (
                await kitchen.ask("--good; morning", "de", wait_s=120)
            ).text == "kitchen said --GOOD; MORNING in de"
            assert json.loads((await kitchen.ask("everything", wait_s=120)).text) == {
                "text": "everything"
            }

    run(main(), deadline_s=300)
    assert list((assembly.places.data / "bus-flows").iterdir()) == []


def test_what_a_flow_asks_is_a_pending_item_whose_answer_is_waited_for(
    tmp_path: Path, assembly: Assembly
) -> None:
    from bridgehead.assembly.pending import pending_list

    (assembly.cwd / "butler.py").write_text(FLOW)

    def items() -> list[str]:
        with assembly.store() as store:
            return [item.id for item in store.pending()]

    async def main() -> None:
        async with (
            served(tmp_path, assembly, "flow:butler.py:butler") as server,
            await server.satellite("kitchen") as kitchen,
        ):
            asking = asyncio.ensure_future(kitchen.ask("whom shall I ask", wait_s=250))
            await until(lambda: len(items()) == 1)
            with assembly.store() as store:
                answer = Answer(
                    text="the cook", by="a person", at="2026-01-01T00:00:00.000Z"
                )
                pending_list(assembly, store, print).answer(
                    items()[0], answer, Door.PAGE
                )
            assert (await asking).text == "the cook"

    run(main(), deadline_s=300)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("flow:nowhere.py", "there is no file"),
        ("flow:", "there is no flow"),
        ("flow:silent.py", "has no parameter `text`"),
    ],
)
def test_a_flow_that_cannot_answer_is_refused_before_anything_is_served(
    assembly: Assembly, name: str, problem: str
) -> None:
    (assembly.cwd / "silent.py").write_text(
        FLOW.replace("text: str, ", "").replace("text", "participant")
    )
    with pytest.raises(UnknownAssistant, match=problem):
        agent_for(assembly, name)


def test_a_flow_that_breaks_is_apologised_for_without_its_reason(
    tmp_path: Path, assembly: Assembly
) -> None:
    (assembly.cwd / "butler.py").write_text(FLOW.replace("text.upper", "lambda: 1 / 0"))

    async def main() -> None:
        async with (
            served(tmp_path, assembly, "flow:butler.py") as server,
            await server.satellite("kitchen") as kitchen,
        ):
            assert (await kitchen.ask("hello", wait_s=120)).text == SORRY

    run(main(), deadline_s=300)


def said_by(request: ModelRequest) -> Scripted:
    return Scripted(
        Say(
            json.dumps(
                {
                    "outputs": [
                        {
                            "title": "t",
                            "description": "SQLite will do.",
                            "evidence": "e",
                            "action": "a",
                        }
                    ]
                }
            )
        )
    )


def test_a_council_is_the_assistant_and_sees_the_question_behind_a_fence(
    tmp_path: Path, assembly: Assembly
) -> None:
    (assembly.cwd / "secret.txt").write_text("the launch code")

    async def main() -> None:
        async with (
            served(tmp_path, assembly, "council") as server,
            await server.satellite("kitchen") as kitchen,
        ):
            answer = await kitchen.ask("secret.txt", wait_s=250)
            assert "SQLite will do." in answer.text

    with ModelServer(script=said_by) as model:
        seats = {"bridges": {"openai": {"base_url": f"{model.base_url()}/v1"}}}
        (assembly.cwd / ".bridge-settings.json").write_text(json.dumps(seats))
        assembly.trusted_files.add(assembly.cwd / ".bridge-settings.json")
        run(main(), deadline_s=300)
        prompts = [json.dumps(entry.body) for entry in model.log.questions()]
    assert prompts and any(
        "foreign text" in prompt and "secret.txt" in prompt for prompt in prompts
    )
    assert not any("the launch code" in prompt for prompt in prompts), (
        "a file is not read because somebody names it"
    )


def test_a_council_in_which_nobody_sits_is_a_failure(assembly: Assembly) -> None:
    agent = agent_for(assembly, "council", 120)
    assert agent is not None
    with pytest.raises(
        ModelFailed, match=r"No bridges returned COMPLETED results; \w+: "
    ):
        run(agent.ask(AgentQuestion("s", "hello", None, "")), deadline_s=150)


def test_an_aborted_council_has_nothing_to_say() -> None:
    with pytest.raises(ModelFailed):
        spoken_report({"type": "deep-council", "status": "ABORTED"} | aborted())


def aborted() -> dict[str, Any]:
    lists = (
        "bridges_attempted",
        "bridges_skipped",
        "bridges_halted",
        "auto_skipped_halted_bridges",
    )
    words = {"review_id": "r", "abort_reason": "nobody came", "timestamp": "t"}
    return {
        **words,
        **{name: [] for name in lists},
        "skip_reasons": {},
        "partial_coverage": False,
    }


def test_the_hint_about_a_missing_endpoint_names_the_file_to_trust(
    assembly: Assembly,
) -> None:
    with pytest.raises(ConfigError) as refused:
        agent_for(assembly, "openai")
    assert (
        refused.value.hint
        == "set one, then run: bridgehead config trust .bridge-settings.json"
    )


# -- tools -----------------------------------------------------------------------------------------------------------

CLOCK = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")

@server.tool()
def now() -> str:
    "The time of day."
    return "a quarter past nine"

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "entry", ["clock", "=http://x", "clock=", "a b=http://x", "clock='", "../x=cat"]
)
def test_a_tool_that_is_none_is_refused(assembly: Assembly, entry: str) -> None:
    with pytest.raises(ConfigError, match="is not a tool"):
        agent_for(assembly, "claude", tools=[entry])


def test_tools_for_an_assistant_that_takes_none_are_refused(assembly: Assembly) -> None:
    with pytest.raises(
        ConfigError,
        match=r"'scripted' cannot use tools, but bus\.assistant_tools is set",
    ) as refused:
        agent_for(assembly, "scripted", tools=["clock=cat"])
    assert (
        refused.value.hint is not None
        and "claude, codex, gemini, opencode or acp:NAME" in refused.value.hint
    )
    servers = tool_servers(["clock=uvx 'time server'", "docs=http://127.0.0.1:1/mcp"])
    assert (servers["clock"].words, servers["docs"].url) == (
        ("uvx", "time server"),
        "http://127.0.0.1:1/mcp",
    )


@pytest.mark.peer
@pytest.mark.parametrize("name", [*TAKES_TOOLS, "acp:gemini", "acp:opencode"])
def test_a_participant_gets_the_tools_its_record_names_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(
        Machine.__init__.__kwdefaults__, "probe_seconds", 60.0
    )  # real programs on a busy machine
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"

    async def main(agent: Any) -> None:
        async with (
            served_bus(
                tmp_path / "bus", agent=agent, assistant_timeout_s=300
            ) as server,
            await server.satellite(
                "kitchen", assistant={"tools": ["clock", "unknown"]}
            ) as kitchen,
            await server.satellite("doorbell") as doorbell,
        ):
            assert (
                await kitchen.ask("what time is it", wait_s=250)
            ).text == "the tool has answered"
            said = (
                await doorbell.ask("what time is it, says the doorbell", wait_s=250)
            ).text
            # codex offers its search always, so the model may try.
            assert said == (
                "the tool has answered" if name == "codex" else "I have no clock"
            )

    def model(request: ModelRequest) -> Scripted | None:
        has_clock = any(
            "clock" in offered or offered == "tool_search" for offered in request.tools
        )
        if has_clock and not request.answers_tool:
            return Scripted(
                CallTool(
                    ToolKind.NAMED, name="mcp__clock__now" if name == "codex" else "now"
                )
            )
        return Scripted(
            Say("the tool has answered" if request.answers_tool else "I have no clock")
        )

    with ModelServer(script=model) as served, _clock(tmp_path, port):
        home = furnish(
            tmp_path / "peer",
            lambda _cli: served.base_url(),
            (name.removeprefix("acp:"),),
        )
        project = tmp_path / "project"
        project.mkdir()
        assembly = Assembly(
            project, {**home.environment, "BRIDGEHEAD_HOME": str(tmp_path / "home")}
        )
        run(main(agent_for(assembly, name, 300, [f"clock={url}"])), deadline_s=600)
        asked = [json.dumps(entry.body) for entry in served.log.questions()]
    told = [body for body in asked if "a quarter past nine" in body]
    assert told, "the result of the tool came back to the model"
    assert not any("says the doorbell" in body for body in told), (
        "and to nobody whose record does not name it"
    )


@contextmanager
def _clock(tmp_path: Path, port: int) -> Iterator[None]:
    (tmp_path / "clock.py").write_text(CLOCK)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "clock.py"), str(port)],
        stderr=subprocess.DEVNULL,
    ) as clock:
        try:
            while clock.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield
        finally:
            clock.terminate()
