"""OpenCode: as a program, one `opencode run` per prompt, or as the server the user named by OPENCODE_PORT.
Runtimes §6.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Self
from urllib.parse import quote

from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage, sum_known
from bridgehead.council.replies.reply import object_from
from bridgehead.council.runtimes import base, cli, exchange
from bridgehead.council.runtimes.call_errors import classify
from bridgehead.council.runtimes.endings import shortfall_of
from bridgehead.council.runtimes.exchange import text_at
from bridgehead.council.runtimes.machine import Machine, problem_of
from bridgehead.host.command import CommandResult
from bridgehead.host.confinement import XDG_FOLDERS

# A reply without a finish reason makes opencode ask again at once, without end (runtimes §6).
MOST_UNKNOWN_STEPS: Final = 3

STARTUP_ERRORS: Final[cli.StartupErrors] = (
    (re.compile(r"Session not found"), ErrorClass.UNKNOWN_SESSION),
    (re.compile(r"You must provide a message"), ErrorClass.NO_PROMPT),
    (
        re.compile(
            r"^opencode run \[message\.\.\]|Positionals:|^Options:", re.MULTILINE
        ),
        ErrorClass.BAD_USAGE,
    ),
)
# Offered even without any credentials; using it would send the code to a service nobody chose (council §4.2).
HOSTED_PROVIDER: Final = "opencode"
NO_PROVIDER: Final = "no_provider_configured"
LOGIN_HINT: Final = (
    "run `opencode auth login`, or name a provider in your opencode configuration"
)

# `--agent plan` alone runs shell commands (runtimes §6).
READ_ONLY: Final = {
    "edit": "deny",
    "bash": "deny",
    "webfetch": "deny",
    "external_directory": "deny",
}
# A server that the user started is confined by nobody, so it gets the material in the prompt.
NO_TOOLS: Final = {"*": "deny"}
# No shell: a command could reach beyond the worktree.
MAY_EDIT: Final = {
    "edit": "allow",
    "bash": "deny",
    "webfetch": "deny",
    "external_directory": "deny",
}
PROVIDER_KEYS: Final = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
    *(
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
        "XAI_API_KEY",
    ),
    *(
        "TOGETHER_API_KEY",
        "CEREBRAS_API_KEY",
        "FIREWORKS_API_KEY",
        "MOONSHOT_API_KEY",
        "ZHIPU_API_KEY",
    ),
)


class LoopGuard:
    """Watches the output while it arrives and says when opencode has begun to run in circles."""

    def __init__(self) -> None:
        self._unfinished_line = b""
        self._unknown_steps = 0

    def __call__(self, chunk: bytes) -> bool:
        """Take more stdout; True when the run should be stopped."""
        *lines, self._unfinished_line = (self._unfinished_line + chunk).split(b"\n")
        for line in lines:
            event = object_from(line.decode("utf-8", "replace")) or {}
            if event.get("type") == "step_finish":
                self._unknown_steps += _reason(event) == "unknown"
        return self._unknown_steps >= MOST_UNKNOWN_STEPS


def read_opencode(result: CommandResult) -> exchange.CallOutcome:
    """The outcome of one run."""
    events = list(exchange.objects_in(result.text()))
    steps = [event for event in events if event.get("type") == "step_finish"]
    usage = _usage([exchange.mapping_at(step, "part") for step in steps])
    error = next((event for event in events if event.get("type") == "error"), None)
    if error is not None:
        return read_error(
            exchange.mapping_at(error, "error"), cli.stderr_of(result), usage
        )
    if (
        any(_reason(step) == "unknown" for step in steps)
        and _reason(steps[-1]) != "stop"
    ):
        message = "the model's replies never finished, and opencode kept asking"
        return exchange.RuntimeRefusal(
            ErrorClass.MALFORMED, message, cli.stderr_of(result), usage=usage
        )
    if not steps:
        return cli.refused_without_record("opencode", result, STARTUP_ERRORS)
    answered = exchange.RuntimeAnswer(
        _last_words(events),
        text_at(events[0], "sessionID") or None,
        None,
        usage,
        shortfall=shortfall_of(_reason(steps[-1])),
    )
    return cli.succeeded("opencode", result, answered)


def read_error(
    error: Mapping[str, Any], detail: str, usage: CallUsage
) -> exchange.RuntimeRefusal:
    """An error object of opencode, from an event or from its HTTP server."""
    data = exchange.mapping_at(error, "data")
    message = (
        text_at(data, "message")
        or text_at(error, "name")
        or "opencode reported an error"
    )
    if text_at(error, "name") == "ContextOverflowError":
        return exchange.RuntimeRefusal(
            ErrorClass.TOO_LONG, message, detail, usage=usage
        )
    # A model that is not in the configuration fails before any request; only a reference to a log tells.
    if text_at(error, "name") == "UnknownError" and "ref" in data:
        message = f"{message} (usually: no such model in opencode's configuration)"
        return exchange.RuntimeRefusal(
            ErrorClass.UNKNOWN_MODEL, message, detail, usage=usage
        )
    status = data.get("statusCode")
    text = f"{message}\n{text_at(data, 'responseBody')}"
    return exchange.RuntimeRefusal(
        classify(text, status if isinstance(status, int) else None),
        message,
        detail,
        usage=usage,
    )


def listed_models(printed: str) -> list[str]:
    """The `provider/model` lines of `opencode models`."""
    return [
        line.strip()
        for line in printed.splitlines()
        if re.fullmatch(r"[^/\s]+/\S+", line.strip())
    ]


def usage_of(part: Mapping[str, Any]) -> CallUsage:
    """Tokens of one step or message; `output` excludes reasoning and `input` excludes cache reads."""
    tokens = exchange.mapping_at(part, "tokens")
    cache = exchange.mapping_at(part, "tokens", "cache")
    return CallUsage(
        tokens_in=exchange.count_at(tokens, "input")
        + exchange.count_at(cache, "read")
        + exchange.count_at(cache, "write"),
        tokens_out=exchange.count_at(tokens, "output")
        + exchange.count_at(tokens, "reasoning"),
        cost_usd=exchange.cost_at(part, "cost"),
    )


def _usage(parts: list[Mapping[str, Any]]) -> CallUsage:
    if not parts:
        return exchange.NOTHING_REPORTED
    each = [usage_of(part) for part in parts]
    return CallUsage(
        tokens_in=sum(usage.tokens_in or 0 for usage in each),
        tokens_out=sum(usage.tokens_out or 0 for usage in each),
        cost_usd=sum_known(usage.cost_usd for usage in each),
    )


def _last_words(events: list[dict[str, Any]]) -> str:
    """The texts of the last step that ended with `stop`."""
    words: list[str] = []
    answer = ""
    for event in events:
        match event.get("type"):
            case "step_start":
                words = []
            case "text":
                words.append(text_at(exchange.mapping_at(event, "part"), "text"))
            case "step_finish" if _reason(event) == "stop":
                answer = "".join(words)
    return answer


def _reason(event: Mapping[str, Any]) -> str:
    return text_at(exchange.mapping_at(event, "part"), "reason")


class OpencodeServer(base.Connection):
    """One session per role; a server that nobody named is never used."""

    kind = "http-api"
    runtime_name = "opencode"
    exchange_mode = "session-continuity"
    keeps_history = True
    reads_files = False

    def __init__(
        self, url: str, password: str | None, health: exchange.HttpReply
    ) -> None:
        self._url = url
        self._headers = _basic_auth(password) if password else {}
        self._health = health
        self._listing: exchange.HttpReply | None = None
        self.version = text_at(object_from(health.text) or {}, "version") or None

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        port = setup.environment.get("OPENCODE_PORT", "")
        if not (port.isdecimal() and 0 < int(port) < 65536):
            return base.Missing(base.NO_CONNECTION, "OPENCODE_PORT is not a port")
        url = f"http://127.0.0.1:{int(port)}"
        password = setup.environment.get("OPENCODE_SERVER_PASSWORD")
        health = machine.get(
            f"{url}/global/health", _basic_auth(password) if password else {}
        )
        if health.status not in (200, 401):
            return base.Missing(
                base.NO_CONNECTION,
                f"{url}/global/health: {health.failure or health.status}",
            )
        return cls(url, password, health)

    def barrier(self, machine: Machine) -> base.Barred | None:
        if self._health.status == 401:
            hint = (
                "set OPENCODE_SERVER_PASSWORD to the password of the running opencode "
                "server"
            )
            return base.Barred(Status.HALTED, base.NOT_AUTHENTICATED, hint)
        if self.models(machine):
            return None
        listing = self._list_providers(machine)
        if listing.status != 200:
            problem = listing.failure or f"HTTP {listing.status}"
            return base.Barred(
                Status.SKIPPED, f"cli_error: {self._url}/config/providers: {problem}"
            )
        return base.Barred(Status.HALTED, NO_PROVIDER, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        providers = (object_from(self._list_providers(machine).text) or {}).get(
            "providers"
        )
        if not isinstance(providers, list):
            return None
        found = [
            f"{provider.get('id')}/{model}"
            for provider in providers
            if isinstance(provider, dict) and provider.get("id") != HOSTED_PROVIDER
            for model in exchange.mapping_at(provider, "models")
        ]
        return found or None

    def _list_providers(self, machine: Machine) -> exchange.HttpReply:
        """Asked once: it takes seconds, and three steps of pre-flight look at it."""
        if self._listing is None:
            self._listing = machine.get(
                f"{self._url}/config/providers", self._headers, slow=True
            )
        return self._listing

    def default_model(self, machine: Machine) -> str | None:
        return next(iter(self.models(machine) or []), None)

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        if ask.session:
            return self._message(ask, ask.session)
        agent, permissions = (
            ("build", MAY_EDIT) if ask.may_write else ("plan", NO_TOOLS)
        )
        rules = [
            {"permission": name, "pattern": "*", "action": action}
            for name, action in permissions.items()
        ]
        body = {"title": ask.title, "agent": agent, "permission": rules}
        return self._post(
            f"/session?directory={quote(str(ask.workspace), safe='')}", body
        )

    def read(
        self, ask: exchange.RuntimeRequest, received: exchange.Received
    ) -> exchange.NextStep:
        return exchange.read_http(
            "the opencode server",
            received,
            lambda found, reply: self._read(ask, found, reply),
        )

    def _read(
        self,
        ask: exchange.RuntimeRequest,
        document: Mapping[str, Any],
        reply: exchange.HttpReply,
    ) -> exchange.NextStep:
        if reply.status != 200:
            return _refusal(document, reply.status)
        created = text_at(document, "id")
        if created and "parts" not in document:
            return self._message(ask, created)
        return read_message(document)

    def _message(
        self, ask: exchange.RuntimeRequest, session: str
    ) -> exchange.HttpRequest:
        body: dict[str, Any] = {
            "parts": [{"type": "text", "text": ask.prompt}],
            "agent": "build" if ask.may_write else "plan",
        }
        if ask.model:
            # An unknown model would stay the session's model, so every message names its own (runtimes §6).
            provider, _, model = ask.model.partition("/")
            body["model"] = {"providerID": provider, "modelID": model}
        return self._post(f"/session/{quote(session, safe='')}/message", body)

    def _post(self, path: str, body: dict[str, Any]) -> exchange.HttpRequest:
        return exchange.HttpRequest("POST", f"{self._url}{path}", self._headers, body)


def read_message(document: Mapping[str, Any]) -> exchange.CallOutcome:
    info = exchange.mapping_at(document, "info")
    usage = usage_of(info)
    if error := exchange.mapping_at(info, "error"):
        return read_error(error, "", usage)
    parts = document.get("parts")
    entries = (
        [part for part in parts if isinstance(part, dict)]
        if isinstance(parts, list)
        else []
    )
    text = "".join(
        text_at(part, "text") for part in entries if part.get("type") == "text"
    )
    shortfall = shortfall_of(info.get("finish"))
    if not text.strip():
        return exchange.empty_answer("the opencode server", shortfall, usage)
    model = (
        f"{text_at(info, 'providerID')}/{text_at(info, 'modelID')}".strip("/") or None
    )
    return exchange.RuntimeAnswer(
        text, text_at(info, "sessionID") or None, model, usage, shortfall=shortfall
    )


def _refusal(document: Mapping[str, Any], status: int) -> exchange.RuntimeRefusal:
    if status == 404:
        message = (
            text_at(exchange.mapping_at(document, "data"), "message")
            or "session not found"
        )
        return exchange.RuntimeRefusal(ErrorClass.UNKNOWN_SESSION, message)
    if status == 401:
        return exchange.RuntimeRefusal(
            ErrorClass.AUTH, "the opencode server wants a password"
        )
    if status == 400:
        return exchange.RuntimeRefusal(
            ErrorClass.BAD_USAGE,
            text_at(exchange.mapping_at(document, "data"), "message"),
        )
    return read_error(document, "", exchange.NOTHING_REPORTED)


def _basic_auth(password: str) -> dict[str, str]:
    token = base64.b64encode(f"opencode:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}


class OpencodeCli(cli.CliConnection):
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

    serves_acp: ClassVar = True
    server_ports: ClassVar = frozenset({4096})
    own_folders: ClassVar = tuple(f"{part}/opencode" for part in XDG_FOLDERS.values())
    takes_tools = True

    _listing: CommandResult | None = None

    def barrier(self, machine: Machine) -> base.Barred | None:
        if self.models(machine) or self._names_hosted_model():
            return None
        listing = self._list_models(machine)
        if listing.exit_code != 0:
            why = f"cli_error: opencode models: {problem_of(listing)}"
            return base.Barred(
                Status.SKIPPED, why, "run `opencode models` to see what is wrong"
            )
        return base.Barred(Status.HALTED, NO_PROVIDER, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        """What can be asked for: the listing is of configured providers, minus the hosted one."""
        listed = listed_models(self._list_models(machine).text())
        return [
            model for model in listed if not model.startswith(f"{HOSTED_PROVIDER}/")
        ] or None

    def default_model(self, machine: Machine) -> str | None:
        """The user's own default where it is configured, else the first of the listing; never left to opencode."""
        models = self.models(machine) or []
        chosen = user_default_model(machine)
        return chosen if chosen in models else next(iter(models), None)

    def environment(self, ask: exchange.RuntimeRequest | None) -> dict[str, str]:
        may_write = ask is not None and ask.may_write
        config: dict[str, Any] = {
            "autoupdate": False,
            "share": "disabled",
            "permission": {
                **(
                    (MAY_EDIT if may_write else READ_ONLY)
                    if self.has_tools
                    else NO_TOOLS
                )
            },
        }
        if not self._names_hosted_model():
            config["disabled_providers"] = [HOSTED_PROVIDER]
        if ask is not None and ask.tools:
            config["mcp"] = {
                one.name: {"type": "remote", "url": one.url}
                if one.url
                else {"type": "local", "command": one.words}
                for one in ask.tools
            }
            config["permission"] |= {f"{one.name}_*": "allow" for one in ask.tools}
        return super().environment(ask) | {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config)
        }

    def arguments(self, ask: exchange.RuntimeRequest) -> Sequence[str]:
        model = cli.option("--model", ask.model)
        agent = ["--agent", "build" if ask.may_write else "plan"]
        # A title spares the model call that would make one; a session has its title already.
        session = cli.option("--session", ask.session) or cli.option(
            "--title", ask.title
        )
        return [
            "run",
            "--format",
            "json",
            *model,
            *agent,
            *session,
            *self.extra_arguments,
        ]

    def read_result(
        self, ask: exchange.RuntimeRequest, result: CommandResult
    ) -> exchange.CallOutcome:
        outcome = read_opencode(result)
        if isinstance(outcome, exchange.RuntimeAnswer):
            return replace(outcome, model=ask.model)
        return outcome

    def overseer(self) -> base.Overseer | None:
        return LoopGuard()

    def _list_models(self, machine: Machine) -> CommandResult:
        """Asked once: it takes seconds, and three steps of pre-flight look at it."""
        if self._listing is None:
            self._listing = machine.run(self.probing("models"), slow=True)
        return self._listing

    def _names_hosted_model(self) -> bool:
        return any(
            model.startswith(f"{HOSTED_PROVIDER}/")
            for model in self.setup.settings.models
            if model
        )


def user_default_model(machine: Machine) -> str | None:
    """The `model` of the user's own opencode configuration."""
    folder = machine.environment.get("XDG_CONFIG_HOME") or str(machine.home / ".config")
    for name in ("opencode.json", "config.json"):
        found = object_from(
            machine.read_user_file(machine.home / folder / "opencode" / name) or ""
        )
        if found and isinstance(found.get("model"), str):
            return str(found["model"])
    return None


@base.runtime("opencode")
class OpencodeRuntime(base.Runtime):
    model_family = "multi-provider"
    id_prefix = "O"
    connections = (base.HostSeat, OpencodeServer, OpencodeCli)
    install_hint = "npm install -g opencode-ai"
    login_hint = LOGIN_HINT

    @classmethod
    def report_fields(cls, taken: base.Taken) -> dict[str, Any]:
        configured = tuple(
            model for model in taken.setup.settings.models if model is not None
        )
        mode = "multi-model" if len(taken.models) > 1 else "single-model"
        return {"dispatch_mode": mode, "models_configured": configured}
