"""Long work that pauses for an agent outside and goes on, in a new process, when it has answered.

Names are imported when they are first used: a pause must not pay for what it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridgehead.flows.calls import Accepted, AskFailed, Failed, Outcome, StepFailed
    from bridgehead.flows.definition import Flow, flow
    from bridgehead.flows.engine.agents import MockAgentInvoker
    from bridgehead.flows.engine.async_context import AsyncContext
    from bridgehead.flows.engine.context import Context, asking
    from bridgehead.flows.engine.engine import run_flow
    from bridgehead.flows.engine.run_request import (
        RunInputs,
        RunOptions,
        RunRequest,
        RunResult,
    )
    from bridgehead.flows.files.agent_files import (
        AgentRequest,
        AgentResponse,
        ResponseMetadata,
    )
    from bridgehead.flows.files.documents import Problem
    from bridgehead.flows.files.state_file import CompletedPhase, TemplateCreateState
    from bridgehead.flows.interfaces import AgentInvocationError, AgentInvoker
    from bridgehead.flows.script import main
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
    "AsyncContext",
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
    "RunInputs",
    "RunOptions",
    "RunRequest",
    "RunResult",
    "StepFailed",
    "TemplateCreateOrchestrator",
    "TemplateCreateState",
    "asking",
    "flow",
    "main",
    "run_flow",
]

_HOMES = {
    "interfaces": ("AgentInvocationError", "AgentInvoker"),
    "engine.agents": ("MockAgentInvoker",),
    "engine.async_context": ("AsyncContext",),
    "engine.context": ("Context", "asking"),
    "definition": ("Flow", "flow"),
    "engine.engine": ("run_flow",),
    "calls": ("Accepted", "AskFailed", "Failed", "Outcome", "StepFailed"),
    "files.agent_files": ("AgentRequest", "AgentResponse", "ResponseMetadata"),
    "engine.run_request": ("RunInputs", "RunOptions", "RunRequest", "RunResult"),
    "files.documents": ("Problem",),
    "script": ("main",),
    "files.state_file": ("CompletedPhase", "TemplateCreateState"),
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
