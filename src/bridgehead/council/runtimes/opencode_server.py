"""OpenCode as a server on this machine that the user started and named by OPENCODE_PORT. Runtimes §6."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.runtimes.base import (
    NO_CONNECTION,
    NOT_AUTHENTICATED,
    Barred,
    Connection,
    Missing,
    SeatSetup,
)
from bridgehead.council.runtimes.exchange import (
    NOTHING_REPORTED,
    Answered,
    Ask,
    HttpReply,
    HttpRequest,
    Outcome,
    Received,
    Refused,
    Request,
)
from bridgehead.council.runtimes.http_replies import read_http
from bridgehead.council.runtimes.json_lines import mapping_at, object_from, text_at
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.opencode_events import read_error, usage_of
from bridgehead.council.runtimes.opencode_permissions import (
    HOSTED_PROVIDER,
    LOGIN_HINT,
    MAY_EDIT,
    NO_PROVIDER,
    READ_ONLY,
)


class OpencodeServer(Connection):
    """One session per role; a server that nobody named is never used."""

    kind = "http-api"
    runtime_name = "opencode"
    exchange_mode = "session-continuity"
    keeps_history = True

    def __init__(self, url: str, password: str | None, health: HttpReply) -> None:
        self._url = url
        self._headers = _basic_auth(password) if password else {}
        self._health = health
        self._listing: HttpReply | None = None
        self.version = text_at(object_from(health.text) or {}, "version") or None

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        port = setup.environment.get("OPENCODE_PORT", "")
        if not (port.isdecimal() and 0 < int(port) < 65536):
            return Missing(NO_CONNECTION, "OPENCODE_PORT names no port")
        url = f"http://127.0.0.1:{int(port)}"
        password = setup.environment.get("OPENCODE_SERVER_PASSWORD")
        health = machine.get(f"{url}/global/health", _basic_auth(password) if password else {})
        if health.status not in (200, 401):
            return Missing(NO_CONNECTION, f"{url}/global/health: {health.failure or health.status}")
        return cls(url, password, health)

    def barrier(self, machine: Machine) -> Barred | None:
        if self._health.status == 401:
            hint = "set OPENCODE_SERVER_PASSWORD to the password of the running opencode server"
            return Barred(Status.HALTED, NOT_AUTHENTICATED, hint)
        if self.models(machine):
            return None
        listing = self._list_providers(machine)
        if listing.status != 200:
            problem = listing.failure or f"HTTP {listing.status}"
            return Barred(Status.SKIPPED, f"cli_error: {self._url}/config/providers: {problem}")
        return Barred(Status.HALTED, NO_PROVIDER, LOGIN_HINT)

    def models(self, machine: Machine) -> list[str] | None:
        providers = (object_from(self._list_providers(machine).text) or {}).get("providers")
        if not isinstance(providers, list):
            return None
        found = [
            f"{provider.get('id')}/{model}"
            for provider in providers
            if isinstance(provider, dict) and provider.get("id") != HOSTED_PROVIDER
            for model in mapping_at(provider, "models")
        ]
        return found or None

    def _list_providers(self, machine: Machine) -> HttpReply:
        """Asked once: it takes seconds, and three steps of pre-flight look at it."""
        if self._listing is None:
            self._listing = machine.get(f"{self._url}/config/providers", self._headers, slow=True)
        return self._listing

    def default_model(self, machine: Machine) -> str | None:
        return next(iter(self.models(machine) or []), None)

    def ask(self, ask: Ask) -> Request:
        if ask.session:
            return self._message(ask, ask.session)
        body = {
            "title": ask.title,
            "agent": "build" if ask.may_write else "plan",
            "permission": _rules(MAY_EDIT if ask.may_write else READ_ONLY),
        }
        return self._post(f"/session?directory={quote(str(ask.workspace), safe='')}", body)

    def read(self, ask: Ask, received: Received) -> Outcome | Request:
        return read_http("the opencode server", received, lambda found, reply: self._read(ask, found, reply))

    def _read(self, ask: Ask, document: Mapping[str, Any], reply: HttpReply) -> Outcome | Request:
        if reply.status != 200:
            return _refusal(document, reply.status)
        created = text_at(document, "id")
        if created and "parts" not in document:
            return self._message(ask, created)
        return read_message(document)

    def _message(self, ask: Ask, session: str) -> HttpRequest:
        body: dict[str, Any] = {
            "parts": [{"type": "text", "text": ask.prompt}],
            "agent": "build" if ask.may_write else "plan",
        }
        if ask.model:
            # An unknown model would stay the session's model, so every message names its own (runtimes §6).
            provider, _, model = ask.model.partition("/")
            body["model"] = {"providerID": provider, "modelID": model}
        return self._post(f"/session/{quote(session, safe='')}/message", body)

    def _post(self, path: str, body: dict[str, Any]) -> HttpRequest:
        return HttpRequest("POST", f"{self._url}{path}", self._headers, body)


def read_message(document: Mapping[str, Any]) -> Outcome:
    info = mapping_at(document, "info")
    usage = usage_of(info)
    if error := mapping_at(info, "error"):
        return read_error(error, "", usage)
    parts = document.get("parts")
    entries = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    text = "".join(text_at(part, "text") for part in entries if part.get("type") == "text")
    if not text.strip():
        return Refused(ErrorClass.EMPTY, "the opencode server gave an empty answer", usage=usage)
    model = f"{text_at(info, 'providerID')}/{text_at(info, 'modelID')}".strip("/") or None
    return Answered(text, text_at(info, "sessionID") or None, model, usage)


def _refusal(document: Mapping[str, Any], status: int) -> Refused:
    if status == 404:
        message = text_at(mapping_at(document, "data"), "message") or "session not found"
        return Refused(ErrorClass.UNKNOWN_SESSION, message)
    if status == 401:
        return Refused(ErrorClass.AUTH, "the opencode server wants a password")
    if status == 400:
        return Refused(ErrorClass.BAD_USAGE, text_at(mapping_at(document, "data"), "message"))
    return read_error(document, "", NOTHING_REPORTED)


def _rules(permissions: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"permission": name, "pattern": "*", "action": action} for name, action in permissions.items()]


def _basic_auth(password: str) -> dict[str, str]:
    token = base64.b64encode(f"opencode:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}
