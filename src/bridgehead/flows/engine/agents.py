"""Ask agents that answer in this process, and mock them in tests (flows §6, §8).

A failed call is retried just as it is with an external handler.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bridgehead.flows.calls import Failed, Verdict
from bridgehead.flows.engine.asks import Ask, Stopped
from bridgehead.flows.engine.settlement import RETRIED, Rules, stops_the_flow
from bridgehead.flows.interfaces import AgentInvocationError, AgentInvoker
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS, ErrorType


class MockAgentInvoker:
    """Gives canned answers by agent name and records every call."""

    def __init__(self, responses: dict[str, str] | None = None) -> None:
        """Take the answers by agent name; a dict that is not empty is not copied."""
        self.responses = responses or {}
        self.invocations: list[dict[str, Any]] = []
        self._sequences: dict[str, list[str | Exception]] = {}

    def add_response(self, agent_name: str, response: str) -> None:
        """Answer every call of `agent_name` with `response`."""
        self.responses[agent_name] = response

    def add_response_from_dict(
        self, agent_name: str, response_dict: dict[str, Any]
    ) -> None:
        """Answer every call of `agent_name` with a JSON document."""
        self.responses[agent_name] = json.dumps(response_dict)

    def add_sequence(self, agent_name: str, answers: Iterable[str | Exception]) -> None:
        """Answer the next calls of `agent_name` in this order.

        An exception is raised when its turn comes.
        """
        self._sequences.setdefault(agent_name, []).extend(answers)

    def add_error(self, agent_name: str, error_type: str, message: str) -> None:
        """Make the next call of `agent_name` fail with this error."""
        error = AgentInvocationError(message)
        error.error_type = error_type
        self.add_sequence(agent_name, [error])

    def invoke(
        self,
        agent_name: str,
        prompt: str,
        timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
        **kwargs: Any,
    ) -> str:
        """Return the next answer of `agent_name`.

        The call is recorded even if it fails.
        """
        self.invocations.append(
            {
                "agent_name": agent_name,
                "prompt": prompt,
                "timeout_seconds": timeout_seconds,
                "kwargs": kwargs,
            }
        )
        if sequence := self._sequences.get(agent_name):
            answer = sequence.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if agent_name in self.responses:
            return self.responses[agent_name]
        raise AgentInvocationError(
            f"No mock response configured for agent: {agent_name}"
        )

    def get_invocations(self, agent_name: str | None = None) -> list[dict[str, Any]]:
        """Return the recorded calls, of one agent if it is named."""
        if agent_name:
            return [
                call for call in self.invocations if call["agent_name"] == agent_name
            ]
        return self.invocations

    def reset(self) -> None:
        """Forget the recorded calls but keep the answers."""
        self.invocations = []

    def has_response(self) -> bool:
        """Return False: a mock never pauses, so no answer is waiting."""
        return False

    def load_response(self) -> str:
        raise AgentInvocationError("a mock invoker has no response file to load")


def invoke(invoker: AgentInvoker, ask: Ask, rules: Rules) -> Verdict:
    """Ask the invoker, with retries, and return the verdict on its answer.

    Raise Stopped if there is no such agent and the flow cannot continue without it.
    """
    timeout = ask.timeout
    for tries_left in range(ask.rules(rules).max_retries, -1, -1):
        try:
            text = invoker.invoke(
                ask.agent, ask.full_prompt, timeout, context=dict(ask.context)
            )
            if not text:
                return Failed(
                    ErrorType.VALIDATION_ERROR.value, "success without a response"
                )
            return ask.verdict_on(text)
        except AgentInvocationError as error:
            failure = Failed(error.error_type, str(error))
        if failure.reason not in RETRIED or not tries_left:
            break
        timeout = min(rules.contract.longest_timeout_seconds, 2 * timeout)
    if stops_the_flow(failure, rules):
        raise Stopped(failure, ask.agent, ())
    return failure
