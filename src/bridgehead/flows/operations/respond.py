"""Answer a request, once. Writes the response file so that no handler has to compose JSON (flows §5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.errors import AlreadyAnswered, NotFound, UserError
from bridgehead.flows.calls import Attempt, Failed, outstanding_calls
from bridgehead.flows.engine.answers import judge_for
from bridgehead.flows.engine.mailbox import Mailbox, response_id
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.files.agent_files import AgentResponse, ResponseMetadata
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.files.documents import Contract, InvalidDocument, normalise
from bridgehead.flows.files.json_bytes import Unreadable, file_bytes, read_object
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.handlers import Reply
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import (
    ANSWER_SCHEMA,
    CONTRACT_VERSION,
    RESPONSE_FILE,
    DocumentKind,
    Profile,
    RequestStatus,
)
from bridgehead.host.directories import make_private_dir
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import write_atomic

SCHEMA_SHOWN: Final = 600


class RespondRequest(NamedTuple):
    """Give `reply` as the answer to a request; to the one in the request file unless an id is given."""

    root: Path
    reply: Reply
    request_id: str | None = None


class RespondResult(NamedTuple):
    request_id: str
    path: Path


def respond(request: RespondRequest, inputs: RunInputs | None = None) -> RespondResult:
    """Write the answer; AlreadyAnswered when there is one, NotFound when nobody asked."""
    inputs = inputs or RunInputs()
    root = FlowRoot.open(request.root)
    files = CheckpointFiles(root, inputs.clock, inputs.response_owners, inputs.size_limits)
    on_file = Mailbox(files, Contract.OPEN).request_on_file
    wanted = (request.request_id or on_file or "").lower()
    if not wanted:
        raise NotFound(f"no request waits in {root.path}", hint="bridgehead pending lists what waits")
    owner = _refuse_unasked(wanted, on_file, root, inputs)
    run = owner[0] if owner else None
    if owner is not None:
        refuse_unfit(request.reply, owner[1].document)
    response = _document(wanted, request.reply, files)
    path = _file(response, wanted, files, queued=run is not None)
    if run is not None:
        event_id = f"{run.id}/flow.responded/{wanted}"
        now = utc_text(inputs.clock.now())
        facts = {"request_id": wanted, "status": request.reply.status.value}
        inputs.announcer.happened(FlowEvent(event_id, "flow.responded", run, now, facts))
    return RespondResult(wanted, path)


class UnfitReply(UserError):
    def __init__(self, reason: str, schema: Mapping[str, Any]) -> None:
        shown = json.dumps(schema, ensure_ascii=False)
        expected = shown if len(shown) <= SCHEMA_SHOWN else f"{shown[:SCHEMA_SHOWN]}…"
        super().__init__(
            f"the answer was refused: {reason}; expected JSON that obeys {expected}",
            hint="the question stays open: answer again, or say why not with --status error --message TEXT",
        )


def refuse_unfit(reply: Reply, asked: Mapping[str, Any]) -> None:
    """An answer is held against the schema of its request when it is given, as the flow itself will do.

    Template-create's requests are not: its own table says what becomes of an answer (flows §6).
    """
    schema = asked.get("context", {}).get(ANSWER_SCHEMA)
    if schema is None or reply.status is not RequestStatus.SUCCESS or not reply.text:
        return
    if asked.get("version") == CONTRACT_VERSION:
        return
    verdict = judge_for(None, schema)(reply.text)
    if isinstance(verdict, Failed):
        raise UnfitReply(str(verdict.message), schema)


def write_reply(reply: Reply, request_id: str, files: CheckpointFiles) -> Path:
    """Put a reply into the response file; FileTaken when there is one already."""
    document = _document(request_id, reply, files)
    write_atomic(files.response_path, document, private=True, exclusive=True, root=files.root.path)
    return files.response_path


def _refuse_unasked(
    wanted: str, on_file: str | None, root: FlowRoot, inputs: RunInputs
) -> tuple[Run, Attempt] | None:
    """The run that asked, and its request; a program without a journal asks through the file alone."""
    owner = None
    if root.journal.exists():
        with inputs.open_journal(root) as journal:
            owner = journal.owner(wanted)
            if owner is not None and not _is_open(journal, *owner):
                raise AlreadyAnswered(wanted, by=None, at=None)
    if owner is None and wanted != on_file:
        raise NotFound(f"nothing in {root.path} asked for {wanted}")
    return owner


def _is_open(journal: Journal, run: Run, attempt: object) -> bool:
    """An attempt takes an answer as long as its call does, also when a newer attempt is under way (R8)."""
    if run.status.ended:
        return False
    calls = outstanding_calls(journal.attempts(run.id)).values()
    return any(attempt in call.attempts for call in calls)


def _file(document: bytes, request_id: str, files: CheckpointFiles, *, queued: bool) -> Path:
    """Into the response file; beside it, when that holds the answer to another request of the same run."""
    inbox = files.root.inbox / f"{request_id}.json"
    for taken in files.response_paths():
        if taken == inbox or _answers(taken, request_id, files):
            raise AlreadyAnswered(request_id, by=None, at=None)
    try:
        write_atomic(files.response_path, document, private=True, exclusive=True, root=files.root.path)
        return files.response_path
    except FileTaken as error:
        if not queued or _answers(files.response_path, request_id, files):
            raise AlreadyAnswered(request_id, by=None, at=None) from error
    make_private_dir(files.root.inbox, root=files.root.path)
    try:
        write_atomic(inbox, document, private=True, exclusive=True, root=files.root.path)
    except FileTaken as error:
        raise AlreadyAnswered(request_id, by=None, at=None) from error
    return inbox


def _answers(path: Path, request_id: str, files: CheckpointFiles) -> bool:
    content = files.read_response(path)
    if content is None or isinstance(content, Unsafe):
        return False
    try:
        found = response_id(read_object(content))
    except Unreadable:
        return False
    return found is not None and found.lower() == request_id


def _document(request_id: str, reply: Reply, files: CheckpointFiles) -> bytes:
    if reply.status is RequestStatus.SUCCESS and not reply.text:
        raise UserError(
            "a successful answer needs a text", hint="give --response TEXT or --response-file FILE"
        )
    response = AgentResponse(
        request_id=request_id,
        status=reply.status.value,
        response=reply.text,
        error_message=reply.message,
        error_type=reply.error_type,
        created_at=utc_text(files.clock.now()),
        duration_seconds=reply.duration_seconds,
        metadata=ResponseMetadata(reply.model, reply.tokens, reply.confidence),
    ).to_file_dict()
    try:
        normalise(response, DocumentKind.RESPONSE, Profile.STRICT)
    except InvalidDocument as error:
        raise UserError(f"the answer was refused: {'; '.join(map(str, error.problems))}") from error
    data = file_bytes(response)
    limit = files.size_limits[RESPONSE_FILE]
    if len(data) > limit:
        raise UserError(f"the answer is too large: a response file has at most {limit} bytes")
    return data
