"""Close a thread with its RESOLUTION.md (rigs §8 close)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.names import RESOLUTION_FILE
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.drafts import close_subject, draft_close, parse_outcome, refuse_secrets
from bridgehead.rigs.operations.posting import Post, post, refuse_if_frozen, require_thread
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.thread import closing_recipient
from bridgehead.rigs.views.results import Closed


class CloseRequest(NamedTuple):
    thread_id: str | None
    status: str | None
    note: str | None = None
    push: bool = True
    retry: bool = True
    despite_freeze: bool = False
    allow_secret: bool = False


def close(rig: Rig, request: CloseRequest) -> Closed:
    """Write, commit and push the resolution, addressed to the rig most often met in the thread."""
    if not request.thread_id:
        raise UserError("close: <thread-id> is required")
    if request.status is None:
        raise UserError("close: --status <cancelled|completed> is required")
    outcome = parse_outcome(request.status)
    own = rig.config.rig_id
    thread_id = require_thread(rig, request.thread_id)
    path = f"{thread_id}/{RESOLUTION_FILE}"

    with rig.repository.lock():
        rig.repository.recover()
        if rig.repository.has_file(path) or rig.repository.has_directory(path):
            raise UserError(f"{thread_id}/{RESOLUTION_FILE} already exists — a thread may only be closed once")
        rig.ledger.catch_up()
        recipient = closing_recipient(own, _named_in(rig, thread_id), _named_in(rig, None))
        draft = draft_close(rig.author, thread_id, outcome, recipient, rig.today, note=request.note)
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
                name=lambda _taken: RESOLUTION_FILE,
                subject=lambda _path: close_subject(thread_id, outcome),
                push=request.push,
                retry=request.retry,
            ),
        )
    row_id = rig.ledger.sent(landed.path, landed.commit, pushed=landed.pushed, closes=True)
    rig.announce(
        "rig.closed",
        thread=thread_id,
        path=landed.path,
        commit=landed.commit,
        outcome=str(outcome),
        pushed=landed.pushed,
    )
    return Closed(thread_id, outcome, landed.path, landed.commit, draft.body_hash, landed.pushed, row_id)


def _named_in(rig: Rig, thread_id: str | None) -> Iterator[Mapping[str, Value]]:
    """Senders and recipients of the envelopes of a thread, or of all; read only when asked for."""
    from bridgehead.rigs.operations.catalogue import catalogue

    for turn in catalogue(rig, thread_id).turns():
        yield {"from": turn.sender, "to": turn.to if isinstance(turn.to, str) else list(turn.to)}
