"""The tool `flow_respond`: the answer to a request that a paused flow of this project wrote."""

from __future__ import annotations

import os

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import RecordingAnnouncer, size_limits
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.pending import Answer, PendingItem, Question, refusal
from bridgehead.contract.record_words import Part, PendingKind
from bridgehead.control_plane.records import QuestionKey
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import NotFound, UserError
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.operations.pending_items import response_to
from bridgehead.flows.operations.respond import respond as respond_to_flow
from bridgehead.mcp_server.tools.call import Caller, ToolReply
from bridgehead.mcp_server.tools.pending import answer_of, how_to_go_on
from bridgehead.mcp_server.tools.schemas import FlowRespondArguments, FlowRespondResult

RESUME = "Run the flow again with --resume."


def respond(caller: Caller, wanted: FlowRespondArguments) -> ToolReply:
    """Through the one list of what waits; a program that told nobody what it asks is answered in its directory."""
    answer = answer_of(caller, wanted)
    with caller.assembly.store() as store:
        item = _recorded(caller, store, wanted.request_id)
        if item is not None:
            answered = pending_list(caller.assembly, store, caller.warn).answer(item.id, answer)
            return _reply(wanted.request_id, how_to_go_on(answered) or RESUME)
    _answer_unrecorded(caller, wanted.request_id, answer)
    return _reply(wanted.request_id, RESUME)


def _recorded(caller: Caller, store: Store, request_id: str) -> PendingItem | None:
    for root in dict.fromkeys([caller.assembly.cwd, caller.assembly.places.project]):
        try:
            return store.pending_item(
                QuestionKey(part=Part.FLOWS, key=request_id.lower(), project=os.path.realpath(root))
            )
        except NotFound:
            continue
    return None


def _answer_unrecorded(caller: Caller, request_id: str, answer: Answer) -> None:
    root = caller.assembly.cwd
    question = Question(
        key=request_id,
        kind=PendingKind.FLOW_REQUEST,
        part=Part.FLOWS,
        origin="flow",
        title=request_id,
        context={"root": str(root), "request_id": request_id},
    )
    if reason := refusal(question, answer):
        raise UserError(f"{request_id} was not answered: {reason}")
    announcer = RecordingAnnouncer(root, caller.warn)
    around = RunInputs(announcer=announcer, size_limits=size_limits(Assembly(root).settings))
    respond_to_flow(response_to(question, answer), around)


def _reply(request_id: str, advice: str) -> ToolReply:
    return ToolReply(FlowRespondResult(request_id=request_id, next=advice), f"{request_id} answered\n{advice}")
