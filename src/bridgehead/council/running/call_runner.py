"""Takes one call to its runtime and returns what came of it, under the call's own limit (council §19)."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

import anyio
import anyio.to_thread

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import Call, CallFailed, Reply, Result
from bridgehead.council.reporting.seat_report import excerpt
from bridgehead.council.runtimes.base import (
    Connection,
    InProcess,
    Overseer,
)
from bridgehead.council.runtimes.call_errors import DETAIL_CHARACTERS, skip_reason
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    HttpReply,
    HttpRequest,
    NextStep,
    Received,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
)
from bridgehead.council.runtimes.machine import is_local
from bridgehead.host import process
from bridgehead.host.command import Cancel, Command, CommandResult

if TYPE_CHECKING:
    import httpx

MOST_STEPS: Final = 4
MOST_REPLY_BYTES: Final = 32 * 1024 * 1024
MOST_THREADS: Final = 256
LONG_OUTPUT: Final = 256 * 1024
BUSY: Final = (429, 503, 529)
SHORTEST_WAIT_SECONDS: Final = 0.5


def as_result(
    call: Call,
    outcome: CallOutcome,
    *,
    at: str,
    duration_seconds: float,
    mask: Callable[[str], str],
) -> Result:
    """The result of a call; what programs said about their failure is masked before it goes anywhere."""
    if not isinstance(outcome, RuntimeRefusal):
        return Reply(
            key=call.key,
            text=outcome.text,
            at=at,
            session=outcome.session,
            model=outcome.model,
            duration_seconds=duration_seconds,
            usage=outcome.usage,
            shortfall=outcome.shortfall,
        )
    usual = skip_reason(
        outcome.error_class, mask(outcome.message), call.timeout_seconds
    )
    return CallFailed(
        key=call.key,
        reason=outcome.reason or usual,
        error_class=outcome.error_class,
        at=at,
        detail=excerpt(mask(outcome.detail or outcome.message), DETAIL_CHARACTERS),
        duration_seconds=duration_seconds,
        usage=outcome.usage,
    )


T = TypeVar("T")

logger = logging.getLogger(__name__)


class CallRunner:
    """One for a whole council: threads and HTTP connections are shared by its calls."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(MOST_THREADS)
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_how: object) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def carry(
        self, connection: Connection, call: Call, ask: RuntimeRequest
    ) -> CallOutcome:
        """What came of the call; never raises for anything a runtime can do."""
        try:
            if isinstance(connection, InProcess):
                return await self._answered_here(connection, call)
            return await self._exchanged(connection, ask)
        except Exception as error:  # an adapter or agent from outside is a guest and must not end the council
            logger.warning("%s failed", connection.runtime_name, exc_info=True)
            return RuntimeRefusal(
                ErrorClass.OTHER, f"{connection.runtime_name} failed: {error}"
            )

    async def in_thread(self, work: Callable[[Cancel], T]) -> T:
        """Run blocking work in a thread; when the caller is cancelled, so is the token the work was given."""
        token = Cancel()
        async with _cancelling(token):
            return await anyio.to_thread.run_sync(work, token, limiter=self._threads)

    async def _exchanged(
        self, connection: Connection, ask: RuntimeRequest
    ) -> CallOutcome:
        """Request, reply, and the next request where an exchange has several steps.

        A program is given up when it is silent for the limit; what it says shows that it works. The seat's deadline
        ends one that never stops talking.
        """
        began = anyio.current_time()
        request = connection.ask(ask)
        for _ in range(MOST_STEPS):
            spent = anyio.current_time() - began
            if isinstance(request, Command):
                most = (
                    None
                    if ask.most_seconds is None
                    else max(ask.most_seconds - spent, 0)
                )
                run = partial(
                    _run, request, ask.timeout_seconds, most, connection.overseer()
                )
                received: Received = await self.in_thread(run)
            else:
                received = await self._posted_in_time(
                    request, began + ask.timeout_seconds
                )
            outcome = await self._read(connection, ask, received)
            if isinstance(outcome, RuntimeAnswer | RuntimeRefusal):
                return outcome
            request = outcome
        return RuntimeRefusal(
            ErrorClass.MALFORMED, f"{connection.runtime_name} never finished its answer"
        )

    async def _read(
        self, connection: Connection, ask: RuntimeRequest, received: Received
    ) -> NextStep:
        """What the adapter makes of it; a long output is read in a thread that is left behind when we stop."""
        output = received.text if isinstance(received, HttpReply) else received.stdout
        if len(output) <= LONG_OUTPUT:
            return connection.read(ask, received)
        read = partial(connection.read, ask, received)
        return await anyio.to_thread.run_sync(
            read, abandon_on_cancel=True, limiter=self._threads
        )

    async def _posted_in_time(self, request: HttpRequest, deadline: float) -> HttpReply:
        """Post, and post again when a busy server has named a time that can be waited for."""
        while True:
            left = max(deadline - anyio.current_time(), 0)
            reply = await self._posted(request, left)
            wait = reply.retry_after_seconds
            if reply.status not in BUSY or wait is None:
                return reply
            if anyio.current_time() + wait >= deadline:
                return reply
            await anyio.sleep(max(wait, SHORTEST_WAIT_SECONDS))

    async def _posted(self, request: HttpRequest, timeout_seconds: float) -> HttpReply:
        import httpx

        client = self._client(request.url)
        posting = client.stream(
            request.method,
            request.url,
            headers=dict(request.headers),
            json=request.body,
        )
        try:
            with anyio.move_on_after(timeout_seconds):
                async with posting as reply:
                    body = bytearray()
                    async for chunk in reply.aiter_bytes():
                        body += chunk
                        if len(body) > MOST_REPLY_BYTES:
                            return HttpReply(
                                0,
                                failure=(
                                    f"the reply is larger than {MOST_REPLY_BYTES} bytes"
                                ),
                            )
                    return HttpReply(
                        reply.status_code,
                        body.decode("utf-8", "replace"),
                        retry_after_seconds=retry_after(reply.headers),
                    )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return HttpReply(0, failure=str(error) or type(error).__name__)
        return HttpReply(0, failure="no answer in time", timed_out=True)

    def _client(self, url: str) -> httpx.AsyncClient:
        """One client for servers on this machine, one for the others."""
        import httpx

        local = is_local(url)
        if local not in self._clients:
            self._clients[local] = httpx.AsyncClient(timeout=None, trust_env=not local)
        return self._clients[local]

    async def _answered_here(self, connection: InProcess, call: Call) -> CallOutcome:
        latency = connection.latency_seconds(call)
        if latency > call.timeout_seconds:
            await anyio.sleep(call.timeout_seconds)
            return RuntimeRefusal(
                ErrorClass.TIMEOUT, f"{connection.runtime_name} did not answer in time"
            )
        await anyio.sleep(latency)
        return connection.answer(call)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait; None if it does not say so."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:  # no such header, or a date
        return None
    return seconds if 0 <= seconds < math.inf else None


def _run(
    command: Command,
    idle_seconds: float,
    timeout_seconds: float | None,
    overseer: Overseer | None,
    cancel: Cancel,
) -> CommandResult:
    """Run a program; an overseer that has seen enough stops it."""

    def watch(stream: process.Stream, chunk: bytes) -> None:
        if overseer is not None and stream == "stdout" and overseer(chunk):
            cancel.cancel()

    return process.run(
        command,
        timeout_seconds=timeout_seconds,
        idle_seconds=idle_seconds,
        cancel=cancel,
        on_output=watch,
    )


@asynccontextmanager
async def _cancelling(token: Cancel) -> AsyncIterator[None]:
    """Cancel the token as soon as the block is cancelled; a thread that is waited for would not notice by itself."""

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            token.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
