"""The seat of the agent that runs us: through a dispatcher in this process, or through requests it answers later.

With a dispatcher (council §4, K3) a prompt is answered at once. The host seat has none: every prompt becomes a flow
request, the command exits 42, and `council resume` folds the answers in. Neither opens a connection of its own.
"""

from __future__ import annotations

from typing import Self

from bridgehead.council.runtimes.base import NO_CONNECTION, Connection, Missing, NativeDispatcher, SeatSetup
from bridgehead.council.runtimes.exchange import CallOutcome, Received, Request, RuntimeRequest
from bridgehead.council.runtimes.machine import Machine


class _Spoken(Connection):
    """Prompts are handed over, not sent: running/conductor.py knows how."""

    kind = "native-dispatch"
    exchange_mode = "coordinator-mediated"

    def ask(self, ask: RuntimeRequest) -> Request:
        raise TypeError("a native seat is handed its prompts by dispatch")

    def read(self, ask: RuntimeRequest, received: Received) -> CallOutcome | Request:
        raise TypeError("a native seat is handed its prompts by dispatch")


class NativeDispatch(_Spoken):
    """An agent in this process answers at once."""

    runtime_name = "native dispatcher"

    def __init__(self, dispatcher: NativeDispatcher) -> None:
        self.dispatcher = dispatcher

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        if setup.native is None:
            return Missing(NO_CONNECTION, "no dispatcher was injected")
        return cls(setup.native)


class HostSeat(_Spoken):
    """The agent that started us answers its requests when it gets to them."""

    runtime_name = "host agent"

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        if not setup.host_seat:
            return Missing(NO_CONNECTION, "no host seat was asked for")
        return cls()
