"""The tools `pending` and `answer`: what waits for someone, as text and data, and answering it once."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import RecordingAnnouncer, size_limits
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.pending import Answer, PendingItem, Question, refusal
from bridgehead.contract.record_words import AnswerStatus, Part, PendingKind, PendingState
from bridgehead.contract.words import Trust
from bridgehead.control_plane.records import PendingFilter, QuestionKey
from bridgehead.errors import NotFound, UserError
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.operations.pending_items import response_to
from bridgehead.flows.operations.respond import respond as respond_to_flow
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.mcp_server.tools.call import Caller, ForeignText, ToolReply
from bridgehead.mcp_server.tools.schemas import (
    AnswerArguments,
    AnswerResult,
    PendingArguments,
    PendingEntry,
    PendingResult,
)

REQUEST_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def pending(caller: Caller, wanted: PendingArguments) -> ToolReply:
    """What is open, or one item with its prompt."""
    foreign = ForeignText()
    with caller.assembly.store(read_only=True) as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        if wanted.id is not None:
            item = waiting.find(wanted.id)
            entry, advice = entry_of(item, foreign, with_prompt=True), how_to_answer(item)
            schema = f"The answer is JSON that obeys this schema:\n{entry.schema}" if entry.schema else ""
            text = "\n\n".join(filter(None, [line_of(entry), advice, foreign.note, entry.prompt, schema]))
            return ToolReply(PendingResult(note=foreign.note, items=[entry], next=advice), text)
        project = None if wanted.everywhere else caller.assembly.project
        items = waiting.items(PendingFilter(project=project), limit=wanted.limit)
    entries = [entry_of(item, foreign) for item in items]
    advice = "The tool `pending` with an id shows an item's whole prompt." if entries else ""
    text = "\n".join([*map(line_of, entries), advice]) if entries else "Nothing is waiting."
    return ToolReply(PendingResult(items=entries, next=advice), text)


def answer(caller: Caller, wanted: AnswerArguments) -> ToolReply:
    """Answer once; whoever comes second is told who was first."""
    given = Answer(
        status=AnswerStatus(wanted.status),
        text=wanted.text,
        message=wanted.message,
        by=f"{caller.client.name} (MCP)",
        at=iso_ms(SystemClock().now()),
    )
    if REQUEST_ID.fullmatch(wanted.id):
        return answer_request(caller, wanted.id.lower(), given)
    with caller.assembly.store() as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        if waiting.find(wanted.id).question.kind is PendingKind.BUS_APPROVAL:
            raise UserError(
                f"{wanted.id} asks a person for an approval; agents may not give it",
                hint=f"a person runs: bridgehead answer {wanted.id} yes|no",
            )
        item = waiting.answer(wanted.id, given)
    return _answered(item.id, item.state.value, item.question.title, how_to_go_on(item))


def answer_request(caller: Caller, request_id: str, given: Answer) -> ToolReply:
    """A flow's request by its own id; a program that told nobody what it asks is answered in its directory."""
    with caller.assembly.store() as store:
        for root in dict.fromkeys([caller.assembly.cwd, caller.assembly.places.project]):
            key = QuestionKey(part=Part.FLOWS, key=request_id, project=os.path.realpath(root))
            with suppress(NotFound):
                item = pending_list(caller.assembly, store, caller.warn).answer(store.pending_item(key).id, given)
                return _answered(request_id, item.state.value, item.question.title, how_to_go_on(item))
    root = caller.assembly.cwd
    question = Question(
        key=request_id,
        kind=PendingKind.FLOW_REQUEST,
        part=Part.FLOWS,
        origin="flow",
        title=request_id,
        context={"root": str(root), "request_id": request_id},
    )
    if reason := refusal(question, given):
        raise UserError(f"{request_id} was not answered: {reason}")
    around = RunInputs(
        announcer=RecordingAnnouncer(root, caller.warn), size_limits=size_limits(Assembly(root).settings)
    )
    respond_to_flow(response_to(question, given), around)
    return _answered(request_id, PendingState.ANSWERED.value, request_id, "Run the flow again with --resume.")


def _answered(item_id: str, state: str, title: str, following: str) -> ToolReply:
    result = AnswerResult(id=item_id, state=state, title=ForeignText().line(title), next=following)
    return ToolReply(result, f"{result.id} answered: {result.title}\n{result.next}".rstrip())


def entry_of(item: PendingItem, foreign: ForeignText, *, with_prompt: bool = False) -> PendingEntry:
    """One item as data; its prompt is foreign text, whoever wrote it."""
    question = item.question
    origin = f"{question.origin}, {item.id}"
    prompt = foreign.block(question.prompt, origin=origin, trust=Trust.UNVERIFIED)
    schema = ""
    if with_prompt and question.schema is not None:
        spelled = msgspec.json.format(msgspec.json.encode(question.schema), indent=2).decode()
        schema = foreign.block(spelled, origin=f"{origin}, answer schema", trust=Trust.UNVERIFIED)
    return PendingEntry(
        id=item.id,
        kind=question.kind.value,
        state=item.state.value,
        origin=foreign.line(question.origin),
        title=foreign.line(question.title),
        since=item.opened_at,
        project=question.project,
        choices=[foreign.line(choice) for choice in question.offers],
        advice=foreign.line(question.advice) if question.advice else None,
        expires_at=question.expires_at,
        prompt=prompt if with_prompt and question.prompt else "",
        schema=schema,
    )


def line_of(entry: PendingEntry) -> str:
    choices = f"  [{' | '.join(entry.choices)}]" if entry.choices else ""
    advice = f"  first: {entry.advice}" if entry.advice else ""
    return f"{entry.id}  {entry.origin}: {entry.title}  (since {entry.since}){choices}{advice}"


def how_to_answer(item: PendingItem) -> str:
    """What the agent can do about an item."""
    if item.state is not PendingState.OPEN:
        return f"{item.id} is {item.state.value} already."
    if item.question.kind is PendingKind.BUS_APPROVAL:
        return f"This is for a person: bridgehead answer {item.id} yes|no"
    choices = item.question.offers
    text = " or ".join(repr(choice) for choice in choices) if choices else "your whole answer"
    return f'Answer with the tool `answer`: {{"id": "{item.id}", "text": …}}; the text is {text}.'


def how_to_go_on(item: PendingItem) -> str:
    """What has to be done after the answer; a flow goes on by itself only where `flow watch` or the dashboard runs."""
    question, run_id = item.question, item.question.run_id or ""
    if question.kind is PendingKind.FLOW_REQUEST and run_id.startswith("council-"):
        review_id = run_id.removeprefix("council-")
        return f'Go on with the council: tool `council` with {{"resume": "{review_id}"}}.'
    if question.kind is PendingKind.HALTED_RUNTIME and run_id:
        return f'The seat is tried again by the tool `council` with {{"resume": "{run_id}"}}.'
    if question.kind is PendingKind.FLOW_REQUEST:
        return f"Resume the flow: bridgehead flow resume --dir {question.project}"
    return ""
