"""Put down a request to fill in (rigs §8 new)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import parse_new_thread_id
from bridgehead.rigs.envelope.names import REQUEST_FILE
from bridgehead.rigs.operations.drafts import draft_scaffold
from bridgehead.rigs.operations.init import AlreadyThere
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import Scaffolded


class NewRequest(NamedTuple):
    thread_id: str | None
    force: bool = False


def new(rig: Rig, request: NewRequest) -> Scaffolded:
    """Write REQUEST.md of a new thread; it is neither tracked nor sent."""
    if not request.thread_id:
        raise UserError("new: <thread-id> is required")
    thread_id = parse_new_thread_id(request.thread_id)
    draft = draft_scaffold(rig.author, thread_id, rig.today)
    path = f"{thread_id}/{REQUEST_FILE}"
    with rig.repository.lock():
        there = rig.repository.has_file(path) or rig.repository.has_directory(path)
        if there and not request.force:
            raise AlreadyThere(path)
        rig.repository.write_file(path, draft.text.encode(), replace=True)
    return Scaffolded(thread_id, path)
