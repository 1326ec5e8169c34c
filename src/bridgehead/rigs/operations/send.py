"""Write, commit and push one envelope (rigs §8 send)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import (
    REVIEWED_TYPE,
    listed_status_class,
    parse_message_type,
    parse_status,
)
from bridgehead.rigs.envelope.names import REQUEST_FILE, RigId, next_filename, parse_recipients
from bridgehead.rigs.operations.drafts import (
    draft_send,
    edited_scaffold_body,
    is_scaffold,
    refuse_secrets,
    send_subject,
    warn_of_long_tldr,
)
from bridgehead.rigs.operations.posting import Landed, Post, post, refuse_if_frozen, require_thread
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import Sent

if TYPE_CHECKING:
    from bridgehead.rigs.trust.council_mark import CouncilMark

AUTO = "auto"


class SendRequest(NamedTuple):
    """What was asked for, as typed. `body` reads the body when its turn in the checks has come."""

    message_type: str | None
    thread_id: str | None
    recipients: Sequence[str] = ()
    status: str | None = None
    tldr: str | None = None
    body: Callable[[], str] | None = None
    references: Sequence[str] = ()
    push: bool = True
    retry: bool = True
    despite_freeze: bool = False
    unattested: bool = False
    allow_secret: bool = False
    council: Callable[[], CouncilMark] | None = None  # looks up the council that reviewed a result


class CouncilOnlyOnResults(UserError):
    """A review was to be attached to something that is no result."""

    def __init__(self, message_type: str) -> None:
        super().__init__(
            f"send: --council goes with {REVIEWED_TYPE} only (got {message_type})",
            hint=f"rig-bridge send {REVIEWED_TYPE} … --council <id>",
        )


class RelayMaySendOnlySigned(UserError):
    """A rig that speaks for a human tried to send without a signature."""

    def __init__(self, rig_id: RigId) -> None:
        super().__init__(
            f"rig '{rig_id}' speaks for a human and relays signed turns; it may send only with --unattested",
            hint="rig-bridge relay DECISIONS|RESPONSE|ACK …",
        )


def send(rig: Rig, request: SendRequest) -> Sent:
    """Check everything, then write; nothing is written before all checks pass."""
    if not request.message_type:
        raise UserError("send: <type> is required")
    if not request.thread_id:
        raise UserError("send: --thread <id> is required")
    message_type = parse_message_type(request.message_type)
    if request.council and message_type != REVIEWED_TYPE:
        raise CouncilOnlyOnResults(message_type)
    recipients = parse_recipients(request.recipients)
    if rig.config.rig_id.is_relay and not request.unattested:
        raise RelayMaySendOnlySigned(rig.config.rig_id)
    thread_id = require_thread(rig, request.thread_id)
    status = None if request.status is None else parse_status(request.status)
    body = request.body() if request.body else None
    mark = request.council() if request.council else None
    warn_of_long_tldr(rig, request.tldr)

    with rig.repository.lock():
        rig.repository.recover()
        rig.ledger.catch_up()
        scaffold = _scaffold(rig, thread_id) if message_type == "REQUEST" else None
        if body is None and scaffold is not None:
            body = edited_scaffold_body(scaffold, thread_id)
        references, automatic = _references(rig, thread_id, request.references)
        draft = draft_send(
            rig.author,
            message_type,
            thread_id,
            recipients,
            rig.today,
            status=status,
            tldr=request.tldr,
            references=references,
            body=body,
            mark=mark,
        )
        if not request.allow_secret:
            refuse_secrets(draft)
        wire = rig.repository.wire(rig.config.remote, rig.config.branch, pushing=request.push)
        if not request.despite_freeze:
            refuse_if_frozen(rig, thread_id, wire, push=request.push)
        landed = post(
            rig,
            wire,
            Post(
                thread_id,
                draft,
                name=lambda taken: REQUEST_FILE if scaffold else next_filename(message_type, taken),
                subject=lambda path: send_subject(message_type, path, request.tldr),
                push=request.push,
                retry=request.retry,
                replaces_draft=scaffold is not None,
            ),
        )
    concurrent = _concurrent_with(rig, landed) if automatic else None
    row_id = rig.ledger.sent(landed.path, landed.commit, pushed=landed.pushed)
    rig.announce("rig.sent", thread=thread_id, path=landed.path, commit=landed.commit, pushed=landed.pushed)
    return Sent(
        type=message_type,
        thread_id=thread_id,
        file_path=landed.path,
        commit_sha=landed.commit,
        body_hash=draft.body_hash,
        status_class=listed_status_class(draft.frontmatter["status"]),
        pushed=landed.pushed,
        to=recipients,
        references=references,
        concurrent_with=concurrent,
        row_id=row_id,
    )


def _scaffold(rig: Rig, thread_id: str) -> Envelope | None:
    """The untracked request that `new` put down, if it is there and was never sent (rigs §6)."""
    path = f"{thread_id}/{REQUEST_FILE}"
    if not rig.repository.has_file(path) or rig.repository.is_tracked(path):
        return None
    found = parse_envelope(rig.repository.read_file(path))
    return found if isinstance(found, Envelope) and is_scaffold(found) else None


def _references(rig: Rig, thread_id: str, typed: Sequence[str]) -> tuple[list[str], bool]:
    """The commits to reference; `auto`, or the configuration, stands for the heads of the thread (rigs §9.6)."""
    given = [reference for reference in typed if reference != AUTO]
    automatic = len(given) < len(typed) or (rig.config.auto_references and not typed)
    if not automatic:
        return given, False
    from bridgehead.rigs.operations.catalogue import catalogue

    heads = catalogue(rig, thread_id).causality(thread_id).heads()
    unpushed = {record.commit for record in rig.repository.unpushed()}
    # A push retry rewrites unpushed commits, so their ids must not be named.
    shared = [turn.commit_sha for turn in heads if turn.commit_sha and turn.commit_sha not in unpushed]
    return list(dict.fromkeys([*given, *shared])), True


def _concurrent_with(rig: Rig, landed: Landed) -> list[str]:
    from bridgehead.rigs.operations.catalogue import catalogue

    thread_id, _, filename = landed.path.partition("/")
    turns = catalogue(rig, thread_id).causality(thread_id).concurrent_with(filename)
    for turn in turns:
        rig.tell(f"concurrent with {turn.path} by {turn.sender}")
    return [turn.path for turn in turns]
