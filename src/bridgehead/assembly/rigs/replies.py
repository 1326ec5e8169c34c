"""A reply written on a page: the same `send` as on the command line, honest about a
commit that was not shared.
"""

from collections.abc import Callable
from typing import NamedTuple

from bridgehead.assembly.rigs.clones import RigClone
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.errors import BridgeheadError, UserError
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.rig import Reviews
from bridgehead.rigs.views.results import Sent


class Reply(NamedTuple):
    """What was typed."""

    message_type: str
    recipients: str
    text: str
    tldr: str = ""
    by: str = ""
    push: bool = True
    allow_secret: bool = False


class NotShared(BridgeheadError):
    """The envelope is in this clone and nobody else has it."""

    def __init__(self, thread_id: str, cause: BridgeheadError) -> None:
        super().__init__(
            f"the reply is committed in {thread_id}, but not pushed: {cause.message}",
            hint="push it with `bridgehead rig push`; do not send it again",
        )


def send_reply(
    clone: RigClone,
    thread_id: str,
    reply: Reply,
    say: Callable[[str], None],
    reviews: Callable[[str], Reviews],
) -> Sent:
    """Write, commit and, if wanted, push one envelope.

    Every refusal but `NotShared` leaves nothing behind.
    """
    if not reply.text.strip():
        raise UserError("the reply is empty; nothing was sent")
    rig = make_rig(clone.root, say, reviews)
    before = rig.repository.head().commit
    try:
        return send(
            rig,
            SendRequest(
                reply.message_type,
                thread_id,
                [reply.recipients],
                tldr=reply.tldr.strip() or None,
                body=lambda: f"{reply.text.rstrip()}\n",
                push=reply.push,
                allow_secret=reply.allow_secret,
                by=reply.by.strip() or None,
            ),
        )
    except BridgeheadError as error:
        # git may fail after the commit was made; whoever is told "failed" would send it
        # twice.
        if make_rig(clone.root, say).repository.head().commit == before:
            raise
        raise NotShared(thread_id, error) from error
