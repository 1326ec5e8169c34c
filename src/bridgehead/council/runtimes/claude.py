"""Claude: Claude Code as a program, or Anthropic's Messages API when only a key is there. Runtimes §3."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import STANDING_AGENTS
from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.request.settings import MEDIUM
from bridgehead.council.runtimes import base, exchange
from bridgehead.council.runtimes.call_errors import classify
from bridgehead.council.runtimes.cli import (
    CliConnection,
    StartupErrors,
    option,
    refused_without_record,
    succeeded,
)
from bridgehead.council.runtimes.endings import shortfall_of
from bridgehead.council.runtimes.exchange import text_at
from bridgehead.council.runtimes.machine import Machine
from bridgehead.host.command import CommandResult

STARTUP_ERRORS: Final[StartupErrors] = (
    (re.compile(r"error: unknown option"), ErrorClass.BAD_USAGE),
    (re.compile(r"No conversation found with session ID"), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"Input must be provided"), ErrorClass.NO_PROMPT),
)
READING_TOOLS: Final = "Read,Grep,Glob"
# No shell: a command could reach beyond the worktree (design §5 item 5).
WRITING_TOOLS: Final = "Read,Grep,Glob,Edit,Write,NotebookEdit"
API_URL: Final = "https://api.anthropic.com"
API_VERSION: Final = "2023-06-01"
API_MAX_TOKENS: Final = 8192
_READ: Final = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
LOGIN_HINT: Final = "run `claude` once and log in with /login, or set ANTHROPIC_API_KEY"


def read_claude(result: CommandResult) -> exchange.CallOutcome:
    """The outcome of `claude -p --output-format json|stream-json`."""
    record = exchange.last_of(list(exchange.objects_in(result.text())), "result")
    if record is None:
        return refused_without_record("claude", result, STARTUP_ERRORS)
    text = text_at(record, "result")
    usage = _usage(record)
    # `subtype` is "success" on API failures too; only `is_error` tells (runtimes §2.2).
    if record.get("is_error") is not False:
        status = record.get("api_error_status")
        error_class = classify(text, status if isinstance(status, int) else None)
        return exchange.RuntimeRefusal(
            error_class,
            text or "claude reported an error",
            result.error_text(),
            usage=usage,
        )
    # The model that wrote most of the answer; small ones may have helped.
    used = _model_usage(record)
    model = max(
        used,
        key=lambda model: exchange.count_at(used[model], "outputTokens"),
        default=None,
    )
    answered = exchange.RuntimeAnswer(
        text,
        text_at(record, "session_id") or None,
        model,
        usage,
        shortfall=shortfall_of(record.get("stop_reason")),
    )
    return succeeded("claude", result, answered)


def _model_usage(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    used = exchange.mapping_at(record, "modelUsage")
    return {model: counts for model, counts in used.items() if isinstance(counts, dict)}


def _usage(record: Mapping[str, Any]) -> CallUsage:
    # `usage` is all zero after a cut stream, `modelUsage` is right (runtimes §3).
    counts = list(_model_usage(record).values())
    return CallUsage(
        tokens_in=sum(
            exchange.count_at(each, name) for each in counts for name in _READ
        )
        if counts
        else None,
        tokens_out=sum(exchange.count_at(each, "outputTokens") for each in counts)
        if counts
        else None,
        cost_usd=exchange.cost_at(record, "total_cost_usd"),
    )


class ClaudeCli(CliConnection):
    program = "claude"
    runtime_name = "claude"
    required_flags: ClassVar = frozenset(
        {"--setting-sources", "--strict-mcp-config", "--tools"}
    )
    own_variables: ClassVar = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    )
    fixed_environment: ClassVar = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }
    # SIGTERM would leave the commands of its tools running (runtimes §2.4).
    first_signal = signal.SIGINT
    takes_tools = True
    own_folders: ClassVar = (".claude",)
    own_files: ClassVar = (".claude.json",)
    folder_variables: ClassVar = ("CLAUDE_CONFIG_DIR",)

    def barrier(self, machine: Machine) -> base.Barred | None:
        # It looks at what is stored and asks no model.
        if machine.run(self.probing("auth", "status")).exit_code == 0:
            return None
        return base.Barred(Status.HALTED, base.NOT_AUTHENTICATED, LOGIN_HINT)

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        # `user` alone: a tree's own settings could send key and traffic elsewhere and run commands (runtimes §2.6).
        fixed = [
            "-p",
            "--output-format",
            "json",
            "--setting-sources",
            "user",
            "--strict-mcp-config",
        ]
        # `--tools` restricts; `--allowedTools` only pre-approves (runtimes §3).
        allowed = WRITING_TOOLS if ask.may_write else READING_TOOLS
        tools = ["--tools", allowed if self.has_tools else ""]
        mode = ["--permission-mode", "acceptEdits"] if ask.may_write else []
        model = option("--model", ask.model)
        effort = option("--effort", ask.reasoning) if "--effort" in self.flags else []
        return [
            *fixed,
            *tools,
            *_servers(ask),
            *mode,
            *model,
            *effort,
            *self._continuity(ask),
            *self.extra_arguments,
        ]

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        return read_claude(result)

    def _continuity(self, ask: exchange.RuntimeRequest) -> list[str]:
        if ask.session:
            return option("--resume", ask.session)
        forgets = not self.keeps_history and "--no-session-persistence" in self.flags
        return ["--no-session-persistence"] if forgets else []


def _servers(ask: exchange.RuntimeRequest) -> list[str]:
    """The MCP servers of this call and no others; what they offer needs nobody's permission."""
    if not ask.tools:
        return []
    servers = {
        one.name: one.started() | ({"type": "http"} if one.url else {})
        for one in ask.tools
    }
    allowed = ",".join(f"mcp__{name}" for name in servers)
    return [
        f"--mcp-config={json.dumps({'mcpServers': servers})}",
        f"--allowedTools={allowed}",
    ]


class ClaudeApi(base.Connection):
    """One stateless call of the Messages API per prompt; it cannot open files."""

    kind = "api"
    runtime_name = "messages api"
    reads_files = False

    def __init__(self, base_url: str, key: str) -> None:
        self._url = base_url
        self._headers = {"x-api-key": key, "anthropic-version": API_VERSION}

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        key = setup.environment.get("ANTHROPIC_API_KEY")
        if not key:
            return base.Missing(base.NO_CONNECTION, "ANTHROPIC_API_KEY is not set")
        base_url = setup.environment.get("ANTHROPIC_BASE_URL", API_URL).rstrip("/")
        return cls(base_url, key)

    def barrier(self, machine: Machine) -> base.Barred | None:
        listed = machine.get(f"{self._url}/v1/models", self._headers)
        if listed.status in (401, 403):
            return base.Barred(
                Status.HALTED,
                base.NOT_AUTHENTICATED,
                "the key in ANTHROPIC_API_KEY was refused",
            )
        if listed.status != 200:
            problem = listed.failure or f"HTTP {listed.status}"
            return base.Barred(
                Status.SKIPPED, f"cli_error: {self._url}/v1/models: {problem}"
            )
        return None

    def default_model(self, machine: Machine) -> str | None:
        """The newest model of the middle tier, else the newest of all; the listing begins with the newest."""
        models = self.models(machine) or []
        return next(
            (model for model in models if "sonnet" in model),
            models[0] if models else None,
        )

    def models(self, machine: Machine) -> list[str] | None:
        listed = machine.get(f"{self._url}/v1/models", self._headers)
        return (
            exchange.listed_ids(listed.text) or None if listed.status == 200 else None
        )

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        body = {
            "model": ask.model or "",
            "max_tokens": API_MAX_TOKENS,
            "messages": [{"role": "user", "content": ask.prompt}],
        }
        return exchange.HttpRequest(
            "POST", f"{self._url}/v1/messages", self._headers, body
        )

    def read(
        self, ask: exchange.RuntimeRequest, received: exchange.Received
    ) -> exchange.NextStep:
        return exchange.read_http("the Messages API", received, _read_message)


def _read_message(
    document: Mapping[str, Any], reply: exchange.HttpReply
) -> exchange.CallOutcome:
    if reply.status != 200:
        error = exchange.mapping_at(document, "error")
        message = text_at(error, "message") or f"HTTP {reply.status}"
        return exchange.RuntimeRefusal(
            classify(f"{text_at(error, 'type')} {message}", reply.status), message
        )
    blocks = document.get("content")
    if not isinstance(blocks, list):
        return exchange.RuntimeRefusal(
            ErrorClass.MALFORMED, "the Messages API gave an answer without content"
        )
    text = "".join(
        text_at(block, "text") for block in blocks if isinstance(block, dict)
    )
    usage = exchange.mapping_at(document, "usage")
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    used = CallUsage(
        tokens_in=sum(exchange.count_at(usage, name) for name in names),
        tokens_out=exchange.count_at(usage, "output_tokens"),
    )
    shortfall = shortfall_of(document.get("stop_reason"))
    if not text.strip():
        return exchange.empty_answer("the Messages API", shortfall, used)
    return exchange.RuntimeAnswer(
        text,
        model=text_at(document, "model") or None,
        usage=used,
        shortfall=shortfall,
    )


@base.runtime("claude")
class ClaudeRuntime(base.Runtime):
    model_family = "anthropic/claude"
    id_prefix = "C"
    connections = (base.HostSeat, ClaudeCli, ClaudeApi)
    install_hint = "npm install -g @anthropic-ai/claude-code"
    login_hint = LOGIN_HINT

    @classmethod
    def reasoning(
        cls, task: BridgeInput, cap: str, *, may_use_most: bool
    ) -> str | None:
        """Only a level the user has raised is passed on; otherwise claude decides for itself."""
        return cap if cap != MEDIUM else None

    @classmethod
    def report_fields(cls, taken: base.Taken) -> dict[str, Any]:
        return {
            "dispatch_mode": "plain",
            "agents_spawned": len(taken.task.domains) + STANDING_AGENTS,
        }
