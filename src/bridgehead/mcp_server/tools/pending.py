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
Properties = Mapping[str, Mapping[str, Any]]
LONGEST_MESSAGE: Final = 4_000
NO_ANSWER: Final = "The person was asked and gave no answer; {} stays pending."


def pending(caller: Caller, wanted: PendingArguments) -> ToolReply:
    """Return what is open, or one item with its prompt."""
    with caller.assembly.store(read_only=True) as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        if wanted.id is not None:
            return _item_in_full(waiting.find(wanted.id), caller.foreign)
        project = None if wanted.everywhere else caller.assembly.project
        items = waiting.items(PendingFilter(project=project), limit=wanted.limit)
    if not items:
        return ToolReply(PendingResult(items=[], next=""), "Nothing is waiting.")
    entries = [
        _entry(council, parts, caller.foreign) for council, parts in grouped(items)
    ]
    advice = "The tool `pending` with the id of an item or part shows its whole prompt."
    text = "\n".join([*map(line_of, entries), advice])
    return ToolReply(PendingResult(items=entries, next=advice), text)


def _item_in_full(item: PendingItem, foreign: ForeignText) -> ToolReply:
    """Return one item with its prompt, and how it can be answered."""
    entry = entry_of(item, foreign, with_prompt=True)
    advice = how_to_answer(item, foreign)
    paragraphs = [line_of(entry), advice, foreign.note, entry.prompt]
    if entry.schema:
        paragraphs.append(f"The answer is JSON that obeys this schema:\n{entry.schema}")
    text = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
    result = PendingResult(note=foreign.note, items=[entry], next=advice)
    return ToolReply(result, text)


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
        without_text = wanted.text is None and given.status is AnswerStatus.SUCCESS
        if without_text or asks_for_person(item.question):
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
    text = NO_ANSWER.format(item_id)
    result = AnswerResult(
        id=item_id, state=PendingState.OPEN.value, title="", next=text
    )
    return ToolReply(result, text)


def give_persons_answer(
    caller: Caller, item_id: str, content: Mapping[str, Any]
) -> PendingItem | None:
    """Return the item as it is with the person's answer.

    Return None if the form holds no answer, or there was no form.
    """
    with caller.assembly.store() as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        item = waiting.find(item_id)
        if form_for(caller, item) is None:
            return None
        text = _text_of_form(item.question, content)
        if text is None:
            return None
        by = f"a person at {caller.client.name} (MCP)"
        answer = Answer(text=text, by=by, at=iso_ms(SystemClock().now()))
        return waiting.answer(item_id, answer, Door.FORM)


def _text_of_form(question: Question, content: Mapping[str, Any]) -> str | None:
    """Return what a person entered as the text of an answer; None if it is empty."""
    value = content if flat_properties(question.schema) else content.get(ANSWER)
    is_empty = not value and value not in (0, False)
    if is_empty:
        return None
    takes_plain_text = question.schema is None or bool(question.offers)
    if takes_plain_text and isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def form_for(caller: Caller, item: PendingItem) -> NeededInput | None:
    """Return the question as a form.

    Return None if the client shows no forms, the question is settled or does not fit a
    form, or the answer may be a secret.
    """
    question = item.question
    if not caller.client.offers_forms:
        return None
    if item.state is not PendingState.OPEN:
        return None
    properties = _form_properties(question)
    if not properties or _has_unsafe_name(properties):
        return None
    if _takes_free_text(properties) and _mentions_a_secret(question):
        return None
    params = {
        "message": _form_message(item),
        "requestedSchema": _form_schema(question, properties),
    }
    return NeededInput(item.id, ELICIT, {item.id: params})


def _form_properties(question: Question) -> Properties:
    """Return the fields of a form: those of the schema, or one for the whole answer."""
    properties = flat_properties(question.schema)
    if properties:
        return properties
    answer: Mapping[str, Any] = question.schema or {"type": "string"}
    if question.offers:
        answer = {"type": "string", "enum": list(question.offers)}
    return flat_properties({"properties": {ANSWER: answer}})


def _has_unsafe_name(properties: Properties) -> bool:
    """Return whether a client could show a name as something it is not."""
    foreign = ForeignText()
    return any(foreign.plain_line(name) != name for name in properties)


def _takes_free_text(properties: Properties) -> bool:
    return any(
        field["type"] == "string" and not field.get("enum")
        for field in properties.values()
    )


def _mentions_a_secret(question: Question) -> bool:
    schema = msgspec.json.encode(question.schema or {"type": "string"}).decode()
    text = f"{question.title}\n{question.prompt}\n{schema}"
    return SECRET.search(text) is not None


def _form_schema(question: Question, properties: Properties) -> dict[str, Any]:
    """Return the schema of a form, with nothing in it that a client must not show."""
    fields = {name: _form_field(field) for name, field in properties.items()}
    schema = question.schema or {}
    required = [name for name in schema.get("required") or () if name in fields]
    if not required and ANSWER in fields:
        required = [ANSWER]
    return {"type": "object", "properties": fields, "required": required}


def _form_field(field: Mapping[str, Any]) -> dict[str, Any]:
    foreign = ForeignText()
    kept = {key: field[key] for key in KEPT_IN_FORMS if field.get(key) is not None}
    for key in ("title", "description"):
        if field.get(key):
            kept[key] = foreign.plain_line(str(field[key]))
    return kept


def _form_message(item: PendingItem) -> str:
    """Return what stands above a form: who asks, and what."""
    question = item.question
    foreign = ForeignText()
    asker = foreign.plain_line(question.origin)
    title = foreign.plain_line(question.title)
    lines = [f"{asker} asks ({item.id}): {title}"]
    for line in question.text[:LONGEST_MESSAGE].strip().splitlines():
        lines.append(f"  {escape_controls(line)}")
    if len(question.text) > LONGEST_MESSAGE:
        lines.append(f"  … `bridgehead pending {item.id}` shows all of it")
    return "\n".join(lines)


def answer_request(caller: Caller, request_id: str, given: Answer) -> ToolReply:
    """Answer a flow's request by its own id.

    A program that told nobody what it asks is answered in its directory.
    """
    with caller.assembly.store() as store:
        roots = (caller.assembly.cwd, caller.assembly.places.project)
        for root in dict.fromkeys(roots):
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
        parts=[msgspec.to_builtins(entry) for entry in shown],
    )


def entry_of(
    item: PendingItem, foreign: ForeignText, *, with_prompt: bool = False
) -> PendingEntry:
    """Return one item as data; its prompt is foreign text, whoever wrote it."""
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
