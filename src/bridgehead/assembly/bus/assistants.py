"""Who can be the assistant of a bus: a chat endpoint, whoever answers flows, a council,
a flow (bus §15).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.bus.assistant.agents import (
    ChatCompletionsAgent,
    ModelFailed,
    ScriptedAgent,
)
from bridgehead.bus.assistant.host import assistant_prompt
from bridgehead.bus.interfaces import Agent, AgentAnswer, AgentQuestion
from bridgehead.contract.fencing import Fence
from bridgehead.errors import ConfigError, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import SystemClock
from bridgehead.host.command import (
    Cancel,
    Command,
    CommandResult,
    our_command_by_stdin,
    our_environment,
)
from bridgehead.host.directories import make_private_dir
from bridgehead.host.process import run

if TYPE_CHECKING:
    from bridgehead.council.runtimes.exchange import ToolServer
    from bridgehead.flows.handlers import Handler

TAKES_TOOLS: Final = ("claude", "codex", "gemini", "opencode")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_log: Final = logging.getLogger("bridgehead.bus")
QUESTION: Final = "a question asked on the bus"
"""The scope of a council: words, so that nobody on the bus chooses files of the project
by naming them.
"""
COUNCIL_TASK: Final = (
    "Answer what a person said last on a message bus, shortly and in plain words."
)
MOST_SPOKEN: Final = 3
_STDERR_SHOWN: Final = 500


def agent_for(
    assembly: Assembly,
    name: str | None,
    timeout_s: float = 30,
    tools: Sequence[str] = (),
) -> Agent | None:
    """Return the agent that `bus.assistant` names.

    What cannot answer is refused before anything is served.
    """
    if name is None:
        return None
    servers = tool_servers(tools)
    if servers and name not in TAKES_TOOLS and not name.startswith("acp:"):
        problem = f"{name!r} cannot use tools, but bus.assistant_tools is set"
        raise ConfigError(
            problem,
            hint=(
                "remove bus.assistant_tools, or set bus.assistant to "
                f"{', '.join(TAKES_TOOLS)} or acp:NAME"
            ),
        )
    if name == "scripted":
        return ScriptedAgent()
    if name == "openai":
        return _chat_completions(assembly, timeout_s)
    if name == "council":
        return CouncilAgent(assembly, timeout_s)
    if name.startswith("flow:"):
        return FlowAgent(assembly, name.removeprefix("flow:"), timeout_s)
    return HandlerAgent(assembly, name, timeout_s, servers)


def tool_servers(entries: Sequence[str]) -> dict[str, ToolServer]:
    """Return the MCP servers in `bus.assistant_tools`, by name: `NAME=URL`, or
    `NAME=COMMAND WORDS`.
    """
    from bridgehead.council.runtimes.exchange import ToolServer

    found = {}
    for entry in entries:
        name, _, rest = (part.strip() for part in entry.partition("="))
        is_url = rest.startswith(("http://", "https://"))
        try:
            words = () if is_url else tuple(shlex.split(rest))
        except ValueError:
            words = ()
        if _TOOL_NAME.fullmatch(name) is None or not (words or is_url):
            raise ConfigError(
                f"assistant_tools: {entry!r} is not a tool",
                hint="write NAME=URL or NAME=COMMAND",
            )
        found[name] = ToolServer(name, words, rest if is_url else "")
    return found


def _chat_completions(assembly: Assembly, timeout_s: float) -> Agent:
    from bridgehead.assembly.council.files import SEATS_FILE, read_seats_file

    seats = read_seats_file(assembly).settings(SystemClock().now())
    entry = seats.runtimes.get("openai")
    base_url = entry.options.get("base_url") if entry is not None else None
    if entry is None or not isinstance(base_url, str):
        raise ConfigError(
            f"{assembly.places.project / SEATS_FILE} has no usable base_url for openai",
            hint=f"set one, then run: bridgehead config trust {SEATS_FILE}",
        )
    variable = entry.options.get("api_key_env")
    key = assembly.environ.get(variable) if isinstance(variable, str) else None
    return ChatCompletionsAgent(
        base_url, model=entry.models[0], key=key, timeout_s=timeout_s
    )


@contextmanager
def _cancelling(cancel: Cancel) -> Iterator[None]:
    """What runs in a thread is told when nobody waits for it any more."""
    try:
        yield
    except asyncio.CancelledError:
        cancel.cancel()
        raise


class HandlerAgent:
    """Somebody who also answers flows: a runtime of this machine, a command, a rig
    elsewhere.
    """

    def __init__(
        self,
        assembly: Assembly,
        name: str,
        timeout_s: float,
        tools: Mapping[str, ToolServer] = MappingProxyType({}),
    ) -> None:
        from bridgehead.flows.files.checkpoint_files import CheckpointFiles
        from bridgehead.flows.files.root import FlowRoot

        self._handler = (
            name if ":" in name and not name.startswith("acp:") else f"runtime:{name}"
        )
        self._name = name
        self._assembly = assembly
        self._tools = tools
        self._files = CheckpointFiles(FlowRoot(assembly.places.project))
        self._timeout_s = max(1, int(timeout_s))
        try:
            self._make(())
        except UserError as error:
            raise UnknownAssistant(name, error.message) from error

    def _make(self, tools: Sequence[str]) -> Handler:
        from bridgehead.assembly.flows.handlers import handler_makers
        from bridgehead.flows.handlers import make_handler

        granted = tuple(self._tools[name] for name in tools if name in self._tools)
        return make_handler(
            self._handler, handler_makers(self._assembly, _log.info, granted)
        )

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        from bridgehead.flows.files.agent_files import AgentRequest

        handler = self._make(question.tools)
        request = AgentRequest(
            1,
            "assistant",
            "assistant",
            question.prompt,
            question.id,
            timeout_seconds=self._timeout_s,
        )
        with _cancelling(handler.cancel):
            reply = await asyncio.to_thread(handler.answer, request, self._files)
        if reply is None or reply.text is None:
            raise ModelFailed(
                self._name, (reply and reply.message) or "its answer was empty"
            )
        return AgentAnswer(reply.text.strip())


class OwnCommand:
    """A command of ours in a process of its own, whose work is none of the loop that
    everybody on the bus shares.
    """

    def __init__(self, assembly: Assembly, timeout_s: float) -> None:
        self._cwd = assembly.cwd
        self._environ = our_environment({**os.environ, **assembly.environ})
        self._timeout_s = timeout_s

    async def document(self, *words: str) -> dict[str, Any]:
        """Return the JSON object it prints.

        ModelFailed with its last words where there is none.
        """
        told = json.dumps([*words])
        cancel = Cancel()
        command = Command(
            our_command_by_stdin(),
            stdin=told,
            env=self._environ,
            cwd=self._cwd,
        )
        with _cancelling(cancel):
            result = await asyncio.to_thread(
                run,
                command,
                timeout_seconds=self._timeout_s,
                idle_seconds=None,
                cancel=cancel,
            )
        name = " ".join(words[:2])
        if result.exit_code != ExitCode.DONE:
            raise ModelFailed(name, _last_words(result))
        document = json.loads(result.stdout)
        if not isinstance(document, dict):
            raise ModelFailed(name, "its output is not a JSON object")
        return document


def _last_words(result: CommandResult) -> str:
    if result.exit_code == ExitCode.WAITING:
        return "it is waiting for another answer; see `bridgehead pending`"
    error = result.error_text().strip()[-_STDERR_SHOWN:]
    if error:
        return error
    # A council that was aborted says why in its report.
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        report = json.loads(result.stdout)
        skipped = [f"{name}: {why}" for name, why in report["skip_reasons"].items()]
        reasons = "; ".join([report["abort_reason"], *skipped])
        if reasons:
            return reasons
    return f"exit {result.exit_code}"


class CouncilAgent:
    """Puts each question to a council of the project's runtimes.

    What stands at its end is said.
    """

    def __init__(self, assembly: Assembly, timeout_s: float) -> None:
        self._command = OwnCommand(assembly, timeout_s)

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        fence = Fence(secrets.choice)
        task = assistant_prompt(
            question.text,
            COUNCIL_TASK,
            question.earlier,
            session_id=question.session_id,
            fence=fence,
        )
        options = (
            "--json",
            "--non-interactive",
            "--intensity",
            "quick",
            f"--task={task}",
        )
        report = await self._command.document(
            "council", "research", *options, "--", QUESTION
        )
        return AgentAnswer(spoken_report(report))


def spoken_report(report: dict[str, Any]) -> str:
    """Return the first findings of a council in sentences.

    A sentence says so if only one seat found it, or if others dispute it.
    """
    from bridgehead.council.reporting.report import (
        AbortedReport,
        FindingClass,
        council_report_from_json,
    )

    read = council_report_from_json(json.dumps(report))
    if isinstance(read, AbortedReport):
        raise ModelFailed("council research", read.abort_reason)
    openings = {FindingClass.DISPUTED: "Disputed: "}
    if len(read.participants) > 1:
        openings[FindingClass.SINGLE] = "One says: "
    sentences = []
    for finding in list(read.findings())[:MOST_SPOKEN]:
        opening = openings.get(finding.cls, "")
        text = finding.description.strip() or finding.title
        sentences.append(f"{opening}{text}")
    return " ".join(sentences) or "The council has no answer to that."


class FlowAgent:
    """Starts a flow for each question, in a directory of its own.

    What it returns is said.

    The flow gets those of `text`, `prompt`, `session`, `participant` and `lang` that
    its function declares. What it asks meanwhile is a pending item like that of any
    flow, and it waits for the answer.
    """

    def __init__(self, assembly: Assembly, source: str, timeout_s: float) -> None:
        from bridgehead.flows.definition import options_of
        from bridgehead.flows.discovery import find_flow

        try:
            flow, self._source = find_flow(source, assembly.cwd)
        except UserError as error:
            raise UnknownAssistant(f"flow:{source}", error.message) from error
        self._takes = frozenset(option.name for option in options_of(flow).values())
        if "text" not in self._takes:
            raise UnknownAssistant(
                f"flow:{source}", "its function has no parameter `text`"
            )
        self._command = OwnCommand(assembly, timeout_s)
        self._wait_s = timeout_s
        self._folder = assembly.places.data / "bus-flows"

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        root = self._folder / question.id
        make_private_dir(root)
        words = (
            "--dir",
            str(root),
            "--id",
            question.id,
            "--wait",
            str(self._wait_s),
            "--json",
            "--",
        )
        document = await self._command.document(
            "flow", "run", self._source, *words, *self._settings(question)
        )
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)
        said = document.get("result")
        return AgentAnswer(
            said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        )

    def _settings(self, question: AgentQuestion) -> Sequence[str]:
        known = {
            "text": question.text,
            "prompt": question.prompt,
            "session": question.session_id,
            "participant": question.participant,
            "lang": question.lang,
        }
        return [
            f"--{name}={value}"
            for name, value in known.items()
            if name in self._takes and value
        ]


class UnknownAssistant(ConfigError):
    """The assistant names something that cannot answer."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"the assistant cannot be {name!r}: {problem}",
            hint="use openai (a chat endpoint), a runtime such as claude, council, "
            "flow:FILE, cmd:COMMAND, rig:ID, "
            "or scripted (an echo); an OVOS core needs none of them: it connects to "
            "the hub",
        )
