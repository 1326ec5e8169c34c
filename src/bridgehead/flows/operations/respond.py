"""Answer a request, once (flows §5).

The response file is written here, so that a handler need not write JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.errors import AlreadyAnswered, NotFound, UserError
from bridgehead.flows.calls import Attempt, Failed, Reply, outstanding_calls
from bridgehead.flows.engine.mailbox import Mailbox, response_id
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.errors import RequestExpired
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.files.documents import Contract, InvalidDocument, normalise
from bridgehead.flows.files.json_bytes import Unreadable, file_bytes, read_object
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import (
    ANSWER_SCHEMA,
    CONTRACT_VERSION,
    MASK_ANSWERS,
    RESPONSE_FILE,
    AttemptStatus,
    DocumentKind,
    Profile,
    RequestStatus,
)
from bridgehead.host.directories import make_private_dir
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import write_atomic

SCHEMA_SHOWN: Final = 600
Admit = Callable[[Mapping[str, Any]], None]


class RespondRequest(NamedTuple):
    """An answer to the request with that id, or else to the one in the request file."""

    root: Path
    reply: Reply
    request_id: str | None = None


class RespondResult(NamedTuple):
    request_id: str
    path: Path


def respond(
    request: RespondRequest,
    inputs: RunInputs | None = None,
    admit: Admit = lambda _: None,
) -> RespondResult:
    """Write the answer to a request.

    Raise AlreadyAnswered if it has one, NotFound if there is no such request. `admit`
    gets the request and raises if it may not be answered this way.
    """
    inputs = inputs or RunInputs()
    root = FlowRoot.open(request.root)
    files = CheckpointFiles(
        root, inputs.clock, inputs.response_owners, inputs.size_limits
    )
    wanted = (request.request_id or _on_file(files) or "").lower()
    if not wanted:
        raise NotFound(
            f"no request is open in {root.path}",
            hint="`bridgehead pending` lists the open items",
        )
    with _journal_of(root, inputs) as journal:
        owner = _asker(journal, wanted)
        if owner is None and wanted != _on_file(files):
            raise NotFound(f"no request {wanted} is open in {root.path}")
        attempt = _attempt(files, owner)
        refuse_expired(attempt, inputs.clock.now())
        if attempt is not None:
            admit(attempt.document)
        if owner is not None:
            refuse_unfit(request.reply, owner[1].document)
        path = _give(request.reply, wanted, files, journal, owner)
    if owner is not None:
        run, _ = owner
        event_id = f"{run.id}/flow.responded/{wanted}"
        now = utc_text(inputs.clock.now())
        facts = {"request_id": wanted, "status": request.reply.status.value}
        event = FlowEvent(event_id, "flow.responded", run, now, facts)
        inputs.announcer.happened(event)
    return RespondResult(wanted, path)


def give(
    reply: Reply, request_id: str, files: CheckpointFiles, inputs: RunInputs
) -> Path:
    """Write a handler's answer without checking it against the schema.

    Raise AlreadyAnswered if the request has an answer by now.
    """
    with _journal_of(files.root, inputs) as journal:
        owner = _asker(journal, request_id)
        refuse_expired(_attempt(files, owner), inputs.clock.now())
        return _give(reply, request_id, files, journal, owner)


def refuse_expired(attempt: Attempt | None, now: datetime) -> None:
    """Raise RequestExpired if the time to answer is over."""
    if attempt is not None and attempt.is_expired(now):
        raise RequestExpired(attempt.request_id, utc_text(attempt.expires_at or now))


def refuse_unfit(reply: Reply, request: Mapping[str, Any]) -> None:
    """Raise UserError if an answer does not obey the schema of its request.

    The flow will check it again. Requests of template-create are not checked, because
    it has its own rules for answers that do not fit (flows §6).
    """
    schema = request.get("context", {}).get(ANSWER_SCHEMA)
    if schema is None or reply.status is not RequestStatus.SUCCESS or not reply.text:
        return
    if request.get("version") == CONTRACT_VERSION:
        return
    from bridgehead.flows.engine.answers import judge_for

    verdict = judge_for(None, schema)(reply.text)
    if not isinstance(verdict, Failed):
        return
    raise UserError(
        f"the answer was refused: {_why_unfit(verdict, schema)}",
        hint=(
            "the question stays open: answer again, or say why not with --status "
            "error --message TEXT"
        ),
    )


def _why_unfit(verdict: Failed, schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum")
    if choices:
        return f"it must be one of: {', '.join(map(str, choices))}"
    expected = json.dumps(schema, ensure_ascii=False)
    if len(expected) > SCHEMA_SHOWN:
        expected = f"{expected[:SCHEMA_SHOWN]}…"
    return f"{verdict.message}; expected JSON that obeys {expected}"


def _on_file(files: CheckpointFiles) -> str | None:
    return Mailbox(files, Contract.OPEN).request_on_file


def _attempt(
    files: CheckpointFiles, owner: tuple[Run, Attempt] | None
) -> Attempt | None:
    """Return the attempt to be answered: from the journal, or else the request file."""
    if owner is not None:
        return owner[1]
    document = Mailbox(files, Contract.OPEN).request
    return Attempt("", document, AttemptStatus.PENDING) if document else None


@contextmanager
def _journal_of(root: FlowRoot, inputs: RunInputs) -> Iterator[SqliteJournal | None]:
    """Yield the journal of a root, None if its program keeps none."""
    if not root.journal.exists():
        yield None
        return
    with inputs.open_journal(root) as journal:
        yield journal


def _asker(
    journal: SqliteJournal | None, request_id: str
) -> tuple[Run, Attempt] | None:
    """Return the run that waits for the answer, and the request; None if unknown.

    Raise AlreadyAnswered if the request is not open any more.
    """
    owner = None if journal is None else journal.owner(request_id)
    if journal is not None and owner is not None and not _is_open(journal, *owner):
        raise AlreadyAnswered(request_id, by=None, at=None)
    return owner


def _is_open(journal: SqliteJournal, run: Run, attempt: Attempt) -> bool:
    """Return whether an answer to an attempt is still accepted.

    It is as long as its call is open, even if there is a newer attempt (R8).
    """
    if run.status.ended:
        return False
    if attempt.outstanding:
        return attempt.response is None
    newest = outstanding_calls(journal.attempts(run.id)).get(attempt.path)
    return newest is not None


def _give(
    reply: Reply,
    request_id: str,
    files: CheckpointFiles,
    journal: SqliteJournal | None,
    owner: tuple[Run, Attempt] | None,
) -> Path:
    """Record the answer, then write it where the program looks for it.

    Return where it was put. Raise AlreadyAnswered if the request has one. The journal
    comes first: it accepts only one of two simultaneous answers, and files in the
    project may be deleted. While the response file holds the answer to another request,
    the journal alone keeps this one.
    """
    if owner is not None and owner[0].input.get(MASK_ANSWERS):
        reply = _without_secrets(reply)
    response = _document(request_id, reply, files)
    inbox = files.root.inbox / f"{request_id}.json"
    if os.path.lexists(inbox) or _answers(files.response_path, request_id, files):
        raise AlreadyAnswered(request_id, by=None, at=None)
    is_kept = _keep_in_journal(journal, owner, request_id, response)
    path = files.response_path
    if is_kept and os.path.lexists(path):
        return files.root.journal
    try:
        write_atomic(
            path,
            file_bytes(response),
            private=True,
            exclusive=True,
            root=files.root.path,
        )
    except FileTaken as error:
        if is_kept:
            return files.root.journal
        if owner is None:
            raise AlreadyAnswered(request_id, by=None, at=None) from error
        make_private_dir(files.root.inbox, root=files.root.path)
        write_atomic(
            inbox,
            file_bytes(response),
            private=True,
            exclusive=True,
            root=files.root.path,
        )
        return inbox
    return path


def _keep_in_journal(
    journal: SqliteJournal | None,
    owner: tuple[Run, Attempt] | None,
    request_id: str,
    response: Mapping[str, Any],
) -> bool:
    """Keep the answer in the journal; return False if the request is not open there.

    Raise AlreadyAnswered if the journal has an answer.
    """
    if journal is None or owner is None or not owner[1].outstanding:
        return False
    if not journal.keep_answer(request_id, response):
        raise AlreadyAnswered(request_id, by=None, at=None)
    return True


def _without_secrets(reply: Reply) -> Reply:
    """Return the answer with everything masked that looks like a secret."""
    from bridgehead.host.secrets_scan import with_secrets_masked

    text, _ = with_secrets_masked(reply.text or "")
    message, _ = with_secrets_masked(reply.message or "")
    return reply._replace(text=text or reply.text, message=message or reply.message)


def _answers(path: Path, request_id: str, files: CheckpointFiles) -> bool:
    """Return whether the response file answers this request."""
    content = files.read_response(path)
    if content is None or isinstance(content, Unsafe):
        return False
    try:
        found = response_id(read_object(content))
    except Unreadable:
        return False
    return found is not None and found.lower() == request_id


def response_document(request_id: str, reply: Reply, at: str) -> dict[str, Any]:
    """Return the answer to a request as the response file holds it."""
    metadata = {
        "model": reply.model,
        "tokens_used": reply.tokens,
        "confidence": reply.confidence,
    }
    document = {
        "request_id": request_id,
        "version": CONTRACT_VERSION,
        "status": reply.status.value,
        "created_at": at,
        "response": reply.text,
        "error_message": reply.message,
        "error_type": reply.error_type or None,
        "duration_seconds": reply.duration_seconds,
        "metadata": {
            name: value for name, value in metadata.items() if value is not None
        },
    }
    return {name: value for name, value in document.items() if value is not None}


def _document(request_id: str, reply: Reply, files: CheckpointFiles) -> dict[str, Any]:
    """Return the response document; raise UserError if it may not be written."""
    if reply.status is RequestStatus.SUCCESS and not reply.text:
        raise UserError(
            "a successful answer needs text",
            hint="give --response TEXT or --response-file FILE",
        )
    response = response_document(request_id, reply, utc_text(files.clock.now()))
    try:
        normalise(response, DocumentKind.RESPONSE, Profile.STRICT)
    except InvalidDocument as error:
        raise UserError(
            f"the answer was refused: {'; '.join(map(str, error.problems))}"
        ) from error
    limit = files.size_limits[RESPONSE_FILE]
    if len(file_bytes(response)) > limit:
        raise UserError(
            f"the answer is too large: the limit for a response file is {limit} bytes"
        )
    return response
