"""Gemini: Google's Gemini CLI, or its successor `agy` where that is missing or was refused for good. Runtimes §5."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.words import Status
from bridgehead.council.reasoning import MEDIUM
from bridgehead.council.refusals import CLI_NOT_FOUND
from bridgehead.council.runtimes.base import (
    NO_CONNECTION,
    Barred,
    Missing,
    Runtime,
    SeatSetup,
    Taken,
    runtime,
)
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.cli_result import refused_without_record, succeeded
from bridgehead.council.runtimes.exchange import Answered, Ask, Outcome
from bridgehead.council.runtimes.gemini_output import read_gemini
from bridgehead.council.runtimes.host import HostSeat, NativeDispatch
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.host.command import CommandResult

API_URL: Final = "https://generativelanguage.googleapis.com"
BASE_URL_VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
KEY_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
VERTEX_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
LOGIN_HINT: Final = "run `gemini` once and log in, or set GEMINI_API_KEY"
REASONING_UNSUPPORTED: Final = "reasoning_level_unsupported:gemini"


class GeminiCli(CliConnection):
    program = "gemini"
    runtime_name = "gemini"
    required_flags: ClassVar = frozenset({"--approval-mode", "--skip-trust", "--output-format"})
    own_variables: ClassVar = (
        *KEY_VARIABLES,
        *VERTEX_VARIABLES,
        BASE_URL_VARIABLE,
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
    # Without it a launcher stands in front that ignores signals (runtimes §5).
    fixed_environment: ClassVar = {"GEMINI_CLI_NO_RELAUNCH": "true"}

    def __init__(self, setup: SeatSetup, path: str, probe: Probe, auth_type: str | None = None) -> None:
        super().__init__(setup, path, probe)
        self._auth_type = auth_type

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        if setup.retired:
            return Missing(CLI_NOT_FOUND, "gemini refused this account for good the last time it was asked")
        located = super().locate(setup, machine)
        if isinstance(located, GeminiCli):
            located._auth_type = _selected_type(_user_settings(machine))
        return located

    def barrier(self, machine: Machine) -> Barred | None:
        if has_auth_method(machine):
            return None
        return Barred(Status.SKIPPED, f"auth_probe_failed: no method is configured; {LOGIN_HINT}")

    def environment(self, ask: Ask | None) -> dict[str, str]:
        """A `.env` in the tree could name another address, so ours is named where that does no harm (runtimes §2.6).

        With an address but without a chosen method the CLI takes the method "gateway" and fails, so the default
        address is named only for users who chose the API key.
        """
        environment = super().environment(ask)
        if self._auth_type == "gemini-api-key":
            environment.setdefault(BASE_URL_VARIABLE, API_URL)
        return environment

    def arguments(self, ask: Ask) -> Sequence[str]:
        # An untrusted folder would silently turn `plan` into `default` and then end the run (runtimes §5).
        mode = "auto_edit" if ask.may_write else "plan"
        fixed = ["--output-format", "stream-json", "--approval-mode", mode, "--skip-trust"]
        model = ["-m", ask.model] if ask.model else []
        session = ["--resume", ask.session] if ask.session else []
        return [*fixed, *model, *session, *self.extra_arguments]

    def read_result(self, ask: Ask, result: CommandResult) -> Outcome:
        return read_gemini(result)


class AgyCli(CliConnection):
    """The Gemini CLI's successor. Not measured, so it never sees the tree: empty directory, material in the prompt."""

    program = "agy"
    runtime_name = "agy"
    reads_files = False
    required_flags: ClassVar = frozenset({"--print"})
    warnings = ("unverified_backend:agy",)

    def arguments(self, ask: Ask) -> Sequence[str]:
        return ["--print", *self.extra_arguments]

    def read_result(self, ask: Ask, result: CommandResult) -> Outcome:
        if result.exit_code != 0:
            return refused_without_record("agy", result, ())
        return succeeded("agy", result, Answered(result.text().strip()))

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        if not setup.retired and machine.which(setup.text_option("path") or GeminiCli.program) is not None:
            return Missing(CLI_NOT_FOUND, "agy is tried only where gemini is missing or was refused for good")
        # `path` in the settings names the gemini program, not this one.
        options = {name: value for name, value in setup.settings.options.items() if name != "path"}
        return super().locate(setup.with_options(options), machine)


class GeminiNative(NativeDispatch):
    """An injected dispatcher counts only where the user has switched Gemini's agents on (council §4.1)."""

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        located = super().locate(setup, machine)
        if isinstance(located, Missing) or _agents_enabled(setup, machine):
            return located
        return Missing(NO_CONNECTION, "experimental.enableAgents is not set in Gemini's settings")


def has_auth_method(machine: Machine) -> bool:
    """Whether a key, Vertex variables or a stored login are there; presence only, nothing is asked."""
    environment = machine.environment
    if any(environment.get(name) for name in KEY_VARIABLES):
        return True
    if all(environment.get(name) for name in VERTEX_VARIABLES):
        return True
    folder = machine.home / ".gemini"
    stored_key = machine.read_user_file(folder / ".env") or ""
    return machine.read_user_file(folder / "oauth_creds.json") is not None or "GEMINI_API_KEY=" in stored_key


def _agents_enabled(setup: SeatSetup, machine: Machine) -> bool:
    for settings in (_project_settings(setup, machine), _user_settings(machine)):
        enabled = _section(settings, "experimental").get("enableAgents")
        if isinstance(enabled, bool):
            return enabled
    return False


def _selected_type(settings: Mapping[str, Any]) -> str | None:
    auth = _section(_section(settings, "security"), "auth")
    selected = auth.get("selectedType")
    return selected if isinstance(selected, str) else None


def _user_settings(machine: Machine) -> Mapping[str, Any]:
    return _read_settings(machine, machine.home)


def _project_settings(setup: SeatSetup, machine: Machine) -> Mapping[str, Any]:
    return {} if setup.project is None else _read_settings(machine, setup.project)


def _read_settings(machine: Machine, root: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(machine.read_user_file(root / ".gemini" / "settings.json") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


@runtime("gemini")
class GeminiRuntime(Runtime):
    model_family = "google/gemini"
    id_prefix = "G"
    connections = (HostSeat, GeminiNative, GeminiCli, AgyCli)
    login_refused = Status.SKIPPED
    install_hint = "npm install -g @google/gemini-cli"
    login_hint = LOGIN_HINT

    @classmethod
    def warnings(cls, cap: str) -> tuple[str, ...]:
        # There is no flag for it (runtimes §5).
        return (REASONING_UNSUPPORTED,) if cap != MEDIUM else ()

    @classmethod
    def report_fields(cls, taken: Taken) -> dict[str, Any]:
        return {"subagent_mode": "native" if taken.connection.kind == "native-dispatch" else "none"}
