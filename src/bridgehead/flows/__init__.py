"""Long work that pauses for an agent outside and goes on, in a new process, when it has answered.

Names are imported when they are first used: a pause must not pay for what it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridgehead.flows.agents import AgentInvocationError, AgentInvoker, MockAgentInvoker
    from bridgehead.flows.context import Context, asking
    from bridgehead.flows.definition import Flow, flow
    from bridgehead.flows.engine import run_flow
    from bridgehead.flows.outcomes import Accepted, AskFailed, Failed, Outcome, StepFailed
    from bridgehead.flows.request import AgentRequest
    from bridgehead.flows.requests import RunOptions, RunRequest, RunResult
    from bridgehead.flows.response import AgentResponse, ResponseMetadata
    from bridgehead.flows.schema_check import Problem
    from bridgehead.flows.script import main
    from bridgehead.flows.state import CompletedPhase, TemplateCreateState
    from bridgehead.flows.surroundings import Surroundings
    from bridgehead.flows.template_create import TemplateCreateOrchestrator
    from bridgehead.flows.words import AgentName, ErrorType, Profile, RequestStatus

__all__ = [
    "Accepted",
    "AgentInvocationError",
    "AgentInvoker",
    "AgentName",
    "AgentRequest",
    "AgentResponse",
    "AskFailed",
    "CompletedPhase",
    "Context",
    "ErrorType",
    "Failed",
    "Flow",
    "MockAgentInvoker",
    "Outcome",
    "Problem",
    "Profile",
    "RequestStatus",
    "ResponseMetadata",
    "RunOptions",
    "RunRequest",
    "RunResult",
    "StepFailed",
    "Surroundings",
    "TemplateCreateOrchestrator",
    "TemplateCreateState",
    "asking",
    "flow",
    "main",
    "run_flow",
]

_HOMES = {
    "agents": ("AgentInvocationError", "AgentInvoker", "MockAgentInvoker"),
    "context": ("Context", "asking"),
    "definition": ("Flow", "flow"),
    "engine": ("run_flow",),
    "outcomes": ("Accepted", "AskFailed", "Failed", "Outcome", "StepFailed"),
    "request": ("AgentRequest",),
    "requests": ("RunOptions", "RunRequest", "RunResult"),
    "response": ("AgentResponse", "ResponseMetadata"),
    "schema_check": ("Problem",),
    "script": ("main",),
    "state": ("CompletedPhase", "TemplateCreateState"),
    "surroundings": ("Surroundings",),
    "template_create": ("TemplateCreateOrchestrator",),
    "words": ("AgentName", "ErrorType", "Profile", "RequestStatus"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_imported(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def _imported(module: str) -> Any:
    """Import without collecting garbage meanwhile: there is none yet, and looking for it costs a pause 4 ms."""
    import gc
    from importlib import import_module

    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collecting:
            gc.enable()
