"""Long work that pauses for an agent outside and goes on, in a new process, when it has answered."""

from bridgehead.flows.agents import AgentInvocationError, AgentInvoker, MockAgentInvoker
from bridgehead.flows.context import Context, asking
from bridgehead.flows.engine import run_flow
from bridgehead.flows.flow import Flow, flow
from bridgehead.flows.outcomes import Accepted, AskFailed, Failed, Outcome, StepFailed
from bridgehead.flows.request import AgentRequest
from bridgehead.flows.requests import RunOptions, RunRequest, RunResult
from bridgehead.flows.response import AgentResponse, ResponseMetadata
from bridgehead.flows.schema_check import Problem
from bridgehead.flows.state import CompletedPhase, TemplateCreateState
from bridgehead.flows.surroundings import Surroundings
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
    "TemplateCreateState",
    "asking",
    "flow",
    "run_flow",
]
