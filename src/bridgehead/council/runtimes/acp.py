"""Any agent that speaks ACP (Agent Client Protocol) takes a seat: `acp:gemini`, or `acp:NAME` with a command.

The protocol is a conversation, and a council asks once: so this file, run as a program of its own inside the seat's
confinement, starts the agent, asks it and prints what happened as lines of JSON. Writes, terminals and every
permission the agent asks for are refused, but for the tools of the MCP servers that the call brings. Runtimes §7.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import site
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.reporting.seat_report import excerpt
from bridgehead.council.request.settings import ACP_MARK
from bridgehead.council.runtimes import exchange
from bridgehead.council.runtimes.base import (
    NO_CONNECTION,
    Barred,
    Missing,
    Runtime,
    SeatSetup,
    runtime,
)
from bridgehead.council.runtimes.call_errors import CLI_NOT_FOUND, classify
from bridgehead.council.runtimes.claude import ClaudeCli
from bridgehead.council.runtimes.cli import (
    CliConnection,
    option,
    refused_without_record,
    stderr_of,
    succeeded,
)
from bridgehead.council.runtimes.codex import CodexCli
from bridgehead.council.runtimes.exchange import (
    count_at,
    mapping_at,
    objects_in,
    text_at,
)
from bridgehead.council.runtimes.gemini import GeminiCli, rules
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.council.runtimes.opencode import HOSTED_PROVIDER, READ_ONLY, OpencodeCli
from bridgehead.host.command import (
    Command,
    CommandResult,
    our_environment,
    our_python,
    python_folders,
)
from bridgehead.host.confinement import Confinement

READ_ONLY_MODES: Final = ("read-only", "plan")
LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
AUTH_REQUIRED: Final = -32000
ASKED_AGAIN: Final = "prompt again"
MOST_PROMPTS: Final = 4
NO_URLS: Final = (
    "the agent cannot use MCP servers by URL, only those started by a command"
)
GO_ON: Final = (
    "That was refused: here nothing may be changed and no command may be run. "
    "Do not ask for it again; answer the first message from what you can read."
)


@dataclass(frozen=True, slots=True)
class AcpProgram:
    """How an agent is started, and the program of ours whose folders, keys and settings it shares."""

    words: tuple[str, ...]
    package: str = ""
    """Where it comes from, for the hint."""
    like: type[CliConnection] | None = None
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    asking: str = ""
    """The mode in which it asks before it uses a tool, where its read-only one refuses tools of MCP servers."""
    allowing: str = ""
    """The option that allows the tools of one server, where a question about them would not say which they are."""


KNOWN: Final = {
    "claude": AcpProgram(
        ("claude-agent-acp",),
        "@agentclientprotocol/claude-agent-acp",
        ClaudeCli,
        asking="default",
    ),
    "codex": AcpProgram(("codex-acp",), "@zed-industries/codex-acp", CodexCli),
    "gemini": AcpProgram(
        ("gemini", "--acp", "--skip-trust", "--approval-mode", "plan"),
        "@google/gemini-cli",
        GeminiCli,
    ),
    "opencode": AcpProgram(("opencode", "acp"), "opencode-ai", OpencodeCli),
    "qwen": AcpProgram(
        ("qwen", "--acp", "--approval-mode", "plan"),
        "@qwen-code/qwen-code",
        folders=(".qwen",),
        variables=(
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "DASHSCOPE_API_KEY",
        ),
        asking="default",
        allowing="--allowed-tools=mcp__{}",
    ),
}
"""Agents that need no settings."""
OPENCODE_SETTINGS: Final = {
    "autoupdate": False,
    "share": "disabled",
    "permission": READ_ONLY,
    "disabled_providers": [HOSTED_PROVIDER],
}


def read_acp(
    events: Sequence[Mapping[str, Any]], result: CommandResult | None = None
) -> exchange.CallOutcome:
    """What came of one conversation, from the lines the program below prints."""
    said = stderr_of(result) if result is not None else ""
    # Of an agent that was asked again, what it said the last time is its answer.
    again = [
        place for place, event in enumerate(events) if event.get("event") == ASKED_AGAIN
    ]
    before = events[: again[-1] if again else 0]
    events = events[again[-1] if again else 0 :]
    failed = next(
        (
            mapping_at(event, "data")
            for event in events
            if str(event.get("event")).endswith(" error")
        ),
        None,
    )
    if failed is not None:
        data = mapping_at(failed, "data")
        told = text_at(failed, "e").removeprefix("Internal error").lstrip(": ")
        reasons = (
            text_at(data, "message"),
            text_at(data, "details"),
            told,
            "internal error of the agent",
        )
        message = excerpt(next(filter(None, reasons)), 400)
        known = classify(
            f"{message} {json.dumps(failed.get('data'))}".replace("_", " ")
        )
        return exchange.RuntimeRefusal(
            ErrorClass.AUTH if failed.get("code") == AUTH_REQUIRED else known,
            message,
            said,
        )
    answer = next(
        (
            mapping_at(event, "data")
            for event in events
            if event.get("event") == "prompt result"
        ),
        None,
    )
    if answer is None:
        return exchange.RuntimeRefusal(
            ErrorClass.MALFORMED, "the agent ended in the middle of its answer", said
        )
    updates = [
        mapping_at(event, "data")
        for event in events
        if event.get("event") == "session/update"
    ]
    chunks = [
        update
        for update in updates
        if update.get("sessionUpdate") == "agent_message_chunk"
    ]
    # An adapter may put its own warnings, and the error that ended it, where the answer goes; only words of the model
    # have an id then (runtimes §7).
    words = [chunk for chunk in chunks if chunk.get("messageId")]
    broken = any(
        mapping_at(update, "_meta", "codex", "threadStatus").get("type")
        == "systemError"
        for update in updates
    )
    text = "".join(
        text_at(mapping_at(chunk, "content"), "text") for chunk in words or chunks
    )
    answers = [
        mapping_at(event, "data")
        for event in (*before, *events)
        if event.get("event") == "prompt result"
    ]
    usage = _usage(answers, updates)
    if broken and not words:
        return exchange.RuntimeRefusal(
            classify(text), excerpt(text, 400) or "the agent failed", said, usage=usage
        )
    if text_at(answer, "stopReason") not in ("end_turn", ""):
        message = f"the agent stopped before its end: {text_at(answer, 'stopReason')}"
        return exchange.RuntimeRefusal(ErrorClass.MALFORMED, message, said, usage=usage)
    asked = [
        mapping_at(event, "data")
        for event in (*before, *events)
        if str(event.get("event")).endswith(" refused")
    ]
    refused = (
        excerpt(text_at(one, "method") or text_at(one, "title") or "permission", 80)
        for one in asked
    )
    answered = exchange.RuntimeAnswer(text, usage=usage, refused=tuple(refused))
    if result is not None:
        return succeeded("the agent", result, answered)
    if text.strip():
        return answered
    return exchange.RuntimeRefusal(
        ErrorClass.EMPTY, "the agent gave no answer", usage=usage
    )


def _usage(
    answers: Sequence[Mapping[str, Any]], updates: Sequence[Mapping[str, Any]]
) -> CallUsage:
    told = [mapping_at(answer, "usage") for answer in answers]
    quota = [mapping_at(answer, "_meta", "quota", "token_count") for answer in answers]
    costs = [mapping_at(update, "cost").get("amount") for update in updates]
    cost = next(
        (float(one) for one in reversed(costs) if isinstance(one, int | float)), None
    )
    if not any(told) and not any(quota):
        return exchange.NOTHING_REPORTED if cost is None else CallUsage(cost_usd=cost)
    read = _total(
        told, "inputTokens", "cachedReadTokens", "cachedWriteTokens"
    ) or _total(quota, "input_tokens")
    wrote = _total(told, "outputTokens", "thoughtTokens") or _total(
        quota, "output_tokens"
    )
    return CallUsage(tokens_in=read, tokens_out=wrote, cost_usd=cost)


def _total(counts: Sequence[Mapping[str, Any]], *names: str) -> int:
    return sum(count_at(one, name) for one in counts for name in names)


class AcpAgent(CliConnection):
    """One agent, started anew for every prompt and held to its private copy from outside."""

    kind = "acp"
    program = "acp"
    runtime_name = "acp"
    changes_files = False
    takes_tools = True

    def __init__(
        self, setup: SeatSetup, path: str, probe: Probe, agent: AcpProgram
    ) -> None:
        super().__init__(setup, path, probe)
        self.agent = agent
        self.keeps_history = False
        like = agent.like or CliConnection
        self.own_folders = agent.folders or like.own_folders  # type: ignore[misc]
        self.own_files = like.own_files  # type: ignore[misc]
        self.folder_variables = like.folder_variables  # type: ignore[misc]
        # Of an agent nobody knows it is not known that it does without.
        self.starts_servers = agent.like is None or like.serves_acp  # type: ignore[misc]
        self.server_ports = like.server_ports  # type: ignore[misc]

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        name = setup.runtime.removeprefix(ACP_MARK)
        chosen = setup.text_option("acp")
        agent = AcpProgram(_split(chosen)) if chosen else KNOWN.get(name)
        if agent is None or not agent.words:
            return Missing(
                NO_CONNECTION,
                f'say how it is started: "{setup.runtime}": {{"acp": "COMMAND"}}',
            )
        path = machine.which(setup.text_option("path") or agent.words[0])
        if path is None:
            return Missing(
                CLI_NOT_FOUND,
                f"{agent.words[0]} is not on PATH"
                + (f" (npm {agent.package})" if agent.package else ""),
            )
        if find_spec("acp") is None:
            return Missing(
                NO_CONNECTION,
                "the package agent-client-protocol is missing: pip install "
                "'bridgehead[acp]'",
            )
        located = cls(setup, path, Probe(None), agent)
        located.hold(machine)
        return located

    def barrier(self, machine: Machine) -> Barred | None:
        if self.has_tools:
            return None
        return Barred(
            Status.SKIPPED,
            f"cli_error: {self.agent.words[0]} cannot be confined on this machine",
        )

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        allowed = [
            self.agent.allowing.format(one.name)
            for one in ask.tools
            if self.agent.allowing
        ]
        allowed += rules(ask) if ask.tools and self.agent.like is GeminiCli else []
        return [*self.agent.words[1:], *allowed, *self.extra_arguments]

    def environment(self, ask: exchange.RuntimeRequest | None) -> dict[str, str]:
        like = self.agent.like or CliConnection
        names = (*self.agent.variables, *like.own_variables, *like.folder_variables)
        kept = {
            name: self.setup.environment[name]
            for name in names
            if name in self.setup.environment
        }
        if like is OpencodeCli:
            allowed = {f"{one.name}_*": "allow" for one in (ask.tools if ask else ())}
            kept["OPENCODE_CONFIG_CONTENT"] = json.dumps(
                OPENCODE_SETTINGS | {"permission": READ_ONLY | allowed}
            )
        return super().environment(ask) | like.fixed_environment | kept

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        command = super().ask(ask)
        assert isinstance(command, Command)
        servers = {one.name: one.started() for one in ask.tools}
        tools = (
            [f"--tools={json.dumps(servers)}", *option("--mode", self.agent.asking)]
            if servers
            else []
        )
        model = option("--model", ask.model)
        # -B: it can write nothing there.
        ours = our_python("-B", "-m", __name__, *tools, *model, "--")
        environment = our_environment(command.env or {})
        if site.ENABLE_USER_SITE:  # packages of the user are not in its scratch home
            environment["PYTHONUSERBASE"] = site.getuserbase()
        return replace(command, argv=(*ours, *command.argv), env=environment)

    def _confinement(self, ask: exchange.RuntimeRequest) -> Confinement | None:
        usual = super()._confinement(ask)
        if usual is not None:
            usual.read += (*python_folders(), str(_package()))
        return usual

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        events = list(objects_in(result.text()))
        if not events:
            return refused_without_record(self.agent.words[0], result, ())
        return read_acp(events, result)


def _package() -> Path:
    return Path(__file__).resolve().parents[3]


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()


@runtime("acp")
class AcpRuntime(Runtime):
    model_family = "acp"
    id_prefix: ClassVar = "A"
    connections = (AcpAgent,)
    install_hint = "install the agent, and: pip install 'bridgehead[acp]'"
    login_hint = "log in with the agent's own program"


def is_tool_of(call: Mapping[str, Any], servers: Iterable[str]) -> bool:
    """Whether a permission is asked for a tool of one of these MCP servers.

    The protocol has no field for the name of a tool. Some agents say it beside the call, the others in its title, which
    for a command or a file may be the model's own words: so a call that says it does such a thing is none of these, and
    a title counts as a whole.
    """
    meta = mapping_at(call, "_meta")
    if meta.get("is_mcp_tool_call") is True:
        return text_at(mapping_at(call, "rawInput"), "server") in servers
    if text_at(call, "kind") not in ("", "other", "read", "search", "fetch", "think"):
        return False
    name = text_at(mapping_at(meta, "claudeCode"), "toolName") or text_at(call, "title")
    return any(
        re.fullmatch(rf"(mcp__)?{re.escape(server)}__[\w.-]+", name)
        for server in servers
    )


class _Client:
    """Our side of the conversation: hears everything, gives nothing away but the tools of this call."""

    refused = False

    def __init__(self, servers: Iterable[str]) -> None:
        self._servers = tuple(servers)
        self._calls: dict[Any, dict[str, Any]] = {}

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        plain = _plain(update)
        if plain.get("sessionUpdate") == "tool_call":
            self._calls[plain.get("toolCallId")] = plain
        _print("session/update", plain)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        call = _plain(tool_call)
        # What is asked about was announced before, and the question may say no more than which call it was.
        given = is_tool_of(
            self._calls.get(call.get("toolCallId"), {}) | call, self._servers
        )
        wanted = "allow_once" if given else "reject"
        chosen = next(
            (option for option in options if str(option.kind).startswith(wanted)), None
        )
        self.refused = self.refused or not given
        _print("permission given" if given else "permission refused", call)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    def on_connect(self, conn: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """Everything else an agent may ask of us: files, terminals, forms."""

        async def refuse(*_: Any, **__: Any) -> Any:
            from acp import RequestError

            _print("request refused", {"method": name})
            raise RequestError.method_not_found(name)

        if name.startswith("__"):
            raise AttributeError(name)
        return refuse


async def converse(given: argparse.Namespace, prompt: str) -> int:
    """Start the agent, ask it once, print everything."""
    from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
    from acp.schema import ClientCapabilities

    ours = {"limit": LONGEST_LINE_BYTES, "stderr": None}
    client = _Client(given.tools)
    async with spawn_agent_process(
        client, *given.command, env=os.environ, transport_kwargs=ours
    ) as (agent, process):
        step = "initialize"
        try:
            begun = await agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
            )
            _print(step, _plain(begun))
            step = "new_session"
            capable = mapping_at(_plain(begun), "agentCapabilities", "mcpCapabilities")
            if not capable.get("http") and any(
                "url" in one for one in given.tools.values()
            ):
                _print(f"{step} error", {"e": NO_URLS})
                return 1
            session = _plain(
                await agent.new_session(
                    cwd=str(Path.cwd()), mcp_servers=_mcp_servers(given.tools)
                )
            )
            _print(step, session)
            step = "set_mode"
            await _settle(
                agent,
                session,
                given.model,
                (given.mode,) if given.mode else READ_ONLY_MODES,
            )
            step = "prompt"
            for left in reversed(range(MOST_PROMPTS)):
                client.refused = False
                answer = await agent.prompt(
                    session_id=session["sessionId"], prompt=[text_block(prompt)]
                )
                _print("prompt result", _plain(answer))
                if not (left and client.refused and answer.stop_reason == "cancelled"):
                    break
                # Some end their turn at a refusal, as if a person wanted to say something; so it is said.
                prompt = GO_ON
                _print(ASKED_AGAIN, {"prompt": prompt})
        except RequestError as error:
            _print(
                f"{step} error",
                {"e": str(error), "code": error.code, "data": error.data},
            )
            return 1
        finally:
            # Ends it at once: some wait for ever, or leave their pipes to a child.
            process._transport.close()  # type: ignore[attr-defined]
    return 0


def _mcp_servers(tools: Mapping[str, Any]) -> list[Any]:
    from acp.schema import HttpMcpServer, McpServerStdio

    return [
        HttpMcpServer(type="http", name=name, headers=[], url=one["url"])
        if "url" in one
        else McpServerStdio(
            name=name,
            env=[],
            **one | {"command": shutil.which(one["command"]) or one["command"]},
        )
        for name, one in tools.items()
    ]


async def _settle(
    agent: Any, session: dict[str, Any], model: str | None, wanted: Sequence[str]
) -> None:
    """Choose the mode, and the model, where the agent offers a choice."""
    session_id = session["sessionId"]
    modes = [
        mode["id"] for mode in mapping_at(session, "modes").get("availableModes") or []
    ]
    if mode := next((mode for mode in wanted if mode in modes), None):
        await agent.set_session_mode(mode_id=mode, session_id=session_id)
    options = {option["id"]: option for option in session.get("configOptions") or []}
    offered = [
        value.get("value") for value in options.get("mode", {}).get("options", [])
    ]
    if not modes and (mode := next((mode for mode in wanted if mode in offered), None)):
        await agent.set_config_option(
            config_id="mode", session_id=session_id, value=mode
        )
    if model and "model" in options:
        await agent.set_config_option(
            config_id="model", session_id=session_id, value=model
        )


def _plain(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = (
        value.model_dump(mode="json", by_alias=True, exclude_none=True) if value else {}
    )
    return plain


def _print(event: str, data: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, "data": data}) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Ask an ACP agent once: the prompt on stdin, events on stdout."
    )
    parser.add_argument("--model")
    parser.add_argument("--mode")
    parser.add_argument("--tools", type=json.loads, default={})
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    try:
        return asyncio.run(converse(given, sys.stdin.read()))
    except Exception as error:
        # The agent is a guest: when it ends early or breaks the protocol, that is said in a sentence of ours.
        said = str(error) or type(error).__name__
        _print("agent error", {"e": f"the agent ended before its answer: {said}"})
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
