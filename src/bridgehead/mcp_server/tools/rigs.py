"""The tools `rig_inbox` and `rig_send`: envelopes from and to agents on other machines."""

from __future__ import annotations

from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.inbox import FencedEnvelope, envelopes_for_agent
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.mcp_server.tools.call import Caller, ToolReply
from bridgehead.mcp_server.tools.schemas import (
    InboxEntry,
    RigInboxArguments,
    RigInboxResult,
    RigSendArguments,
    RigSendResult,
)
from bridgehead.rigs.operations.send import SendRequest
from bridgehead.rigs.operations.send import send as send_envelope

HOW_TO_ANSWER = "Answer an envelope with the tool `answer` and its id, or start a turn with `rig_send`."


def inbox(caller: Caller, wanted: RigInboxArguments) -> ToolReply:
    """What waits for the rig of this clone and what was delivered to it, fenced."""
    waiting = envelopes_for_agent(make_rig(str(caller.assembly.cwd), caller.warn), most=wanted.limit)
    result = RigInboxResult(
        note=waiting.preamble,
        rig=str(waiting.rig_id),
        envelopes=list(map(_entry, waiting.envelopes)),
        delivered=list(map(_entry, waiting.delivered)),
        left_out=waiting.left_out,
        next=HOW_TO_ANSWER if waiting.envelopes else "",
    )
    return ToolReply(result, waiting.prompt())


def _entry(fenced: FencedEnvelope) -> InboxEntry:
    turn = fenced.notice.turn
    return InboxEntry(
        id=fenced.id,
        thread=turn.thread_id,
        type=turn.type,
        sender=str(turn.sender),
        commit=turn.commit_sha,
        verification=fenced.notice.verification.state.value,
        due=fenced.debt.due or None if fenced.debt else None,
        text=fenced.text,
    )


def send(caller: Caller, wanted: RigSendArguments) -> ToolReply:
    """One envelope; nothing is written before all checks pass (rigs §8)."""
    request = SendRequest(
        wanted.type,
        wanted.thread,
        tuple(wanted.to),
        status=wanted.status,
        tldr=wanted.tldr,
        body=lambda: wanted.body,
        references=tuple(wanted.references),
        by=wanted.by,
        push=wanted.push,
    )
    sent = send_envelope(make_rig(str(caller.assembly.cwd), caller.warn, CouncilReviews), request)
    result = RigSendResult(
        type=sent.type,
        thread=sent.thread_id,
        file=sent.file_path,
        commit=sent.commit_sha,
        pushed=sent.pushed,
        to=[str(one) for one in sent.to],
    )
    return ToolReply(result, sent.line())
