"""Gemini: Google's Gemini CLI, or its successor `agy` where that is missing or was refused for good. Runtimes §5."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.replies.reply import object_from
from bridgehead.council.request.settings import MEDIUM
from bridgehead.council.runtimes import base, cli, exchange
from bridgehead.council.runtimes.call_errors import CLI_NOT_FOUND, classify
from bridgehead.council.runtimes.machine import Machine, Probe
from bridgehead.host.command import CommandResult
from bridgehead.host.files import write_private

STARTUP_ERRORS: Final[cli.StartupErrors] = (
    (re.compile(r"^Unknown argument", re.MULTILINE), ErrorClass.BAD_USAGE),
    (
        re.compile(r"Error resuming session|Invalid session identifier"),
        ErrorClass.UNKNOWN_SESSION,
    ),
    (re.compile(r"No input provided via stdin"), ErrorClass.NO_PROMPT),
    (re.compile(r"not running in a trusted directory"), ErrorClass.UNTRUSTED_FOLDER),
)
RETIRED_ACCOUNT: Final = "IneligibleTierError"
UNEXPLAINED: Final = "gemini reported an error"
# gemini exits with the status of a failed request, of which the system keeps the lowest eight bits.
_HTTP_ERRORS: Final = range(400, 600)
_EXIT_CLASSES: Final = {41: ErrorClass.AUTH, 55: ErrorClass.UNTRUSTED_FOLDER}
# A node trace on stderr ends with the fields of the error object; the HTTP status is among them.
_TRACE_STATUS: Final = re.compile(r"^\s*(?:code|status): (\d{3}),?$", re.MULTILINE)
API_URL: Final = "https://generativelanguage.googleapis.com"
BASE_URL_VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
KEY_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
VERTEX_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
STAYS_IN_PLAN: Final = (
    '[[rule]]\ntoolName = "exit_plan_mode"\ndecision = "deny"\npriority = 999\n'
)
TOOLS_ALLOWED: Final = (
    '[[rule]]\nmcpName = "*"\ntoolName = "*"\ndecision = "allow"\npriority = 500\n'
)
TRUSTED: Final = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
"""Reads the settings of the folder; `--skip-trust` comes too late for that."""
LOGIN_HINT: Final = "run `gemini` once and log in, or set GEMINI_API_KEY"
REASONING_UNSUPPORTED: Final = "reasoning_level_unsupported:gemini"


def read_gemini(result: CommandResult) -> exchange.CallOutcome:
    """The outcome of `gemini --output-format json|stream-json`."""
    printed = result.text()
    events = list(exchange.objects_in(printed))
    if (final := exchange.last_of(events, "result")) is not None:
        return _read_stream(events, final, result)
    whole = object_from(printed) or {}
    # A stream that was cut leaves an error beside the words that came; they are used (runtimes §11).
    if (error := exchange.mapping_at(whole, "error")) and not exchange.text_at(
        whole, "response"
    ).strip():
        return _refused_by_record(error, result)
    return _read_whole(whole, result) if "response" in whole else _read_error(result)


def _read_stream(
    events: list[dict[str, Any]], final: Mapping[str, Any], result: CommandResult
) -> exchange.CallOutcome:
    usage = _stream_usage(exchange.mapping_at(final, "stats"))
    said = [
        event
        for event in events
        if event.get("type") == "message" and event.get("role") == "assistant"
    ]
    text = "".join(exchange.text_at(event, "content") for event in said)
    # As in the other format: a cut stream ends with code 0, and without an error in the last record.
    was_cut = result.exit_code == 0 and "error" not in final and bool(text.strip())
    if final.get("status") != "success" and not was_cut:
        return _refused(_stream_error(events, final), result, usage)
    first = next((event for event in events if event.get("type") == "init"), {})
    models = list(exchange.mapping_at(final, "stats", "models"))
    answered = exchange.RuntimeAnswer(
        text,
        exchange.text_at(first, "session_id") or None,
        models[0] if models else None,
        usage,
        shortfall=Unlooked.CUT if final.get("status") != "success" else None,
    )
    return cli.succeeded("gemini", result, answered)


def _stream_error(events: list[dict[str, Any]], final: Mapping[str, Any]) -> str:
    """Why a stream ended in an error: the last record says it, or an `error` event before it."""
    said = [
        exchange.text_at(event, "message")
        for event in events
        if event.get("type") == "error"
    ]
    told = exchange.text_at(exchange.mapping_at(final, "error"), "message") or next(
        filter(None, reversed(said)), ""
    )
    return told or UNEXPLAINED


def _read_whole(
    whole: Mapping[str, Any], result: CommandResult
) -> exchange.CallOutcome:
    models = exchange.mapping_at(whole, "stats", "models")
    counts = [exchange.mapping_at(models, name, "tokens") for name in models]
    usage = CallUsage(
        tokens_in=sum(exchange.count_at(each, "prompt") for each in counts)
        if counts
        else None,
        tokens_out=sum(
            exchange.count_at(each, "candidates") + exchange.count_at(each, "thoughts")
            for each in counts
        )
        if counts
        else None,
    )
    session = exchange.text_at(whole, "session_id") or None
    answered = exchange.RuntimeAnswer(
        exchange.text_at(whole, "response"),
        session,
        next(iter(models), None),
        usage,
        shortfall=Unlooked.CUT if whole.get("error") else None,
    )
    return cli.succeeded("gemini", result, answered)


def _read_error(result: CommandResult) -> exchange.RuntimeRefusal:
    """Errors of the `json` format: the last object on stderr, after warnings and traces."""
    error = exchange.mapping_at(
        exchange.last_pretty_object(result.error_text()) or {}, "error"
    )
    if error:
        return _refused_by_record(error, result)
    refused = cli.refused_without_record("gemini", result, STARTUP_ERRORS)
    if result.exit_code == 0:
        return refused
    return replace(
        refused, error_class=_class_of(cli.stderr_of(result) or refused.message, result)
    )


def _refused_by_record(
    error: Mapping[str, Any], result: CommandResult
) -> exchange.RuntimeRefusal:
    message = exchange.text_at(error, "message") or UNEXPLAINED
    return _refused(message, result, exchange.NOTHING_REPORTED, code=error.get("code"))


def _refused(
    message: str, result: CommandResult, usage: CallUsage, code: object = None
) -> exchange.RuntimeRefusal:
    return exchange.RuntimeRefusal(
        _class_of(message, result, code), message, cli.stderr_of(result), usage=usage
    )


def _class_of(message: str, result: CommandResult, code: object = None) -> ErrorClass:
    # An account that is refused for good also ends with the code of a missing login; the trace alone tells.
    if RETIRED_ACCOUNT in message or RETIRED_ACCOUNT in result.error_text():
        return ErrorClass.RETIRED
    if result.exit_code in _EXIT_CLASSES:
        return _EXIT_CLASSES[result.exit_code]
    told = next(
        (
            error_class
            for pattern, error_class in STARTUP_ERRORS
            if pattern.search(message)
        ),
        None,
    )
    return told or classify(message, _status(code, result))


def _status(code: object, result: CommandResult) -> int | None:
    """The HTTP status: gemini's own code where it is one (404 is shown as 1), else what its trace or exit says."""
    if isinstance(code, int) and code in _HTTP_ERRORS:
        return code
    traced = _TRACE_STATUS.findall(result.error_text())
    if traced:
        return int(traced[-1])
    return result.exit_code + 256 if result.exit_code + 256 in _HTTP_ERRORS else None


def _stream_usage(stats: Mapping[str, Any]) -> CallUsage:
    if "total_tokens" not in stats:
        return exchange.NOTHING_REPORTED
    # Thoughts are in the total only.
    total = exchange.count_at(stats, "total_tokens")
    tokens_in = exchange.count_at(stats, "input_tokens")
    return CallUsage(tokens_in=tokens_in, tokens_out=max(total - tokens_in, 0))


class GeminiCli(cli.CliConnection):
    program = "gemini"
    runtime_name = "gemini"
    required_flags: ClassVar = frozenset(
        {"--approval-mode", "--admin-policy", "--skip-trust", "--output-format"}
    )
    own_variables: ClassVar = (
        *KEY_VARIABLES,
        *VERTEX_VARIABLES,
        BASE_URL_VARIABLE,
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
    # Without it a launcher stands in front that ignores signals (runtimes §5).
    fixed_environment: ClassVar = {"GEMINI_CLI_NO_RELAUNCH": "true"}
    own_folders: ClassVar = (".gemini",)
    takes_tools = True

    def __init__(
        self,
        setup: base.SeatSetup,
        path: str,
        probe: Probe,
        auth_type: str | None = None,
    ) -> None:
        super().__init__(setup, path, probe)
        self._auth_type = auth_type

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        if setup.retired:
            return base.Missing(
                CLI_NOT_FOUND,
                "gemini refused this account permanently at the last call",
            )
        located = super().locate(setup, machine)
        if isinstance(located, GeminiCli):
            chosen = exchange.mapping_at(
                _read_settings(machine, machine.home), "security", "auth"
            )
            located._auth_type = exchange.text_at(chosen, "selectedType") or None
        return located

    def barrier(self, machine: Machine) -> base.Barred | None:
        if has_auth_method(machine):
            return None
        return base.Barred(
            Status.SKIPPED, f"auth_probe_failed: no method is configured; {LOGIN_HINT}"
        )

    def environment(self, ask: exchange.RuntimeRequest | None) -> dict[str, str]:
        """A `.env` in the tree could name another address, so ours is named where that does no harm (runtimes §2.6).

        With an address but without a chosen method the CLI takes the method "gateway" and fails, so the default
        address is named only for users who chose the API key.
        """
        environment = super().environment(ask)
        if self._auth_type == "gemini-api-key":
            environment.setdefault(BASE_URL_VARIABLE, API_URL)
        if ask is not None and ask.tools:
            environment |= TRUSTED
        return environment

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        """There is no flag for MCP servers, so they are the settings of the folder in which this call works."""
        if ask.tools:
            servers = {
                one.name: {"httpUrl": one.url} if one.url else one.started()
                for one in ask.tools
            }
            write_private(
                ask.workspace / ".gemini" / "settings.json",
                json.dumps({"mcpServers": servers}),
            )
        return super().ask(ask)

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        # An untrusted folder would silently turn `plan` into `default` and then end the run (runtimes §5).
        mode = "auto_edit" if ask.may_write else "plan"
        fixed = [
            "--output-format",
            "stream-json",
            "--approval-mode",
            mode,
            "--skip-trust",
        ]
        model = cli.option("--model", ask.model)
        session = cli.option("--resume", ask.session)
        return [*fixed, *rules(ask), *model, *session, *self.extra_arguments]

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        return read_gemini(result)


def rules(ask: exchange.RuntimeRequest) -> list[str]:
    """What `plan` leaves open and what it refuses too much, as rules of the administrator's tier.

    Where nobody is there to be asked, gemini lets the model leave `plan` for a mode in which everything is allowed; and
    `plan` refuses the tools of every MCP server. Such rules leave the user's own in force, which `--policy` replaces.
    """
    if ask.may_write or ask.scratch is None:
        return []
    file = ask.scratch / "home" / "rules.toml"
    write_private(file, STAYS_IN_PLAN + (TOOLS_ALLOWED if ask.tools else ""))
    # No other server is started, so those whose tools are allowed are those of this call.
    names = [f"--allowed-mcp-server-names={one.name}" for one in ask.tools]
    return [f"--admin-policy={file}", *names]


class AgyCli(cli.CliConnection):
    """The Gemini CLI's successor. Not measured, so it never sees the tree: empty directory, material in the prompt."""

    program = "agy"
    runtime_name = "agy"
    reads_files = False
    required_flags: ClassVar = frozenset({"--print"})
    own_folders: ClassVar = (".gemini", ".antigravity", ".config/antigravity")
    warnings = ("unverified_backend:agy",)

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        return ["--print", *self.extra_arguments]

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        if result.exit_code != 0:
            return cli.refused_without_record("agy", result, ())
        return cli.succeeded(
            "agy", result, exchange.RuntimeAnswer(result.text().strip())
        )

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        if (
            not setup.retired
            and machine.which(setup.text_option("path") or GeminiCli.program)
            is not None
        ):
            return base.Missing(
                CLI_NOT_FOUND,
                "agy is used only if gemini is not installed or its account was "
                "refused",
            )
        # `path` in the settings names the gemini program, not this one.
        options = {
            name: value
            for name, value in setup.settings.options.items()
            if name != "path"
        }
        return super().locate(
            replace(setup, settings=replace(setup.settings, options=options)), machine
        )


def has_auth_method(machine: Machine) -> bool:
    """Whether a key, Vertex variables or a stored login are there; presence only, nothing is asked."""
    environment = machine.environment
    if any(environment.get(name) for name in KEY_VARIABLES):
        return True
    if all(environment.get(name) for name in VERTEX_VARIABLES):
        return True
    folder = machine.home / ".gemini"
    stored_key = machine.read_user_file(folder / ".env") or ""
    return (
        machine.read_user_file(folder / "oauth_creds.json") is not None
        or "GEMINI_API_KEY=" in stored_key
    )


def _read_settings(machine: Machine, root: Path) -> dict[str, Any]:
    return (
        object_from(machine.read_user_file(root / ".gemini" / "settings.json") or "")
        or {}
    )


@base.runtime("gemini")
class GeminiRuntime(base.Runtime):
    model_family = "google/gemini"
    id_prefix = "G"
    connections = (base.HostSeat, GeminiCli, AgyCli)
    login_refused = Status.SKIPPED
    install_hint = "npm install -g @google/gemini-cli"
    login_hint = LOGIN_HINT

    @classmethod
    def warnings(cls, cap: str) -> tuple[str, ...]:
        # There is no flag for it (runtimes §5).
        return (REASONING_UNSUPPORTED,) if cap != MEDIUM else ()

    @classmethod
    def report_fields(cls, taken: base.Taken) -> dict[str, Any]:
        is_host_seat = isinstance(taken.connection, base.HostSeat)
        return {"subagent_mode": "native" if is_host_seat else "none"}
