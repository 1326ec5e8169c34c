"""The tools `rig_…`: envelopes from and to agents on other machines."""

from __future__ import annotations

from msgspec.structs import replace

from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.inbox import FencedEnvelope, envelopes_for_agent
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.mcp_server.tools import schemas
from bridgehead.mcp_server.tools.call import Caller, ForeignText, ToolReply
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.operations.init import NewRequest, new
from bridgehead.rigs.operations.send import SendRequest
from bridgehead.rigs.operations.send import send as send_envelope
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.operations.watch import LEAST_FETCH_INTERVAL, WaitRequest, wait

ANSWER_WITH = "the tool `answer`, id {}"
HOW_TO_ANSWER = (
    "Answer an envelope with the tool `answer` and its id, or start a turn with "
    "`rig_send`."
)


def inbox(
    caller: Caller, wanted: schemas.RigInboxArguments, before: str = ""
) -> ToolReply:
    """Return what waits for the rig of this clone and what was delivered to it, fenced,
    after a sentence of ours.
    """
    waiting = envelopes_for_agent(
        make_rig(str(caller.assembly.cwd), caller.warn), most=wanted.limit
    )
    foreign = caller.foreign
    result = schemas.RigInboxResult(
        note=f"{waiting.preamble} {foreign.note}",
        rig=str(waiting.rig_id),
        envelopes=[_entry(one, foreign) for one in waiting.envelopes],
        delivered=[_entry(one, foreign) for one in waiting.delivered],
        owed=list(waiting.owed),
        left_out=waiting.left_out,
        next=before + (HOW_TO_ANSWER if waiting.envelopes else ""),
    )
    return _reply(caller, result, before + waiting.prompt(ANSWER_WITH))


def _reply(caller: Caller, result: schemas.Result, text: str) -> ToolReply:
    """Return a reply with what was told meanwhile."""
    notes = "\n".join(caller.notes())
    return ToolReply(
        replace(result, note=result.note or notes), f"{text}\n{notes}".rstrip()
    )


def _entry(fenced: FencedEnvelope, foreign: ForeignText) -> schemas.InboxEntry:
    turn = fenced.notice.turn
    return schemas.InboxEntry(
        id=fenced.id,
        thread=foreign.line(turn.thread_id),
        type=foreign.line(turn.type),
        sender=foreign.line(str(turn.sender)),
        commit=turn.commit_sha,
        verification=fenced.notice.verification.state.value,
        due=foreign.line(fenced.debt.due or "") or None if fenced.debt else None,
        text=fenced.text,
    )


def send(caller: Caller, wanted: schemas.RigSendArguments) -> ToolReply:
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
        refuse_typos=not wanted.new_recipients,
    )
    rig = make_rig(str(caller.assembly.cwd), caller.warn, CouncilReviews)
    rig.once_answered = caller.once_answered
    sent = send_envelope(rig, request)
    result = schemas.RigSendResult(
        type=sent.type,
        thread=sent.thread_id,
        file=sent.file_path,
        commit=sent.commit_sha,
        pushed=sent.pushed,
        to=[str(one) for one in sent.to],
    )
    return _reply(caller, result, sent.line())


def open_thread(caller: Caller, wanted: schemas.RigOpenArguments) -> ToolReply:
    """Return a directory with a draft that nobody sees.

    The first `rig_send` of a REQUEST takes its place.
    """
    opened = new(
        make_rig(str(caller.assembly.cwd), caller.warn), NewRequest(wanted.thread)
    )
    following = "It is not visible to others yet: send a REQUEST with `rig_send`."
    result = schemas.RigOpenResult(thread=opened.thread_id, next=following)
    return _reply(caller, result, f"{opened.line()}\n{following}")


def sync_clone(caller: Caller, _wanted: schemas.Arguments) -> ToolReply:
    """Return what `sync --auto` does, with the same gate."""
    found = sync(
        make_rig(str(caller.assembly.cwd), caller.warn, CouncilReviews),
        SyncRequest(auto=True),
    )
    new_envelopes = (
        len(found.report.new_envelopes) - len(found.quarantined) if found.moved else 0
    )
    refused = caller.foreign.line(str(found.refusal)) if found.refusal else None
    result = schemas.RigSyncResult(
        pulled=found.moved, new_envelopes=new_envelopes, refused=refused
    )
    return _reply(caller, result, caller.foreign.line(found.line()))


def wait_for_envelope(caller: Caller, wanted: schemas.RigWaitArguments) -> ToolReply:
    """In short turns, so that a client that gives up is not waited for."""
    rig = make_rig(str(caller.assembly.cwd), caller.warn, CouncilReviews)
    thread = parse_thread_id(wanted.thread) if wanted.thread else None
    deadline = rig.now_ms() + wanted.seconds * 1000
    while not caller.cancel.cancelled and (left := deadline - rig.now_ms()) > 0:
        turn = WaitRequest(
            thread, timeout_seconds=min(LEAST_FETCH_INTERVAL, left / 1000)
        )
        if wait(rig, turn).arrived:
            return inbox(caller, schemas.RigInboxArguments())
    return inbox(
        caller,
        schemas.RigInboxArguments(),
        "The time is up, and what was waited for has not arrived. ",
    )
