"""Codex: OpenAI's Codex CLI, one `codex exec` per prompt in its kernel sandbox. Runtimes §4."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.reasoning import choose_reasoning_level
from bridgehead.council.runtimes.base import (
    NO_CONNECTION,
    NOT_AUTHENTICATED,
    Barred,
    Missing,
    Runtime,
    SeatSetup,
    Taken,
    runtime,
)
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.codex_events import catalogue, has_stored_login, read_codex, thread_usage
from bridgehead.council.runtimes.exchange import (
    NOTHING_REPORTED,
    Answered,
    Ask,
    Outcome,
    Received,
    Refused,
    Request,
)
from bridgehead.council.runtimes.host import HostSeat, NativeDispatch
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.host.command import CommandResult

LOGIN_HINT: Final = "run `codex login`, or set the variable that holds your provider's key"
# Without these an unreachable server is waited for without end, and memory files of the tree enter the prompt.
FIXED_CONFIG: Final = (
    "features.unbounded_connection_retries=false",
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "project_doc_max_bytes=0",
)
_MULTI_AGENT: Final = re.compile(r"^multi_agent\s+.*\btrue\s*$", re.MULTILINE)


class CodexCli(CliConnection):
    program = "codex"
    runtime_name = "codex"
    help_arguments: ClassVar = ("exec", "--help")
    required_flags: ClassVar = frozenset({"--json", "--sandbox", "--skip-git-repo-check", "--config"})
    own_variables: ClassVar = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN")

    def __init__(self, setup: SeatSetup, path: str, probe: Probe, key_variable: str | None = None) -> None:
        super().__init__(setup, path, probe)
        self._key_variable = key_variable
        self._thread_usage: dict[str, CallUsage] = {}
        self._takes_schemas = True

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        located = super().locate(setup, machine)
        if isinstance(located, CodexCli):
            located._key_variable = provider_key_variable(machine)
        return located

    def barrier(self, machine: Machine) -> Barred | None:
        if self._key_variable is not None and machine.environment.get(self._key_variable):
            return None
        # It looks at the stored login only, so the variables come first (runtimes §4).
        if has_stored_login(machine.run(self.probing("login", "status"))):
            return None
        return Barred(Status.HALTED, NOT_AUTHENTICATED, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        return catalogue(machine.run(self.probing("debug", "models")).text())

    def has_agents(self, machine: Machine) -> bool:
        return multi_agent_enabled(machine, self)

    def environment(self, ask: Ask | None) -> dict[str, str]:
        environment = super().environment(ask)
        name = self._key_variable
        if name and (value := self.setup.environment.get(name)):
            environment[name] = value
        return environment

    def arguments(self, ask: Ask) -> Sequence[str]:
        sandbox = "workspace-write" if ask.may_write else "read-only"
        if ask.session:
            # `resume` has no -s and no -C (runtimes §4).
            where = ["-c", f'sandbox_mode="{sandbox}"']
            return ["exec", "resume", *self._common(ask), *where, ask.session, "-"]
        where = ["-s", sandbox, "-C", str(ask.workspace)]
        forgets = not self.keeps_history and "--ephemeral" in self.flags
        return [
            "exec",
            *self._common(ask),
            *where,
            *(["--ephemeral"] if forgets else []),
            *self._shape(ask),
            "-",
        ]

    def read(self, ask: Ask, received: Received) -> Outcome | Request:
        """A provider that does not take the schema is asked again without it, and never with it after that."""
        outcome = super().read(ask, received)
        if isinstance(outcome, Refused) and self._shape(ask) and "schema" in outcome.message.casefold():
            self._takes_schemas = False
            return self.ask(ask)
        return outcome

    def read_result(self, ask: Ask, result: CommandResult) -> Outcome:
        earlier = self._thread_usage.get(ask.session or "", NOTHING_REPORTED)
        outcome = read_codex(result, earlier=earlier)
        if isinstance(outcome, Answered) and outcome.session:
            self._thread_usage[outcome.session] = thread_usage(result)
        return outcome

    def _shape(self, ask: Ask) -> list[str]:
        usable = self._takes_schemas and ask.schema_file is not None and "--output-schema" in self.flags
        return ["--output-schema", str(ask.schema_file)] if usable else []

    def _common(self, ask: Ask) -> list[str]:
        config = [word for entry in FIXED_CONFIG for word in ("-c", entry)]
        # The documents' key `reasoning-effort` is ignored without a word (runtimes §4).
        effort = ["-c", f'model_reasoning_effort="{ask.reasoning}"'] if ask.reasoning else []
        model = ["-m", ask.model] if ask.model else []
        return ["--json", "--skip-git-repo-check", *config, *effort, *model, *self.extra_arguments]


class CodexNative(NativeDispatch):
    """An injected dispatcher counts only where codex has its agents switched on (council §4.1)."""

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        located = super().locate(setup, machine)
        if isinstance(located, Missing):
            return located
        program = CodexCli.locate(setup, machine)
        if isinstance(program, CodexCli) and multi_agent_enabled(machine, program):
            return located
        return Missing(NO_CONNECTION, "codex does not have multi_agent enabled")


def multi_agent_enabled(machine: Machine, program: CodexCli) -> bool:
    """What `codex features list` says in its third column."""
    return _MULTI_AGENT.search(machine.run(program.probing("features", "list")).text()) is not None


def provider_key_variable(machine: Machine) -> str | None:
    """The variable the user's provider reads its key from: `env_key` in config.toml."""
    home = machine.environment.get("CODEX_HOME")
    folder = Path(home) if home else machine.home / ".codex"
    try:
        config = tomllib.loads(machine.read_user_file(folder / "config.toml") or "")
    except (ValueError, RecursionError):
        return None
    provider = _table(_table(config, "model_providers"), str(config.get("model_provider", "")))
    variable = provider.get("env_key")
    return variable if isinstance(variable, str) else None


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


@runtime("codex")
class CodexRuntime(Runtime):
    model_family = "openai/codex"
    id_prefix = "X"
    connections = (HostSeat, CodexNative, CodexCli)
    missing_halt = "cli_not_installed"
    install_hint = "npm install -g @openai/codex"
    login_hint = LOGIN_HINT

    @classmethod
    def reasoning(cls, task: BridgeInput, cap: str, *, may_use_most: bool) -> str | None:
        return choose_reasoning_level(task, cap=cap, may_use_most=may_use_most)

    @classmethod
    def report_fields(cls, taken: Taken) -> dict[str, Any]:
        return {"multi_agent_enabled": taken.has_agents, "reasoning_level": taken.reasoning}
