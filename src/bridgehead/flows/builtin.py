"""Flows that come with bridgehead besides template-create."""

from __future__ import annotations

from bridgehead.flows.context import Context
from bridgehead.flows.definition import flow
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS


@flow("ask", version="1")
def ask(ctx: Context, agent: str, prompt: str, timeout: int = DEFAULT_TIMEOUT_SECONDS) -> str:
    """One question for scripts in any language: pauses with 42, and the resumed run prints the answer."""
    answer: str = ctx.ask("ask", agent=agent, prompt=prompt, timeout=timeout)
    return answer
