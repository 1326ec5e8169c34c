"""Agents the assistant can ask: any Chat Completions endpoint, or fixed answers without
a model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bridgehead.errors import ProtocolError

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 120.0
MAX_ANSWER_TOKENS: Final = 400
ECHO: Final = "You said: {text}"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class ChatCompletionsAgent:
    """One stateless call for each question; nothing goes anywhere but to `base_url`."""

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._url = base_url.rstrip("/")
        self._model = model
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._timeout_s = max(timeout_s, TIMEOUT_S)
        self._client: httpx.AsyncClient | None = None

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        async with self._talking() as client:
            body = {
                "model": self._model or await self._first_model(client),
                "messages": turns(question),
                "max_tokens": MAX_ANSWER_TOKENS,
            }
            if question.heard is not None:
                return AgentAnswer(await self._streamed(client, body, question.heard))
            return AgentAnswer(
                _text(
                    await self._json(client, "POST", "/chat/completions", body),
                    "message",
                )
            )

    @asynccontextmanager
    async def _talking(self) -> AsyncIterator[httpx.AsyncClient]:
        """Yield the client; whatever goes wrong with it is a failure of the model."""
        import httpx

        if self._client is None:
            # Proxies of the user are for the outside; a server on this machine is
            # reached directly.
            local = urlsplit(self._url).hostname in _LOOPBACK
            self._client = httpx.AsyncClient(
                timeout=self._timeout_s, trust_env=not local, headers=self._headers
            )
        try:
            yield self._client
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise ModelFailed(self._url, str(error) or type(error).__name__) from error

    async def _streamed(
        self,
        client: httpx.AsyncClient,
        body: dict[str, Any],
        heard: Callable[[str], None],
    ) -> str:
        """Return the answer as it is made.

        An endpoint that does not stream sends it in one piece.
        """
        said: list[str] = []
        async with client.stream(
            "POST", f"{self._url}/chat/completions", json={**body, "stream": True}
        ) as reply:
            if reply.status_code != 200:
                raise ModelFailed(self._url, f"HTTP {reply.status_code}")
            if not reply.headers.get("content-type", "").startswith(
                "text/event-stream"
            ):
                return _text(json.loads(await reply.aread()), "message")
            async for line in reply.aiter_lines():
                field, _, value = line.partition(":")
                if field != "data" or value.strip() in ("", "[DONE]"):
                    continue
                event = json.loads(value)
                if isinstance(event, dict) and "error" in event:
                    raise ModelFailed(self._url, "it stopped with an error")
                said.append(_text(event, "delta"))
                heard(said[-1])
        return "".join(said)

    async def _first_model(self, client: httpx.AsyncClient) -> str:
        listed = (await self._json(client, "GET", "/models", None)).get("data")
        if (
            not isinstance(listed, list)
            or not listed
            or not isinstance(listed[0], dict)
        ):
            raise ModelFailed(
                self._url,
                "it lists no models; set model of openai in .bridge-settings.json",
            )
        self._model = str(listed[0].get("id"))
        return self._model

    async def _json(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        body: dict[str, Any] | None,
    ) -> dict[str, Any]:
        reply = await client.request(method, self._url + path, json=body)
        document = reply.json()
        if reply.status_code != 200 or not isinstance(document, dict):
            raise ModelFailed(self._url, f"HTTP {reply.status_code}")
        return document

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def turns(question: AgentQuestion) -> list[dict[str, str]]:
    """Return the conversation as a chat endpoint wants it: task, history, question."""
    messages = [{"role": "system", "content": question.task}]
    for asked, answered in question.earlier:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answered})
    messages.append({"role": "user", "content": question.text})
    return messages


def _text(document: Any, part: str) -> str:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else {}
    message = first.get(part) if isinstance(first, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


class ScriptedAgent:
    """Answers by looking the words up, whatever their case."""

    def __init__(
        self, answers: Mapping[str, str] | None = None, *, otherwise: str = ECHO
    ) -> None:
        self._answers = {
            said.casefold(): answer for said, answer in (answers or {}).items()
        }
        self._otherwise = otherwise
        self.asked: list[AgentQuestion] = []

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        self.asked.append(question)
        known = self._answers.get(question.text.strip().casefold())
        return AgentAnswer(
            self._otherwise.replace("{text}", question.text) if known is None else known
        )


class ModelFailed(ProtocolError):
    """The model endpoint did not answer as it should."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"the model at {url} failed: {cause}",
            hint="check it with `bridgehead doctor`",
        )
