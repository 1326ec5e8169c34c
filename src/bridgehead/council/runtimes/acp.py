"""Seat any agent that speaks ACP (Agent Client Protocol): `acp:gemini`, or `acp:NAME` with a command.

The protocol is a conversation, and a council asks once: so this file, run as a program
of its own inside the seat's confinement, starts the agent, asks it and prints what
happened as lines of JSON. It refuses writes, terminals and every permission the agent
asks for, except for the tools of the MCP servers that the call brings (runtimes §7).
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

from bridgehead.contract.looks import Unlooked
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
from bridgehead.council.runtimes.endings import shortfall_of
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
    """How an agent is started, and whose folders, keys and settings it shares."""

    words: tuple[str, ...]
    package: str = ""
    """Where it comes from, for the hint."""
    like: type[CliConnection] | None = None
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    asking: str = ""
    """The mode in which it asks before it uses a tool, if its read-only one refuses
    the tools of MCP servers."""
    allowing: str = ""
    """The option that allows the tools of one server, if a question about them would
    not say which they are."""


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
    """Return what came of one conversation, from the lines the program below prints."""
    stderr = stderr_of(result) if result is not None else ""
    last_turn = events[_start_of_last_turn(events) :]
    error = _first_error(last_turn)
    if error is not None:
        return _refusal_by_error(error, stderr)
    turn_results = _data_of(last_turn, "prompt result")
    if not turn_results:
        return exchange.RuntimeRefusal(
            ErrorClass.MALFORMED, "the agent ended in the middle of its answer", stderr
        )
    updates = _data_of(last_turn, "session/update")
    usage = _usage(_data_of(events, "prompt result"), updates)
    chunks = [
        update
        for update in updates
        if update.get("sessionUpdate") == "agent_message_chunk"
    ]
    # An adapter may put its own warnings, and the error that ended it, where the
    # answer goes; only words of the model have an id then (runtimes §7).
    model_chunks = [chunk for chunk in chunks if chunk.get("messageId")]
    text = "".join(
        text_at(mapping_at(chunk, "content"), "text")
        for chunk in model_chunks or chunks
    )
    if not model_chunks and any(map(_is_system_error, updates)):
        message = excerpt(text, 400) or "the agent failed"
        return exchange.RuntimeRefusal(classify(text), message, stderr, usage=usage)
    stop_reason = text_at(turn_results[0], "stopReason")
    shortfall = shortfall_of(stop_reason)
    is_cut = shortfall is Unlooked.CUT and bool(text.strip())
    if stop_reason not in ("end_turn", "") and not is_cut:
        message = f"the agent stopped before its end: {stop_reason}"
        refusal = shortfall is Unlooked.REFUSED
        error_class = ErrorClass.CONTENT_FILTER if refusal else ErrorClass.MALFORMED
        return exchange.RuntimeRefusal(error_class, message, stderr, usage=usage)
    answer = exchange.RuntimeAnswer(
        text, usage=usage, refused=_refused_names(events), shortfall=shortfall
    )
    if result is not None:
        return succeeded("the agent", result, answer)
    if text.strip():
        return answer
    return exchange.RuntimeRefusal(
        ErrorClass.EMPTY, "the agent gave no answer", usage=usage
    )


def _start_of_last_turn(events: Sequence[Mapping[str, Any]]) -> int:
    """Return where the last prompt begins; what the agent says after it is its answer."""
    prompts = [
        place for place, event in enumerate(events) if event.get("event") == ASKED_AGAIN
    ]
    return prompts[-1] if prompts else 0


def _data_of(events: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [mapping_at(event, "data") for event in events if event.get("event") == name]


def _first_error(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    for event in events:
        if str(event.get("event")).endswith(" error"):
            return mapping_at(event, "data")
    return None


def _refusal_by_error(error: Mapping[str, Any], stderr: str) -> exchange.RuntimeRefusal:
    data = mapping_at(error, "data")
    reasons = (
        text_at(data, "message"),
        text_at(data, "details"),
        text_at(error, "e").removeprefix("Internal error").lstrip(": "),
        "internal error of the agent",
    )
    message = excerpt(next(filter(None, reasons)), 400)
    if error.get("code") == AUTH_REQUIRED:
        return exchange.RuntimeRefusal(ErrorClass.AUTH, message, stderr)
    everything = f"{message} {json.dumps(error.get('data'))}".replace("_", " ")
    return exchange.RuntimeRefusal(classify(everything), message, stderr)


def _is_system_error(update: Mapping[str, Any]) -> bool:
    status = mapping_at(update, "_meta", "codex", "threadStatus")
    return status.get("type") == "systemError"


def _refused_names(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what the agent asked for and was refused."""
    names = []
    for event in events:
        if not str(event.get("event")).endswith(" refused"):
            continue
        data = mapping_at(event, "data")
        name = text_at(data, "method") or text_at(data, "title") or "permission"
        names.append(excerpt(name, 80))
    return tuple(names)


def _usage(
    turn_results: Sequence[Mapping[str, Any]], updates: Sequence[Mapping[str, Any]]
) -> CallUsage:
    cost = _last_cost(updates)
    usages = [mapping_at(result, "usage") for result in turn_results]
    quotas = [
        mapping_at(result, "_meta", "quota", "token_count") for result in turn_results
    ]
    if not any(usages) and not any(quotas):
        return exchange.NOTHING_REPORTED if cost is None else CallUsage(cost_usd=cost)
    tokens_in = _total(usages, "inputTokens", "cachedReadTokens", "cachedWriteTokens")
    tokens_out = _total(usages, "outputTokens", "thoughtTokens")
    return CallUsage(
        tokens_in=tokens_in or _total(quotas, "input_tokens"),
        tokens_out=tokens_out or _total(quotas, "output_tokens"),
        cost_usd=cost,
    )


def _last_cost(updates: Sequence[Mapping[str, Any]]) -> float | None:
    for update in reversed(updates):
        amount = mapping_at(update, "cost").get("amount")
        if isinstance(amount, int | float):
            return float(amount)
    return None


def _total(counts: Sequence[Mapping[str, Any]], *names: str) -> int:
    return sum(sum(count_at(count, name) for name in names) for count in counts)


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
        # An agent that we do not know may start servers.
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
            source = f" (npm {agent.package})" if agent.package else ""
            return Missing(CLI_NOT_FOUND, f"{agent.words[0]} is not on PATH{source}")
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
        allowed: list[str] = []
        if self.agent.allowing:
            allowed += [self.agent.allowing.format(tool.name) for tool in ask.tools]
        if ask.tools and self.agent.like is GeminiCli:
            allowed += rules(ask)
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
            tools = ask.tools if ask else ()
            allowed = {f"{tool.name}_*": "allow" for tool in tools}
            kept["OPENCODE_CONFIG_CONTENT"] = json.dumps(
                OPENCODE_SETTINGS | {"permission": READ_ONLY | allowed}
            )
        return super().environment(ask) | like.fixed_environment | kept

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        command = super().ask(ask)
        assert isinstance(command, Command)
        servers = {tool.name: tool.started() for tool in ask.tools}
        options: list[str] = []
        if servers:
            options += [f"--tools={json.dumps(servers)}"]
            options += option("--mode", self.agent.asking)
        options += option("--model", ask.model)
        # -B: it can write nothing there.
        ours = our_python("-B", "-m", __name__, *options, "--")
        environment = our_environment(command.env or {})
        if site.ENABLE_USER_SITE:
            # The packages of the user are not in its scratch home.
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
    """Tell if a permission is asked for a tool of one of these MCP servers.

    The protocol has no field for the name of a tool. Some agents give it beside the
    call, the others in its title. The title of a command or a file may be the model's
    own words: so a call of such a kind is never a tool of a server, and a title counts
    only as a whole.
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
    """Our side of the conversation: prints everything, allows only the tools of this call."""

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
        # The call was announced before, and the question may say no more than its id.
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
        """Refuse everything else an agent may ask of us: files, terminals, forms."""

        async def refuse(*_: Any, **__: Any) -> Any:
            from acp import RequestError

            _print("request refused", {"method": name})
            raise RequestError.method_not_found(name)

        if name.startswith("__"):
            raise AttributeError(name)
        return refuse


async def converse(given: argparse.Namespace, prompt: str) -> int:
    """Start the agent, ask it once and print everything; return the exit code."""
    from acp import RequestError, spawn_agent_process

    client = _Client(given.tools)
    async with spawn_agent_process(
        client,
        *given.command,
        env=os.environ,
        transport_kwargs={"limit": LONGEST_LINE_BYTES, "stderr": None},
    ) as (agent, process):
        conversation = _Conversation(agent, client, given)
        try:
            return await conversation.run(prompt)
        except RequestError as error:
            _print(
                f"{conversation.step} error",
                {"e": str(error), "code": error.code, "data": error.data},
            )
            return 1
        finally:
            # Ends it at once: some wait for ever, or leave their pipes to a child.
            process._transport.close()  # type: ignore[attr-defined]


class _Conversation:
    """One session with a started agent; `step` names the request that is under way."""

    step = "initialize"

    def __init__(self, agent: Any, client: _Client, given: argparse.Namespace) -> None:
        self._agent = agent
        self._client = client
        self._given = given

    async def run(self, prompt: str) -> int:
        """Open a session, choose its mode and ask; return the exit code."""
        capabilities = await self._initialize()
        self.step = "new_session"
        tools = self._given.tools
        needs_urls = any("url" in server for server in tools.values())
        if needs_urls and not capabilities.get("http"):
            _print(f"{self.step} error", {"e": NO_URLS})
            return 1
        session = _plain(
            await self._agent.new_session(
                cwd=str(Path.cwd()), mcp_servers=_mcp_servers(tools)
            )
        )
        _print(self.step, session)
        self.step = "set_mode"
        modes = (self._given.mode,) if self._given.mode else READ_ONLY_MODES
        await _choose_mode(self._agent, session, modes)
        await _choose_model(self._agent, session, self._given.model)
        self.step = "prompt"
        await self._prompt(session["sessionId"], prompt)
        return 0

    async def _initialize(self) -> Mapping[str, Any]:
        """Return what the agent can do with MCP servers."""
        from acp import PROTOCOL_VERSION
        from acp.schema import ClientCapabilities

        reply = await self._agent.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
        )
        plain = _plain(reply)
        _print(self.step, plain)
        return mapping_at(plain, "agentCapabilities", "mcpCapabilities")

    async def _prompt(self, session_id: str, prompt: str) -> None:
        from acp import text_block

        client = self._client
        for left in reversed(range(MOST_PROMPTS)):
            client.refused = False
            answer = await self._agent.prompt(
                session_id=session_id, prompt=[text_block(prompt)]
            )
            _print("prompt result", _plain(answer))
            if not (left and client.refused and answer.stop_reason == "cancelled"):
                return
            # Some end their turn at a refusal, as if a person wanted to say something;
            # so it is said.
            prompt = GO_ON
            _print(ASKED_AGAIN, {"prompt": prompt})


def _mcp_servers(tools: Mapping[str, Any]) -> list[Any]:
    from acp.schema import HttpMcpServer, McpServerStdio

    servers: list[Any] = []
    for name, server in tools.items():
        if "url" in server:
            servers.append(
                HttpMcpServer(type="http", name=name, headers=[], url=server["url"])
            )
        else:
            command = shutil.which(server["command"]) or server["command"]
            servers.append(
                McpServerStdio(name=name, env=[], **server | {"command": command})
            )
    return servers


async def _choose_mode(
    agent: Any, session: dict[str, Any], wanted: Sequence[str]
) -> None:
    """Choose the first wanted mode that the agent offers, as a mode or as an option."""
    session_id = session["sessionId"]
    offered = mapping_at(session, "modes").get("availableModes") or []
    if offered:
        mode = _first_of(wanted, [mode["id"] for mode in offered])
        if mode:
            await agent.set_session_mode(mode_id=mode, session_id=session_id)
        return
    values = _config_options(session).get("mode", {}).get("options", [])
    mode = _first_of(wanted, [value.get("value") for value in values])
    if mode:
        await agent.set_config_option(
            config_id="mode", session_id=session_id, value=mode
        )


async def _choose_model(agent: Any, session: dict[str, Any], model: str | None) -> None:
    """Choose the model, if the agent offers a choice."""
    if model and "model" in _config_options(session):
        await agent.set_config_option(
            config_id="model", session_id=session["sessionId"], value=model
        )


def _config_options(session: Mapping[str, Any]) -> dict[str, Any]:
    return {option["id"]: option for option in session.get("configOptions") or []}


def _first_of(wanted: Sequence[str], offered: Sequence[Any]) -> str | None:
    return next((mode for mode in wanted if mode in offered), None)


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
        # The agent is a guest: when it ends early or breaks the protocol, we say so in
        # a sentence of our own.
        reason = str(error) or type(error).__name__
        _print("agent error", {"e": f"the agent ended before its answer: {reason}"})
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
