"""The tools `pending` and `answer`: what waits for someone, as text and data, and
answering it once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import RecordingAnnouncer, size_limits
from bridgehead.assembly.pending import (
    NO_EVIDENCE,
    ClosedDoor,
    grouped,
    pending_list,
)
from bridgehead.contract.doors import (
    WAYS,
    Door,
    asks_for_person,
    decide_door,
    request_asks_for_person,
)
from bridgehead.contract.pending import (
    Answer,
    PendingItem,
    Question,
    flat_properties,
    refusal,
)
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
)
from bridgehead.contract.words import Trust
from bridgehead.control_plane.records import PendingFilter, QuestionKey
from bridgehead.errors import NotFound, UserError
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.operations.pending_items import response_to
from bridgehead.flows.operations.respond import respond as respond_to_flow
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.host.terminal import escape_controls
from bridgehead.mcp_server.jsonrpc import ELICIT
from bridgehead.mcp_server.tools.call import Caller, ForeignText, NeededInput, ToolReply
from bridgehead.mcp_server.tools.schemas import (
    AnswerArguments,
    AnswerResult,
    PendingArguments,
    PendingEntry,
    PendingResult,
)

ANSWER: Final = "answer"
REQUEST_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
SECRET: Final = re.compile(
    r"(?i)passw|passphrase|secret|token|credential|api.?key|private.?key|\bpin\b|\botp\b"
)
KEPT_IN_FORMS: Final = ("type", "enum", "minimum", "maximum", "minLength", "maxLength")
LONGEST_MESSAGE: Final = 4_000
NO_ANSWER: Final = "The person was asked and gave no answer; {} stays pending."


def pending(caller: Caller, wanted: PendingArguments) -> ToolReply:
    """Return what is open, or one item with its prompt."""
    foreign = caller.foreign
    with caller.assembly.store(read_only=True) as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        if wanted.id is not None:
            item = waiting.find(wanted.id)
            entry = entry_of(item, foreign, with_prompt=True)
            advice = how_to_answer(item, foreign)
            schema = (
                f"The answer is JSON that obeys this schema:\n{entry.schema}"
                if entry.schema
                else ""
            )
            text = "\n\n".join(
                filter(
                    None, [line_of(entry), advice, foreign.note, entry.prompt, schema]
                )
            )
            return ToolReply(
                PendingResult(note=foreign.note, items=[entry], next=advice), text
            )
        project = None if wanted.everywhere else caller.assembly.project
        items = waiting.items(PendingFilter(project=project), limit=wanted.limit)
    entries = [_entry(council, parts, foreign) for council, parts in grouped(items)]
    advice = (
        "The tool `pending` with the id of an item or part shows its whole prompt."
        if entries
        else ""
    )
    text = (
        "\n".join([*map(line_of, entries), advice])
        if entries
        else "Nothing is waiting."
    )
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
        item = waiting.find(wanted.id)
        unsaid = wanted.text is None and given.status is AnswerStatus.SUCCESS
        if unsaid or asks_for_person(item.question):
            form = form_for(caller, item)
            if form is not None:
                asked = _answered(caller, item, "The person is asked.")
                return asked._replace(needed=form)
        item = waiting.answer(wanted.id, given, Door.TOOL)
    return _answered(caller, item, how_to_go_on(item, caller.foreign))


def answered_by_person(
    caller: Caller, item_id: str, content: Mapping[str, Any]
) -> ToolReply:
    """Record what the person at the client entered, and return what came of it."""
    item = give_persons_answer(caller, item_id, content)
    if item is not None:
        return _answered(caller, item, how_to_go_on(item, caller.foreign))
    said = NO_ANSWER.format(item_id)
    return ToolReply(
        AnswerResult(id=item_id, state=PendingState.OPEN.value, title="", next=said),
        said,
    )


def give_persons_answer(
    caller: Caller, item_id: str, content: Mapping[str, Any]
) -> PendingItem | None:
    """Return the item as it is with the person's answer.

    None when there is no answer in the form, or was no form.
    """
    with caller.assembly.store() as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        question = (item := waiting.find(item_id)).question
        if form_for(caller, item) is None:
            return None
        given = content if flat_properties(question.schema) else content.get(ANSWER)
        if not given and given not in (0, False):
            return None
        plain = isinstance(given, str) and (
            question.schema is None or bool(question.offers)
        )
        text = str(given) if plain else msgspec.json.encode(given).decode()
        by = f"a person at {caller.client.name} (MCP)"
        answer = Answer(text=text, by=by, at=iso_ms(SystemClock().now()))
        return waiting.answer(item_id, answer, Door.FORM)


def form_for(caller: Caller, item: PendingItem) -> NeededInput | None:
    """Return the question as a form.

    None where the client shows none, and for what is settled, fits none or may be
    secret.
    """
    question = item.question
    foreign = ForeignText()
    schema = question.schema or {"type": "string"}
    alone = (
        {"type": "string", "enum": list(question.offers)} if question.offers else schema
    )
    asked = flat_properties(schema) or flat_properties({"properties": {ANSWER: alone}})
    types_text = any(
        one["type"] == "string" and not one.get("enum") for one in asked.values()
    )
    told = (
        f"{question.title}\n{question.prompt}\n{msgspec.json.encode(schema).decode()}"
    )
    unfit = (
        not asked
        or any(foreign.plain_line(name) != name for name in asked)
        or (types_text and SECRET.search(told))
    )
    if unfit or item.state is not PendingState.OPEN or not caller.client.offers_forms:
        return None
    fields = {
        name: {
            **{key: one[key] for key in KEPT_IN_FORMS if one.get(key) is not None},
            **{
                key: foreign.plain_line(str(one[key]))
                for key in ("title", "description")
                if one.get(key)
            },
        }
        for name, one in asked.items()
    }
    required = [
        name for name in schema.get("required") or () if name in fields
    ] or list(fields)[: ANSWER in fields]
    form = {"type": "object", "properties": fields, "required": required}
    lines = [
        f"  {escape_controls(line)}"
        for line in question.text[:LONGEST_MESSAGE].strip().splitlines()
    ]
    cut = [f"  … `bridgehead pending {item.id}` shows all of it"] * (
        len(question.text) > LONGEST_MESSAGE
    )
    asker = foreign.plain_line(question.origin)
    head = f"{asker} asks ({item.id}): {foreign.plain_line(question.title)}"
    params = {"message": "\n".join([head, *lines, *cut]), "requestedSchema": form}
    return NeededInput(item.id, ELICIT, {item.id: params})


def answer_request(caller: Caller, request_id: str, given: Answer) -> ToolReply:
    """Return a flow's request by its own id.

    A program that told nobody what it asks is answered in its directory.
    """
    with caller.assembly.store() as store:
        for root in dict.fromkeys(
            [caller.assembly.cwd, caller.assembly.places.project]
        ):
            key = QuestionKey(
                part=Part.FLOWS, key=request_id, project=os.path.realpath(root)
            )
            with suppress(NotFound):
                item = pending_list(caller.assembly, store, caller.warn).answer(
                    store.pending_item(key).id, given, Door.TOOL
                )
                return _answered(caller, item, how_to_go_on(item, caller.foreign))
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
        announcer=RecordingAnnouncer(root, caller.warn),
        size_limits=size_limits(Assembly(root).settings),
    )
    respond_to_flow(response_to(question, given), around, refuse_for_person)
    answered = PendingItem(
        id=request_id, question=question, state=PendingState.ANSWERED, opened_at=""
    )
    return _answered(caller, answered, "Run the flow again with --resume.")


def refuse_for_person(request: Mapping[str, Any]) -> None:
    """Raise for the request of a flow that asks for a person: a tool call is none."""
    for_person = request_asks_for_person(request)
    request_id = str(request["request_id"])
    decision = decide_door(Door.TOOL, for_person, NO_EVIDENCE, request_id)
    if not decision.allowed:
        raise ClosedDoor(decision)


def _answered(caller: Caller, item: PendingItem, following: str) -> ToolReply:
    title = caller.foreign.line(item.question.title)
    result = AnswerResult(
        id=item.id, state=item.state.value, title=title, next=following
    )
    return ToolReply(
        result, f"{result.id} answered: {result.title}\n{result.next}".rstrip()
    )


def _entry(
    council: str | None, parts: Sequence[PendingItem], foreign: ForeignText
) -> PendingEntry:
    """Return one thing to do: an item, or all that a council asks."""
    shown = [entry_of(item, foreign) for item in parts]
    if council is None:
        return shown[0]
    return msgspec.structs.replace(
        shown[0],
        id=foreign.line(council),
        kind="council",
        origin="council",
        title=f"council {foreign.line(council)}: {len(parts)} parts",
        choices=[],
        advice=(
            f'answer each part, then the tool `council` with {{"resume": '
            f'"{foreign.line(council)}"}}'
        ),
        parts=[msgspec.to_builtins(one) for one in shown],
    )


def entry_of(
    item: PendingItem, foreign: ForeignText, *, with_prompt: bool = False
) -> PendingEntry:
    """One item as data; its prompt is foreign text, whoever wrote it."""
    question = item.question
    origin = f"pending item {item.id}"
    prompt = foreign.block(question.prompt, origin=origin, trust=Trust.UNVERIFIED)
    schema = ""
    if with_prompt and question.schema is not None:
        spelled = msgspec.json.format(
            msgspec.json.encode(question.schema), indent=2
        ).decode()
        schema = foreign.block(
            spelled, origin=f"{origin}, answer schema", trust=Trust.UNVERIFIED
        )
    return PendingEntry(
        id=item.id,
        kind=question.kind.value,
        state=item.state.value,
        origin=foreign.line(question.origin),
        title=foreign.line(question.title),
        since=item.opened_at,
        project=foreign.line(question.project),
        choices=[foreign.line(choice) for choice in question.offers],
        advice=foreign.line(question.advice) if question.advice else None,
        expires_at=foreign.line(question.expires_at) if question.expires_at else None,
        prompt=prompt if with_prompt and question.prompt else "",
        schema=schema,
    )


def line_of(entry: PendingEntry) -> str:
    choices = f"  [{' | '.join(entry.choices)}]" if entry.choices else ""
    advice = f"  first: {entry.advice}" if entry.advice else ""
    parts = "".join(
        f"\n  {line_of(msgspec.convert(part, PendingEntry))}" for part in entry.parts
    )
    return (
        f"{entry.id}  {entry.origin}: {entry.title}  (since "
        f"{entry.since}){choices}{advice}{parts}"
    )


def how_to_answer(item: PendingItem, foreign: ForeignText) -> str:
    """Return what the agent can do about an item."""
    if item.state is not PendingState.OPEN:
        return f"{item.id} is {item.state.value} already."
    if asks_for_person(item.question):
        return (
            "This is for a person, and no agent may answer it. "
            f"{WAYS[0].upper()}{WAYS[1:]}"
            f' with `bridgehead answer {item.id}`; the tool `answer` with {{"id": '
            f'"{item.id}"}} shows the person a form'
            " if your host can."
        )
    choices = item.question.offers
    text = " or ".join(map(foreign.line, choices)) if choices else "your whole answer"
    return (
        f'Answer with the tool `answer`: {{"id": "{item.id}", "text": …}}; the text '
        f"is {text}."
    )


def how_to_go_on(item: PendingItem, foreign: ForeignText) -> str:
    """Return what has to be done after the answer.

    A flow goes on by itself only where `flow watch` or the dashboard runs.
    """
    question = item.question
    run_id = item.question.run_id or ""
    if question.kind is PendingKind.FLOW_REQUEST and run_id.startswith("council-"):
        review_id = foreign.line(run_id.removeprefix("council-"))
        return f'Resume the council: tool `council` with {{"resume": "{review_id}"}}.'
    if question.kind is PendingKind.HALTED_RUNTIME and run_id:
        return (
            f'The seat is tried again by the tool `council` with {{"resume": '
            f'"{foreign.line(run_id)}"}}.'
        )
    if question.kind is PendingKind.FLOW_REQUEST:
        return (
            f"Resume the flow in {foreign.line(question.project)} with the tool "
            "`flow_run` (`resume`), or in a shell."
        )
    return ""
