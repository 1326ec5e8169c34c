"""Codex: OpenAI's Codex CLI, one `codex exec` per prompt in its kernel sandbox. Runtimes §4."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.refusals import classify
from bridgehead.council.replies.reply import object_from
from bridgehead.council.request.settings import choose_reasoning_level
from bridgehead.council.runtimes import base, cli, exchange
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.host.command import CommandResult
from bridgehead.host.confinement import installation

EXIT_USAGE: Final = 2

STARTUP_ERRORS: Final[cli.StartupErrors] = (
    (re.compile(r"No prompt provided via stdin"), ErrorClass.NO_PROMPT),
    (
        re.compile(r"no rollout found for thread id", re.IGNORECASE),
        ErrorClass.UNKNOWN_SESSION,
    ),
    (re.compile(r"Not inside a trusted directory"), ErrorClass.UNTRUSTED_FOLDER),
)
LOGIN_HINT: Final = (
    "run `codex login`, or set the variable that holds your provider's key"
)
# Without these an unreachable server is waited for without end, and memory files of the tree enter the prompt.
FIXED_CONFIG: Final = (
    "features.unbounded_connection_retries=false",
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "project_doc_max_bytes=0",
)
# Not with -s: the older sandbox settings would win over a profile.
PROFILE: Final = "bridgehead"
PROFILES_SINCE: Final = (0, 138)
BROUGHT: Final = "codex-resources/bwrap"
TOOLS_OFF: Final = (
    "features.shell_tool=false",
    "features.unified_exec=false",
    "features.view_image=false",
)
APPROVED: Final = 'default_tools_approval_mode="approve"'
_MULTI_AGENT: Final = re.compile(r"^multi_agent\s+.*\btrue\s*$", re.MULTILINE)


def read_codex(
    result: CommandResult, *, earlier: CallUsage = exchange.NOTHING_REPORTED
) -> exchange.CallOutcome:
    """The outcome of one turn; `earlier` is what the thread had used before, because codex counts per thread."""
    events = list(exchange.objects_in(result.text()))
    failed = exchange.last_of(events, "turn.failed")
    if failed is not None:
        message = (
            exchange.text_at(exchange.mapping_at(failed, "error"), "message")
            or "codex reported a failed turn"
        )
        return exchange.RuntimeRefusal(
            classify(message), message, cli.stderr_of(result)
        )
    completed = exchange.last_of(events, "turn.completed")
    if completed is None:
        return _unfinished(events, result)
    started = exchange.last_of(events, "thread.started") or {}
    usage = _usage(exchange.mapping_at(completed, "usage"), earlier)
    answered = exchange.RuntimeAnswer(
        _last_message(events),
        exchange.text_at(started, "thread_id") or None,
        None,
        usage,
    )
    return cli.succeeded("codex", result, answered)


def catalogue(printed: str) -> list[str] | None:
    """The model names of `codex debug models`, or None when it printed something else."""
    models = (object_from(printed) or {}).get("models")
    if not isinstance(models, list):
        return None
    return [
        str(model["slug"])
        for model in models
        if isinstance(model, dict) and "slug" in model
    ]


def _unfinished(
    events: list[dict[str, Any]], result: CommandResult
) -> exchange.RuntimeRefusal:
    """A run without the last word of a turn; a top-level `error` before it is only a retry notice."""
    if events and result.exit_code != 0:
        return exchange.RuntimeRefusal(
            ErrorClass.OTHER,
            "codex exited before its turn ended",
            cli.stderr_of(result),
        )
    refused = cli.refused_without_record("codex", result, STARTUP_ERRORS)
    if result.exit_code == EXIT_USAGE:
        return exchange.RuntimeRefusal(
            ErrorClass.BAD_USAGE, refused.message, refused.detail
        )
    return refused


def _last_message(events: list[dict[str, Any]]) -> str:
    items = [
        exchange.mapping_at(event, "item")
        for event in events
        if event.get("type") == "item.completed"
    ]
    messages = [
        exchange.text_at(item, "text")
        for item in items
        if item.get("type") == "agent_message"
    ]
    return messages[-1] if messages else ""


def _usage(counts: Mapping[str, Any], earlier: CallUsage) -> CallUsage:
    if not counts:
        return exchange.NOTHING_REPORTED
    # cached_input_tokens is part of input_tokens, reasoning tokens are part of output_tokens.
    return CallUsage(
        tokens_in=max(
            exchange.count_at(counts, "input_tokens") - (earlier.tokens_in or 0), 0
        ),
        tokens_out=max(
            exchange.count_at(counts, "output_tokens") - (earlier.tokens_out or 0), 0
        ),
    )


class CodexCli(cli.CliConnection):
    program = "codex"
    runtime_name = "codex"
    help_arguments: ClassVar = ("exec", "--help")
    required_flags: ClassVar = frozenset(
        {"--json", "--sandbox", "--skip-git-repo-check", "--config"}
    )
    own_variables: ClassVar = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "CODEX_API_KEY",
        "CODEX_ACCESS_TOKEN",
    )

    own_folders: ClassVar = (".codex",)
    folder_variables: ClassVar = ("CODEX_HOME",)
    nests_sandbox: ClassVar = True
    takes_tools = True

    def __init__(
        self,
        setup: base.SeatSetup,
        path: str,
        probe: Probe,
        key_variable: str | None = None,
    ) -> None:
        super().__init__(setup, path, probe)
        self._key_variable = key_variable
        self._thread_usage: dict[str, CallUsage] = {}
        self._takes_schemas = True

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        located = super().locate(setup, machine)
        if isinstance(located, CodexCli):
            located._key_variable = provider_key_variable(machine)
        return located

    def barrier(self, machine: Machine) -> base.Barred | None:
        if self._key_variable is not None and machine.environment.get(
            self._key_variable
        ):
            return None
        # It looks at the stored login only, so the variables come first (runtimes §4).
        if machine.run(self.probing("login", "status")).exit_code == 0:
            return None
        return base.Barred(Status.HALTED, base.NOT_AUTHENTICATED, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        return catalogue(machine.run(self.probing("debug", "models")).text())

    def has_agents(self, machine: Machine) -> bool:
        return multi_agent_enabled(machine, self)

    def environment(self, ask: exchange.RuntimeRequest | None) -> dict[str, str]:
        environment = super().environment(ask)
        name = self._key_variable
        if name and (value := self.setup.environment.get(name)):
            environment[name] = value
        return environment

    def brought_helpers(self) -> Sequence[str]:
        """The bubblewrap that codex brings for its own sandbox; its place depends on how codex was installed."""
        real = Path(self.path).resolve()
        packages = next(
            (folder for folder in real.parents if folder.name == "node_modules"), None
        )
        if packages is None:
            return [str(real.parent.parent / BROUGHT)]
        return [
            str(path)
            for path in (packages / "@openai").glob(f"codex-linux-*/vendor/*/{BROUGHT}")
        ]

    def own_sandbox(self) -> str:
        return (
            "codex's own sandbox"
            if sys.platform == "darwin" and self._has_profiles()
            else ""
        )

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        if ask.session:
            # `resume` has no -s and no -C (runtimes §4).
            where = self._sandbox(ask, "-c", 'sandbox_mode="{}"')
            return [
                "exec",
                "resume",
                *self._common(ask),
                *where,
                "--",
                ask.session,
                "-",
            ]
        where = [*self._sandbox(ask, "-s", "{}"), "-C", str(ask.workspace)]
        forgets = not self.keeps_history and "--ephemeral" in self.flags
        return [
            "exec",
            *self._common(ask),
            *where,
            *(["--ephemeral"] if forgets else []),
            *self._shape(ask),
            "-",
        ]

    def read(
        self, ask: exchange.RuntimeRequest, received: exchange.Received
    ) -> exchange.NextStep:
        """A provider that does not take the schema is asked again without it, and never with it after that."""
        outcome = super().read(ask, received)
        if (
            isinstance(outcome, exchange.RuntimeRefusal)
            and self._shape(ask)
            and "schema" in outcome.message.casefold()
        ):
            self._takes_schemas = False
            return self.ask(ask)
        return outcome

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        earlier = self._thread_usage.get(ask.session or "", exchange.NOTHING_REPORTED)
        outcome = read_codex(result, earlier=earlier)
        if isinstance(outcome, exchange.RuntimeAnswer) and outcome.session:
            # What the whole thread has used so far; to be subtracted from the next turn's numbers.
            completed = (
                exchange.last_of(
                    list(exchange.objects_in(result.text())), "turn.completed"
                )
                or {}
            )
            used = exchange.mapping_at(completed, "usage")
            self._thread_usage[outcome.session] = _usage(
                used, exchange.NOTHING_REPORTED
            )
        return outcome

    def _sandbox(self, ask: exchange.RuntimeRequest, flag: str, form: str) -> list[str]:
        """A profile under which commands see the workspace and no home; before there were profiles, the old modes."""
        if not self._has_profiles():
            return [
                flag,
                form.format("workspace-write" if ask.may_write else "read-only"),
            ]
        access = "write" if ask.may_write else "read"
        # codex starts itself once more inside its sandbox.
        installed = installation(self.path, self.setup.environment.get("PATH", ""))
        paths = {":minimal": "read", **dict.fromkeys(installed, "read")}
        rules = ",".join(
            f"{json.dumps(path)}={json.dumps(right)}" for path, right in paths.items()
        )
        rules += f',":workspace_roots"={{"."="{access}"}}' + (
            ',":tmpdir"="write"' if ask.may_write else ""
        )
        words = [
            f'default_permissions="{PROFILE}"',
            f"permissions.{PROFILE}.filesystem={{{rules}}}",
        ]
        words += [] if self.has_tools else TOOLS_OFF
        return [word for each in words for word in ("-c", each)]

    def _has_profiles(self) -> bool:
        numbers = tuple(
            int(part) for part in (self.version or "0").split(".") if part.isdecimal()
        )
        return numbers >= PROFILES_SINCE

    def _shape(self, ask: exchange.RuntimeRequest) -> list[str]:
        usable = (
            self._takes_schemas
            and ask.schema_file is not None
            and "--output-schema" in self.flags
        )
        return ["--output-schema", str(ask.schema_file)] if usable else []

    def _common(self, ask: exchange.RuntimeRequest) -> list[str]:
        # Nobody is there to be asked whether a tool may be used.
        servers = [
            f"mcp_servers.{one.name}={{{_started(one)},{APPROVED}}}"
            for one in ask.tools
        ]
        config = [word for entry in (*FIXED_CONFIG, *servers) for word in ("-c", entry)]
        # The documents' key `reasoning-effort` is ignored without a word (runtimes §4).
        effort = (
            ["-c", f"model_reasoning_effort={json.dumps(ask.reasoning)}"]
            if ask.reasoning
            else []
        )
        model = cli.option("--model", ask.model)
        return [
            "--json",
            "--skip-git-repo-check",
            *config,
            *effort,
            *model,
            *self.extra_arguments,
        ]


def _started(server: exchange.ToolServer) -> str:
    command = f"command={json.dumps(server.words[:1])[1:-1]},args={json.dumps(server.words[1:])}"
    return f"url={json.dumps(server.url)}" if server.url else command


def multi_agent_enabled(machine: Machine, program: CodexCli) -> bool:
    """What `codex features list` says in its third column."""
    return (
        _MULTI_AGENT.search(machine.run(program.probing("features", "list")).text())
        is not None
    )


def provider_key_variable(machine: Machine) -> str | None:
    """The variable the user's provider reads its key from: `env_key` in config.toml."""
    home = machine.environment.get("CODEX_HOME")
    folder = Path(home) if home else machine.home / ".codex"
    try:
        config = tomllib.loads(machine.read_user_file(folder / "config.toml") or "")
    except (ValueError, RecursionError):
        return None
    return (
        exchange.text_at(
            exchange.mapping_at(
                config, "model_providers", str(config.get("model_provider", ""))
            ),
            "env_key",
        )
        or None
    )


@base.runtime("codex")
class CodexRuntime(base.Runtime):
    model_family = "openai/codex"
    id_prefix = "X"
    connections = (base.HostSeat, CodexCli)
    missing_halt = "cli_not_installed"
    install_hint = "npm install -g @openai/codex"
    login_hint = LOGIN_HINT

    @classmethod
    def reasoning(
        cls, task: BridgeInput, cap: str, *, may_use_most: bool
    ) -> str | None:
        return choose_reasoning_level(task, cap=cap, may_use_most=may_use_most)

    @classmethod
    def report_fields(cls, taken: base.Taken) -> dict[str, Any]:
        return {
            "multi_agent_enabled": taken.has_agents,
            "reasoning_level": taken.reasoning,
        }
