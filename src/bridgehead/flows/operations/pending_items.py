"""Translate between flows and the shared contract types.

Requests become pending questions, and answers to those become replies; what happens in
a run becomes an event. Only assembly imports this module, because importing the
contract's types takes longer than a pause may.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridgehead.contract.events import Event
from bridgehead.contract.pending import Answer, Question
from bridgehead.contract.record_words import AnswerStatus, Part, PendingKind
from bridgehead.flows.interfaces import FlowEvent, OpenRequest
from bridgehead.flows.words import (
    ANSWER_SCHEMA,
    CONTRACT_VERSION,
    EXPIRES_AT,
    ErrorType,
    RequestStatus,
)
from bridgehead.host.clock import iso_ms, parse_iso

if TYPE_CHECKING:
    from bridgehead.flows.operations.respond import RespondRequest


TITLE_LENGTH: Final = 80
SHOWN_ELSEWHERE: Final = frozenset({ANSWER_SCHEMA, EXPIRES_AT, "prompt_sha256"})
FENCE_STARTS: Final = (
    "Text between the two lines that carry the marker ",
    "<<< begin foreign text ",
)
"""How fenced prompts begin; see contract/fencing.py, which is slow to import."""


def question_of(opened: OpenRequest) -> Question:
    """Return the pending question for a request; the request id is its key."""
    request = opened.request
    context = request.get("context", {})
    shown = {
        name: value for name, value in context.items() if name not in SHOWN_ELSEWHERE
    }
    deadline = {"deadline": opened.deadline} if opened.deadline else {}
    return Question(
        key=str(request["request_id"]),
        kind=PendingKind.FLOW_REQUEST,
        part=Part.FLOWS,
        origin="flow",
        title=title_of(opened.name, request),
        prompt=str(request["prompt"]),
        project=opened.root,
        run_id=opened.flow_id or None,
        schema=context.get(ANSWER_SCHEMA),
        # Not the deadline: it ends a handler's attempt, but late answers are accepted
        # (flows §6).
        expires_at=context.get(EXPIRES_AT),
        context={
            "root": opened.root,
            "request_id": str(request["request_id"]),
            "agent": str(request["agent_name"]),
            **deadline,
            "about": shown,
        },
    )


def title_of(flow_name: str, request: Mapping[str, Any]) -> str:
    """Return the question in one line: `release: Write release notes for v1.4.`"""
    prompt = str(request["prompt"])
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    if request.get("version") == CONTRACT_VERSION or first.startswith(FENCE_STARTS):
        # Such prompts begin with instructions or quoted text; the phase says more.
        phase = str(request["phase_name"]).replace("_", " ")
        first = f"{phase}, by {request['agent_name']}"
    if len(first) > TITLE_LENGTH:
        first = f"{first[: TITLE_LENGTH - 1].rstrip()}…"
    return f"{flow_name}: {first}"


def event_of(happened: FlowEvent) -> Event:
    return Event(
        id=happened.id,
        kind=happened.kind,
        part=Part.FLOWS,
        at=iso_ms(parse_iso(happened.at)),
        project=happened.run.root,
        run_id=happened.run.id,
        data={"name": happened.run.name, **happened.data},
    )


def response_to(question: Question, answer: Answer) -> RespondRequest:
    """Return the request to `respond` for the answer to a pending question."""
    from bridgehead.flows.calls import Reply
    from bridgehead.flows.operations.respond import RespondRequest

    failed = answer.status is AnswerStatus.ERROR
    reply = Reply(
        status=RequestStatus(answer.status.value),
        text=answer.text,
        message=answer.message,
        error_type=ErrorType.UNKNOWN.value if failed else None,
    )
    return RespondRequest(
        Path(question.context["root"]), reply, question.context["request_id"]
    )
