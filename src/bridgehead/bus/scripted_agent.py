"""An agent without a model: fixed answers, and an echo for everything else. For tests, demos and first steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion

ECHO: Final = "You said: {text}"


class ScriptedAgent:
    """Answers by looking the words up, whatever their case."""

    def __init__(self, answers: Mapping[str, str] | None = None, *, otherwise: str = ECHO) -> None:
        self._answers = {said.casefold(): answer for said, answer in (answers or {}).items()}
        self._otherwise = otherwise
        self.asked: list[AgentQuestion] = []

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        self.asked.append(question)
        known = self._answers.get(question.text.strip().casefold())
        return AgentAnswer(self._otherwise.replace("{text}", question.text) if known is None else known)
