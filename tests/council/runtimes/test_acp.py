"""Agents that speak ACP take a seat: asked once, held to the private copy, and given nothing they ask for."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import ErrorClass, TaskType
from bridgehead.council.request.settings import (
    RuntimeSettings,
    load_settings,
    seats_by_default,
    with_agents,
    without_untrusted,
)
from bridgehead.council.runtimes import find_runtime
from bridgehead.council.runtimes.acp import NO_URLS, AcpAgent, is_tool_of, read_acp
from bridgehead.council.runtimes.base import Missing, SeatSetup
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
    ToolServer,
)
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.seating.preflight import NotSeated, Wishes, check_seat
from bridgehead.host.clock import SystemClock
from bridgehead.host.command import Command
from bridgehead.testing.model_server import ModelServer
from council.runtimes.test_peers import carry
from support import peer_clis

# An agent that does what a prompt tells it, and says how that went.
AGENT = """
import asyncio
from pathlib import Path
import acp
from acp.schema import PermissionOption, ToolCallUpdate, Usage

USED = Usage(input_tokens=5, output_tokens=2, total_tokens=7)

class Told(acp.Agent):
    def on_connect(self, conn):
        self.client = conn
    async def initialize(self, protocol_version, **_):
        return acp.InitializeResponse(protocol_version=protocol_version)
    async def new_session(self, cwd, mcp_servers=(), **_):
        self.cwd = Path(cwd)
        self.servers = mcp_servers
        return acp.NewSessionResponse(session_id="s1")
    async def prompt(self, session_id, prompt, **_):
        if prompt[0].text.startswith("again "):
            self.again = int(prompt[0].text.removeprefix("again "))
        if getattr(self, "again", 0):
            self.again -= 1
            await self.act(session_id, "ask")
            await self.client.session_update(session_id=session_id, update=acp.update_agent_message_text("I will"))
            return acp.PromptResponse(stop_reason="cancelled", usage=USED)
        if prompt[0].text == "quit":
            return acp.PromptResponse(stop_reason="cancelled", usage=USED)
        said = await self.act(session_id, prompt[0].text)
        await self.client.session_update(session_id=session_id, update=acp.update_agent_message_text(said))
        return acp.PromptResponse(stop_reason="end_turn", usage=USED)
    async def act(self, session_id, wanted):
        try:
            if wanted == "servers":
                return "; ".join(f"{one.name} {one.command} {' '.join(one.args)}" for one in self.servers)
            if wanted.startswith("ask"):
                kinds = ("allow_always", "allow_once", "reject_once")
                options = [PermissionOption(kind=kind, name=kind, option_id=kind) for kind in kinds]
                call = ToolCallUpdate(tool_call_id="t1", title=wanted.removeprefix("ask").strip() or "rm -rf")
                if wanted == "ask about t1":
                    begun = acp.start_tool_call("t1", "mcp__clock__now", kind="other")
                    await self.client.session_update(session_id=session_id, update=begun)
                    call = ToolCallUpdate(tool_call_id="t1")
                answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
                return f"permission: {answer.outcome.option_id}"
            if wanted == "write":
                await self.client.write_text_file(session_id=session_id, path=str(self.cwd / "x"), content="x")
            if wanted == "terminal":
                await self.client.create_terminal(session_id=session_id, command="touch x")
            if wanted == "fail":
                raise acp.RequestError.auth_required()
            if wanted.startswith("read "):
                return Path(wanted.removeprefix("read ")).read_text()
            if wanted == "touch":
                (self.cwd / "x").touch()
            return "done" if wanted != "nothing" else ""
        except OSError as error:
            return f"denied: {error.strerror}"
        except acp.RequestError as error:
            if wanted == "fail":
                raise
            return f"refused: {error}"

asyncio.run(acp.run_agent(Told()))
"""


def seat(tmp_path: Path, name: str = "acp:told", **options: str) -> SeatSetup:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    chosen = {
        "acp": f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}",
        **options,
    }
    (tmp_path / "home").mkdir(exist_ok=True)
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    return SeatSetup(
        name,
        RuntimeSettings(options=chosen),
        environment,
        readable=(str(script), sys.prefix),
    )


def ask(tmp_path: Path, prompt: str, *tools: ToolServer) -> CallOutcome:
    setup = seat(tmp_path)
    located = AcpAgent.locate(setup, Machine(setup.environment, memory={}))
    assert isinstance(located, AcpAgent), located
    if not located.has_tools:
        pytest.skip("nothing here can confine a program, so no ACP agent is asked")
    work = tmp_path / "work"
    work.mkdir()
    (work / "seen.txt").write_text("in the copy")
    outcome = carry(
        located,
        RuntimeRequest(prompt, work, 240, scratch=tmp_path / "scratch", tools=tools),
    )
    assert [path.name for path in work.iterdir()] == ["seen.txt"]
    return outcome


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("hello", "done"),
        ("ask", "permission: reject_once"),
        ("write", "refused: "),
        ("terminal", "refused: "),
        ("touch", "denied: "),
    ],
)
def test_an_agent_is_answered_and_gets_nothing_it_asks_for(
    tmp_path: Path, prompt: str, answer: str
) -> None:
    outcome = ask(tmp_path, prompt)
    assert isinstance(outcome, RuntimeAnswer), outcome
    assert outcome.text.startswith(answer)
    asked_for = {
        "ask": ("rm -rf",),
        "write": ("write_text_file",),
        "terminal": ("create_terminal",),
    }
    assert outcome.refused == asked_for.get(prompt, ())


CLOCK = ToolServer("clock", ("cat", "-u"))


def test_the_servers_of_a_call_are_started_by_the_agent(tmp_path: Path) -> None:
    outcome = ask(tmp_path, "servers", CLOCK)
    assert isinstance(outcome, RuntimeAnswer), outcome
    assert outcome.text == f"clock {shutil.which('cat', path='/usr/bin:/bin')} -u"


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("ask mcp__clock__now", "permission: allow_once"),
        ("ask about t1", "permission: allow_once"),
        ("ask mcp__door__open", "permission: reject_once"),
        ("ask", "permission: reject_once"),
    ],
)
def test_an_agent_may_use_the_tools_of_its_servers_and_nothing_else(
    tmp_path: Path, prompt: str, answer: str
) -> None:
    outcome = ask(tmp_path, prompt, CLOCK)
    assert isinstance(outcome, RuntimeAnswer), outcome
    assert outcome.text == answer
    assert bool(outcome.refused) == ("reject" in answer)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ({"title": "mcp__clock__now", "kind": "other"}, True),
        ({"title": "clock__now"}, True),
        (
            {
                "title": "The time",
                "kind": "other",
                "_meta": {"claudeCode": {"toolName": "mcp__clock__now"}},
            },
            True,
        ),
        (
            {
                "title": "x",
                "kind": "execute",
                "_meta": {"is_mcp_tool_call": True},
                "rawInput": {"server": "clock"},
            },
            True,
        ),
        (
            {
                "title": "x",
                "_meta": {"is_mcp_tool_call": True},
                "rawInput": {"server": "door"},
            },
            False,
        ),
        (
            {
                "title": "x",
                "_meta": {"is_mcp_tool_call": "true"},
                "rawInput": {"server": "clock"},
            },
            False,
        ),
        ({"title": "mcp__clock__now", "kind": "execute"}, False),
        ({"title": "mcp__clock__now", "kind": "edit"}, False),
        (
            {"title": "mcp__clock__now", "_meta": {"claudeCode": {"toolName": "Bash"}}},
            False,
        ),
        ({"title": "mcp__clock__now; rm -rf ~"}, False),
        ({"title": "mcp__clock__now\n"}, False),
        ({"title": "x/mcp__clock__now"}, False),
        ({"title": "mcp__clock_x__now"}, False),
        ({"title": "mcp__clock__"}, False),
        ({}, False),
    ],
)
def test_what_is_asked_for_is_a_tool_only_where_the_agent_says_so(
    call: dict[str, Any], given: bool
) -> None:
    assert is_tool_of(call, ["clock"]) is given
    assert not is_tool_of(call, [])


def test_a_server_by_url_is_not_given_to_an_agent_that_takes_none(
    tmp_path: Path,
) -> None:
    outcome = ask(
        tmp_path, "servers", ToolServer("clock", url="http://127.0.0.1:1/mcp")
    )
    assert isinstance(outcome, RuntimeRefusal) and outcome.message == NO_URLS


@pytest.mark.parametrize("refusals", [1, 3])
def test_an_agent_that_ends_its_turn_at_a_refusal_is_told_to_go_on(
    tmp_path: Path, refusals: int
) -> None:
    outcome = ask(tmp_path, f"again {refusals}")
    assert isinstance(outcome, RuntimeAnswer), outcome
    assert outcome.text == "done"
    assert outcome.refused == ("rm -rf",) * refusals
    assert (outcome.usage.tokens_in, outcome.usage.tokens_out) == (
        5 * (refusals + 1),
        2 * (refusals + 1),
    )


def test_an_agent_that_asks_again_and_again_gives_no_answer(tmp_path: Path) -> None:
    outcome = ask(tmp_path, "again 9")
    assert isinstance(outcome, RuntimeRefusal) and "cancelled" in outcome.message


def test_an_agent_that_was_refused_nothing_is_not_asked_again(tmp_path: Path) -> None:
    outcome = ask(tmp_path, "quit")
    assert isinstance(outcome, RuntimeRefusal) and outcome.usage.tokens_in == 5, outcome


def test_the_private_copy_can_be_read_and_the_home_cannot(tmp_path: Path) -> None:
    outcome = ask(tmp_path, f"read {tmp_path / 'work' / 'seen.txt'}")
    assert isinstance(outcome, RuntimeAnswer) and outcome.text == "in the copy"
    secret = tmp_path / "home" / "secret"
    secret.write_text("a key")
    (tmp_path / "work" / "seen.txt").unlink()
    (tmp_path / "work").rmdir()
    outcome = ask(tmp_path, f"read {secret}")
    assert isinstance(outcome, RuntimeAnswer) and outcome.text.startswith("denied: ")


def test_no_value_stands_where_a_program_reads_options(tmp_path: Path) -> None:
    setup = seat(tmp_path)
    located = AcpAgent.locate(setup, Machine(setup.environment, memory={}))
    assert isinstance(located, AcpAgent)
    for value in ("--attach=http://x", "-x", "a b", "a\nb", "--"):
        asked = RuntimeRequest(
            "hello",
            tmp_path,
            60,
            model=value,
            session=value,
            reasoning=value,
            title=value,
        )
        words = located.ask(asked)
        assert isinstance(words, Command)
        ours, agent = (
            list(words.argv)[: words.argv.index("--")],
            list(words.argv)[words.argv.index("--") + 1 :],
        )
        assert (
            ours[-1] == f"--model={value}"
            and [word for word in ours[1:-1] if value in word] == []
        )
        assert agent == [located.path, str(tmp_path / "agent.py")]


@pytest.mark.parametrize(
    ("prompt", "expected"), [("fail", ErrorClass.AUTH), ("nothing", ErrorClass.EMPTY)]
)
def test_what_is_no_answer_is_a_refusal(
    tmp_path: Path, prompt: str, expected: ErrorClass
) -> None:
    outcome = ask(tmp_path, prompt)
    assert isinstance(outcome, RuntimeRefusal) and outcome.error_class is expected, (
        outcome
    )


def test_a_conversation_that_breaks_off_is_no_answer() -> None:
    begun = {"event": "initialize", "data": {"protocolVersion": 1}}
    outcome = read_acp([begun])
    assert (
        isinstance(outcome, RuntimeRefusal)
        and outcome.error_class is ErrorClass.MALFORMED
    )
    stopped = read_acp(
        [begun, {"event": "prompt result", "data": {"stopReason": "cancelled"}}]
    )
    assert isinstance(stopped, RuntimeRefusal) and "cancelled" in stopped.message


@pytest.mark.parametrize(
    ("told", "data", "message"),
    [
        (
            "Internal error: Incorrect API key provided.",
            None,
            "Incorrect API key provided.",
        ),
        (
            "Internal error",
            {"details": "401 Incorrect API key provided."},
            "401 Incorrect API key provided.",
        ),
        (
            "Internal error",
            {"message": "unexpected status 401 Unauthorized"},
            "unexpected status 401 Unauthorized",
        ),
    ],
)
def test_the_cause_counts_and_not_the_protocol_s_word_for_any_error(
    told: str, data: Any, message: str
) -> None:
    outcome = read_acp(
        [{"event": "prompt error", "data": {"e": told, "code": -32603, "data": data}}]
    )
    assert isinstance(outcome, RuntimeRefusal)
    assert (outcome.error_class, outcome.message) == (ErrorClass.AUTH, message)
    bare = read_acp(
        [{"event": "prompt error", "data": {"e": "Internal error", "code": -32603}}]
    )
    assert (
        isinstance(bare, RuntimeRefusal) and bare.error_class is ErrorClass.SERVER_ERROR
    )


def test_an_agent_that_nobody_knows_needs_a_command(tmp_path: Path) -> None:
    machine = Machine({"HOME": str(tmp_path), "PATH": "/usr/bin"}, memory={})
    unknown = AcpAgent.locate(
        SeatSetup("acp:goose", environment=machine.environment), machine
    )
    assert isinstance(unknown, Missing) and '"acp": "COMMAND"' in unknown.detail
    absent = AcpAgent.locate(
        SeatSetup("acp:qwen", environment=machine.environment), machine
    )
    assert isinstance(absent, Missing) and "@qwen-code/qwen-code" in absent.detail


def test_an_implementation_is_not_given_to_an_agent_that_may_only_look(
    tmp_path: Path,
) -> None:
    setup = seat(tmp_path)
    wanted = TaskType.IMPLEMENTATION
    task = BridgeInput(
        session_id="abc123",
        scope=".",
        task_description="x",
        domains=("security",),
        task_type=wanted,
    )
    found = check_seat(
        find_runtime("acp:told"),
        setup,
        task,
        Machine(setup.environment, memory={}),
        Wishes(),
    )
    assert isinstance(found, NotSeated) and "cannot change files" in found.reason


def test_a_file_that_nobody_trusts_starts_no_agent() -> None:
    text = '{"bridges": {"acp:evil": {"acp": "touch pwned"}, "acp:Not-a-name": {}}}'
    read = load_settings(text, SystemClock().now())
    assert "acp:evil" in read.runtimes
    assert "unknown_bridge:acp:Not-a-name" in read.warnings
    assert "acp:evil" not in without_untrusted(read).runtimes


def test_an_agent_can_be_described_in_bridgehead_toml() -> None:
    known = with_agents(
        load_settings(None, SystemClock().now()),
        {"goose": "goose acp", "Not-a-name": "x"},
    )
    assert known.runtimes["acp:goose"].options == {"acp": "goose acp"}
    assert (
        "unknown_bridge:acp:Not-a-name" in known.warnings
        and "acp:Not-a-name" not in known.runtimes
    )
    assert "acp:goose" in seats_by_default(known, TaskType.REVIEW)
    nearer = load_settings(
        '{"bridges": {"acp:goose": {"enabled": false}}}', SystemClock().now()
    )
    assert not with_agents(nearer, {"goose": "goose acp"}).runtimes["acp:goose"].enabled
    chosen = load_settings(
        '{"bridges": {"acp:goose": {"model": "m"}}}', SystemClock().now()
    )
    entry = with_agents(chosen, {"goose": "goose acp"}).runtimes["acp:goose"]
    assert (entry.models, entry.options) == (("m",), {"acp": "goose acp"})


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_agent_sits_and_cannot_write(tmp_path: Path) -> None:
    with ModelServer() as server:
        home = peer_clis.furnish(
            tmp_path, lambda _: server.base_url("toolwrite"), ("gemini",)
        )
        located = AcpAgent.locate(
            SeatSetup("acp:gemini", environment=home.environment),
            Machine(home.environment, memory={}),
        )
        assert isinstance(located, AcpAgent), located
        work = tmp_path / "work"
        work.mkdir()
        prompt = f"do it PATH={work / 'pwned.txt'}"
        outcome = carry(
            located, RuntimeRequest(prompt, work, 240, scratch=tmp_path / "scratch")
        )
        assert isinstance(outcome, RuntimeAnswer), outcome
        assert len(server.log.questions()) == 2
        assert list(work.iterdir()) == []
