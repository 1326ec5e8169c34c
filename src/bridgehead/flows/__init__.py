"""Run long programs that pause for an agent and continue when it has answered.

They continue in a new process.

Names are imported when first used, so that a pause loads only what it needs.
"""

from __future__ import annotations

from importlib import import_module
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

_HOME_OF = {
    "Accepted": "calls",
    "AgentInvocationError": "interfaces",
    "AgentInvoker": "interfaces",
    "AgentName": "words",
    "AgentRequest": "files.agent_files",
    "AgentResponse": "files.agent_files",
    "AskFailed": "calls",
    "AsyncContext": "engine.async_context",
    "CompletedPhase": "files.state_file",
    "Context": "engine.context",
    "ErrorType": "words",
    "Failed": "calls",
    "Flow": "definition",
    "MockAgentInvoker": "engine.agents",
    "Outcome": "calls",
    "Problem": "files.documents",
    "Profile": "words",
    "RequestStatus": "words",
    "ResponseMetadata": "files.agent_files",
    "RunInputs": "engine.run_request",
    "RunOptions": "engine.run_request",
    "RunRequest": "engine.run_request",
    "RunResult": "engine.run_request",
    "StepFailed": "calls",
    "TemplateCreateOrchestrator": "template_create",
    "TemplateCreateState": "files.state_file",
    "asking": "engine.context",
    "flow": "definition",
    "main": "script",
    "run_flow": "engine.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
