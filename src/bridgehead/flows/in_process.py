"""Ask an invoker in this process, with the retries a handler outside would get (flows §6, §8)."""

from __future__ import annotations

from bridgehead.flows.agents import AgentInvocationError, AgentInvoker
from bridgehead.flows.asks import Ask
from bridgehead.flows.outcomes import Failed, Verdict
from bridgehead.flows.pausing import Stopped
from bridgehead.flows.settlement import RETRIED, Rules
from bridgehead.flows.words import ErrorType


def invoke(invoker: AgentInvoker, ask: Ask, rules: Rules) -> Verdict:
    """The verdict on the invoker's answer; Stopped when there is no such agent and that is not to be survived."""
    timeout = ask.timeout
    for tries_left in range(ask.rules(rules).max_retries, -1, -1):
        try:
            text = invoker.invoke(ask.agent, ask.full_prompt, timeout, context=dict(ask.context))
            return ask.verdict_on(text) if text else _empty()
        except AgentInvocationError as error:
            failure = Failed(error.error_type, str(error))
        if failure.reason not in RETRIED or not tries_left:
            break
        timeout = min(rules.contract.longest_timeout_seconds, 2 * timeout)
    if failure.reason == ErrorType.AGENT_NOT_FOUND.value and not rules.missing_agent_falls_back:
        raise Stopped(failure, ask.agent, ())
    return failure


def _empty() -> Failed:
    return Failed(ErrorType.VALIDATION_ERROR.value, "success without a response")
