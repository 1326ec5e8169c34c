"""Resources: the pending list, each pending item, the reports of councils, the threads
of a rig. Read only, fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, unquote

from bridgehead.assembly.council.views import list_councils
from bridgehead.assembly.pending import pending_list
from bridgehead.assembly.rigs.inbox import trust_of
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import BridgeheadError, plural
from bridgehead.mcp_server.discovery import SCHEME
from bridgehead.mcp_server.jsonrpc import Code, RpcError
from bridgehead.mcp_server.tools.call import HARMLESS, Caller
from bridgehead.mcp_server.tools.schemas import CouncilStatusArguments, PendingArguments
from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.thread import thread

MOST_LISTED: Final = 50


def list_resources(caller: Caller) -> dict[str, Any]:
    """`resources/list`: what there is in this project now, the newest first."""
    foreign = caller.foreign
    listed = [
        _entry("pending", "", "Pending items"),
        *(
            _entry("pending", item_id, foreign.line(title))
            for item_id, title in _pending(caller)
        ),
        *(
            _entry("council", review_id, foreign.line(title))
            for review_id, title in _councils(caller)
        ),
        *(
            _entry("thread", _handle(thread_id), f"Thread {foreign.line(thread_id)}")
            for thread_id in _threads(caller)
        ),
    ]
    return {"resources": listed}


def read_resource(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Answer `resources/read`.

    An unknown address is answered with the error of the client's version.
    """
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(Code.INVALID_PARAMS, "uri must be a string")
    kind, _, name = uri.removeprefix(f"{SCHEME}://").partition("/")
    read = _READERS.get(kind) if uri.startswith(f"{SCHEME}://") else None
    if read is None:
        raise _not_found(caller, uri, "there is no such resource")
    try:
        text = read(caller, unquote(name))
    except BridgeheadError as error:
        problem = caller.foreign.line(error.message)
        raise _not_found(caller, uri, problem) from error
    if caller.foreign.used and caller.foreign.note not in text:
        text = f"{caller.foreign.note}\n\n{text}"
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def _read_pending(caller: Caller, item_id: str) -> str:
    from bridgehead.mcp_server.tools.pending import pending

    return pending(caller, PendingArguments(id=item_id or None, limit=MOST_LISTED)).text


def _read_council(caller: Caller, review_id: str) -> str:
    from bridgehead.mcp_server.tools.council import status

    return status(
        caller, CouncilStatusArguments(review_id=review_id or None, limit=MOST_LISTED)
    ).text


def _read_thread(caller: Caller, thread_id: str) -> str:
    foreign = caller.foreign
    named = next(
        (known for known in _threads(caller) if _handle(known) == thread_id), thread_id
    )
    shown = thread(make_rig(str(caller.assembly.cwd), caller.warn), named)
    blocks = []
    for envelope in shown.envelopes:
        state = envelope.verification.state
        sender = envelope.frontmatter.get("from")
        text = f"{envelope.filename} from {sender}\n\n{envelope.body}"
        block = foreign.block(text, origin=f"envelope, {state}", trust=trust_of(state))
        blocks.append(block)
    count = plural(shown.total, "envelope")
    name = foreign.line(str(shown.thread_id))
    return "\n\n".join(
        [f"Thread {name}: {count}, oldest first.", foreign.note, *blocks]
    )


def _handle(thread_id: str) -> str:
    """Return a name of a thread that says nothing: an address cannot be fenced."""
    return sha256(thread_id.encode()).hexdigest()[:16]


_READERS: Final[Mapping[str, Callable[[Caller, str], str]]] = {
    "pending": _read_pending,
    "council": _read_council,
    "thread": _read_thread,
}


def _pending(caller: Caller) -> Iterator[tuple[str, str]]:
    with caller.assembly.store(read_only=True) as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        items = waiting.items(
            PendingFilter(project=caller.assembly.project), limit=MOST_LISTED
        )
    yield from (
        (item.id, f"{item.question.origin}: {item.question.title}") for item in items
    )


def _councils(caller: Caller) -> Iterator[tuple[str, str]]:
    page = list_councils(
        caller.assembly, limit=MOST_LISTED, project=caller.assembly.project
    )
    yield from (
        (one.id, f"{one.verdict or one.status.value}: {one.title}")
        for one in page.councils
        if HARMLESS.fullmatch(one.id)  # an address cannot be fenced
    )


def _threads(caller: Caller) -> list[str]:
    """Threads of the bridge this project is a clone of; most projects are none."""
    try:
        rig = make_rig(str(caller.assembly.cwd), caller.warn)
        return catalogue(rig).thread_ids()[:MOST_LISTED] if rig.config else []
    except BridgeheadError:
        return []


def _entry(kind: str, name: str, title: str) -> dict[str, str]:
    uri = f"{SCHEME}://{kind}/{quote(name)}" if name else f"{SCHEME}://{kind}"
    return {
        "uri": uri,
        "name": f"{kind} {name}".strip(),
        "title": title,
        "mimeType": "text/plain",
    }


def _not_found(caller: Caller, uri: str, problem: str) -> RpcError:
    code = (
        Code.INVALID_PARAMS
        if caller.client.sends_envelopes
        else Code.RESOURCE_NOT_FOUND
    )
    shown = caller.foreign.plain_line(uri)  # the caller's own
    return RpcError(code, f"{shown}: {problem}", {"uri": uri})
