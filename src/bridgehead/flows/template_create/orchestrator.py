"""template-create for Python programs, with an invoker that answers in process (flows §8)."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

from bridgehead.flows.agents import AgentInvoker
from bridgehead.flows.engine import run_flow
from bridgehead.flows.requests import RunOptions, RunRequest, RunResult
from bridgehead.flows.surroundings import Surroundings
from bridgehead.flows.template_create.choices import read_words
from bridgehead.flows.template_create.workflow import template_create


class TemplateCreateOrchestrator:
    """Runs the flow. With an invoker it never pauses; without one it does, and `resume` goes on."""

    def __init__(
        self, agent_invoker: AgentInvoker | None = None, surroundings: Surroundings | None = None
    ) -> None:
        self._surroundings = copy(surroundings) if surroundings else Surroundings()
        if agent_invoker is not None:
            self._surroundings.invoker = agent_invoker

    def run(
        self, project: Path, *words: str, resume: bool = False, heuristics_only: bool = False
    ) -> RunResult:
        """Make a template of `project`; `words` are the options of the command line, such as `--output`."""
        given, defaults = read_words(words, project)
        options = RunOptions(heuristics_only=heuristics_only or None)
        request: dict[str, Any] = {"given": given, "defaults": defaults, "options": options, "resume": resume}
        return run_flow(
            template_create, RunRequest(root=project, source="template-create", **request), self._surroundings
        )
