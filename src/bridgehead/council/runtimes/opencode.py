"""OpenCode as a program, one `opencode run` per prompt, or the server the user named. Runtimes §6."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Status
from bridgehead.council.runtimes.base import Barred, Overseer, Runtime, Taken, runtime
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.exchange import Answered, Ask, Outcome
from bridgehead.council.runtimes.host import HostSeat, NativeDispatch
from bridgehead.council.runtimes.json_lines import object_from
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.opencode_events import LoopGuard, listed_models, read_opencode
from bridgehead.council.runtimes.opencode_permissions import (
    HOSTED_PROVIDER,
    LOGIN_HINT,
    MAY_EDIT,
    NO_PROVIDER,
    READ_ONLY,
)
from bridgehead.council.runtimes.opencode_server import OpencodeServer
from bridgehead.host.command import CommandResult

PROVIDER_KEYS: Final = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
    *("GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
    *("TOGETHER_API_KEY", "CEREBRAS_API_KEY", "FIREWORKS_API_KEY", "MOONSHOT_API_KEY", "ZHIPU_API_KEY"),
)


class OpencodeCli(CliConnection):
    program = "opencode"
    runtime_name = "opencode"
    help_arguments: ClassVar = ("run", "--help")
    required_flags: ClassVar = frozenset({"--format", "--agent", "--model"})
    own_variables: ClassVar = PROVIDER_KEYS
    fixed_environment: ClassVar = {
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }

    _listing: CommandResult | None = None

    def barrier(self, machine: Machine) -> Barred | None:
        if self.models(machine) or self._names_hosted_model():
            return None
        listing = self._list_models(machine)
        if listing.exit_code != 0:
            return Barred(Status.SKIPPED, f"cli_error: opencode models ended with code {listing.exit_code}")
        return Barred(Status.HALTED, NO_PROVIDER, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        """What can be asked for: the listing is of configured providers, minus the hosted one."""
        listed = listed_models(self._list_models(machine).text())
        return [model for model in listed if not model.startswith(f"{HOSTED_PROVIDER}/")] or None

    def default_model(self, machine: Machine) -> str | None:
        """The user's own default where it is configured, else the first of the listing; never left to opencode."""
        models = self.models(machine) or []
        chosen = user_default_model(machine)
        return chosen if chosen in models else next(iter(models), None)

    def environment(self, ask: Ask | None) -> dict[str, str]:
        may_write = ask is not None and ask.may_write
        config: dict[str, Any] = {
            "autoupdate": False,
            "share": "disabled",
            "permission": MAY_EDIT if may_write else READ_ONLY,
        }
        if not self._names_hosted_model():
            config["disabled_providers"] = [HOSTED_PROVIDER]
        return super().environment(ask) | {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}

    def arguments(self, ask: Ask) -> Sequence[str]:
        model = ["-m", ask.model] if ask.model else []
        agent = ["--agent", "build" if ask.may_write else "plan"]
        # A title spares the model call that would make one; a session has its title already.
        session = ["-s", ask.session] if ask.session else ["--title", ask.title]
        return ["run", "--format", "json", *model, *agent, *session, *self.extra_arguments]

    def read_result(self, ask: Ask, result: CommandResult) -> Outcome:
        outcome = read_opencode(result)
        if isinstance(outcome, Answered):
            return Answered(outcome.text, outcome.session, ask.model, outcome.usage)
        return outcome

    def overseer(self) -> Overseer | None:
        return LoopGuard()

    def _list_models(self, machine: Machine) -> CommandResult:
        """Asked once: it takes seconds, and three steps of pre-flight look at it."""
        if self._listing is None:
            self._listing = machine.run(self.probing("models"), slow=True)
        return self._listing

    def _names_hosted_model(self) -> bool:
        return any(model.startswith(f"{HOSTED_PROVIDER}/") for model in self.setup.settings.models if model)


def user_default_model(machine: Machine) -> str | None:
    """The `model` of the user's own opencode configuration."""
    folder = machine.environment.get("XDG_CONFIG_HOME") or str(machine.home / ".config")
    for name in ("opencode.json", "config.json"):
        found = object_from(machine.read_user_file(machine.home / folder / "opencode" / name) or "")
        if found and isinstance(found.get("model"), str):
            return str(found["model"])
    return None


@runtime("opencode")
class OpencodeRuntime(Runtime):
    model_family = "multi-provider"
    id_prefix = "O"
    connections = (HostSeat, NativeDispatch, OpencodeServer, OpencodeCli)
    install_hint = "npm install -g opencode-ai"
    login_hint = LOGIN_HINT

    @classmethod
    def report_fields(cls, taken: Taken) -> dict[str, Any]:
        configured = tuple(model for model in taken.setup.settings.models if model is not None)
        mode = "multi-model" if len(taken.models) > 1 else "single-model"
        return {"dispatch_mode": mode, "models_configured": configured}
