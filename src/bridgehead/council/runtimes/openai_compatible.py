"""Any endpoint that speaks Chat Completions: Ollama, vLLM, llama.cpp, LM Studio, gateways (council §23).

One stateless call per prompt; source text goes to `base_url` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import urlsplit

from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import CallUsage
from bridgehead.council.runtimes import base, exchange
from bridgehead.council.runtimes.call_errors import classify
from bridgehead.council.runtimes.endings import shortfall_of
from bridgehead.council.runtimes.machine import Machine

_BAD_REQUEST: Final = (400, 404, 415, 422, 501)


class ChatEndpoint(base.Connection):
    kind = "http-api"
    runtime_name = "chat completions"
    reads_files = False

    def __init__(
        self,
        base_url: str,
        key: str | None,
        key_variable: str | None,
        listing: exchange.HttpReply,
    ) -> None:
        self._url = base_url
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._key_variable = key_variable
        self._listing = listing
        self._takes_schemas = True

    @classmethod
    def locate(cls, setup: base.SeatSetup, machine: Machine) -> Self | base.Missing:
        base_url = (setup.text_option("base_url") or "").rstrip("/")
        if not base_url:
            return base.Missing(
                base.NO_CONNECTION, "no base_url in the settings of openai"
            )
        if not _is_http(base_url):
            return base.Missing(
                base.NO_CONNECTION, f"base_url {base_url!r} is not an http or https URL"
            )
        variable = setup.text_option("api_key_env")
        key = setup.environment.get(variable) if variable else None
        headers = {"authorization": f"Bearer {key}"} if key else {}
        listing = machine.get(f"{base_url}/models", headers)
        if listing.status not in (200, 401, 403):
            return base.Missing(
                base.NO_CONNECTION,
                f"{base_url}/models: {listing.failure or f'HTTP {listing.status}'}",
            )
        return cls(base_url, key, variable, listing)

    def barrier(self, machine: Machine) -> base.Barred | None:
        if self._listing.status == 200:
            return None
        hint = (
            f"set {self._key_variable} to a valid key"
            if self._key_variable
            else "set api_key_env"
        )
        return base.Barred(
            Status.HALTED,
            base.NOT_AUTHENTICATED,
            f"{self._url} refused the key; {hint}",
        )

    def models(self, machine: Machine) -> list[str] | None:
        return exchange.listed_ids(self._listing.text) or None

    def default_model(self, machine: Machine) -> str | None:
        return next(iter(self.models(machine) or []), None)

    def ask(self, ask: exchange.RuntimeRequest) -> exchange.Request:
        body: dict[str, Any] = {
            "model": ask.model or "",
            "messages": [{"role": "user", "content": ask.prompt}],
        }
        if ask.schema is not None and self._takes_schemas:
            shape = {"name": "answer", "schema": ask.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return exchange.HttpRequest(
            "POST", f"{self._url}/chat/completions", self._headers, body
        )

    def read(
        self, ask: exchange.RuntimeRequest, received: exchange.Received
    ) -> exchange.NextStep:
        """A server that does not know `response_format` is asked again without it, and never with it after that."""
        outcome = exchange.read_http("the endpoint", received, _read_completion)
        complains = (
            isinstance(received, exchange.HttpReply) and received.status in _BAD_REQUEST
        )
        unexplained = (
            isinstance(outcome, exchange.RuntimeRefusal)
            and outcome.error_class is ErrorClass.OTHER
        )
        if complains and unexplained and ask.schema is not None and self._takes_schemas:
            self._takes_schemas = False
            return self.ask(ask)
        return outcome


def _is_http(address: str) -> bool:
    try:
        return urlsplit(address).scheme in ("http", "https")
    except ValueError:  # a bracket that is not closed
        return False


def _read_completion(
    document: Mapping[str, Any], reply: exchange.HttpReply
) -> exchange.CallOutcome:
    if reply.status != 200 or "error" in document:
        error = exchange.mapping_at(document, "error")
        message = exchange.text_at(error, "message") or f"HTTP {reply.status}"
        status = reply.status if reply.status != 200 else None
        return exchange.RuntimeRefusal(
            classify(f"{error.get('code')} {message}", status), message
        )
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return exchange.RuntimeRefusal(
            ErrorClass.MALFORMED, "the endpoint gave an answer without choices"
        )
    text = exchange.text_at(exchange.mapping_at(choices[0], "message"), "content")
    usage = _usage(exchange.mapping_at(document, "usage"))
    declined = exchange.text_at(exchange.mapping_at(choices[0], "message"), "refusal")
    shortfall = shortfall_of(choices[0].get("finish_reason"))
    if declined:
        return exchange.RuntimeRefusal(
            ErrorClass.CONTENT_FILTER, f"the model refused: {declined}", usage=usage
        )
    if not text.strip():
        return exchange.empty_answer("the endpoint", shortfall, usage)
    return exchange.RuntimeAnswer(
        text,
        model=exchange.text_at(document, "model") or None,
        usage=usage,
        shortfall=shortfall,
    )


def _usage(counts: Mapping[str, Any]) -> CallUsage:
    if "prompt_tokens" not in counts:
        return CallUsage()
    return CallUsage(
        tokens_in=exchange.count_at(counts, "prompt_tokens"),
        tokens_out=exchange.count_at(counts, "completion_tokens"),
    )


@base.runtime("openai")
class OpenAICompatibleRuntime(base.Runtime):
    model_family = "openai-compatible"
    id_prefix = "A"
    connections = (ChatEndpoint,)
    missing = base.NO_CONNECTION
    missing_halt = base.NO_CONNECTION
    install_hint = "set base_url (and model) of openai in .bridge-settings.json"
