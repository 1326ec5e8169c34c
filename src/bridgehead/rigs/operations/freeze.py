"""Hold a thread still while a human answers in it, and let it go on (rigs §10)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.identities import Identities, in_force
from bridgehead.rigs.operations.posting import require_thread
from bridgehead.rigs.repositories.records import FreezeNote, Raced, Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.freeze import Freeze, ThreadFrozen
from bridgehead.rigs.views.results import Frozen, Thawed


class FreezeRequest(NamedTuple):
    thread_id: str | None
    in_reply_to: str | None = None


def freeze(rig: Rig, request: FreezeRequest) -> Frozen:
    """Plant the note on the remote; a remote that refuses it gets a freeze of this clone only."""
    from bridgehead.rigs.operations.relay import parse_parent, require_relay_rig

    if not request.thread_id:
        raise UserError("relay: --thread <id> is required")
    own = require_relay_rig(rig)
    parent = parse_parent(request.in_reply_to) if request.in_reply_to is not None else None
    thread_id = require_thread(rig, parse_thread_id(request.thread_id))
    since = rig.now_ms()
    until = since + int(rig.config.freeze_minutes * 60_000)
    asked = Freeze(own, iso_timestamp(since), iso_timestamp(until), parent, thread_id)
    sign = rig.repository.signing_key_text() is not None
    who = Identities(rig)
    wanted = asked.as_allowed(thread_id, who.membership, who.own_names())
    if wanted is None:
        raise MayNotFreeze(own)
    with rig.repository.lock():
        wire = _wire(rig)
        note = _standing(rig, wire, thread_id, own, since)
        outcome = rig.repository.freeze(wire, thread_id, wanted.stored_text(), replaces=note, sign=sign)
        if isinstance(outcome, Raced):
            now_there = _standing(rig, wire, thread_id, own, since)
            outcome = rig.repository.freeze(wire, thread_id, wanted.stored_text(), replaces=now_there, sign=sign)
        if isinstance(outcome, Raced):
            raise UserError(f'thread "{thread_id}" was frozen by another rig at the same moment: {outcome.reason}')
    if outcome.only_here:
        rig.tell("warning: the remote did not take the freeze; it holds in this clone only")
    rig.announce("rig.frozen", thread=thread_id, outcome=wanted.expires)
    return Frozen(thread_id, wanted.expires)


def thaw(rig: Rig, request: FreezeRequest) -> Thawed:
    """Remove the note, here and on the remote."""
    from bridgehead.rigs.operations.relay import require_relay_rig

    if not request.thread_id:
        raise UserError("relay: --thread <id> is required")
    own = require_relay_rig(rig)
    thread_id = require_thread(rig, parse_thread_id(request.thread_id))
    with rig.repository.lock():
        note = rig.repository.freezes().get(thread_id)
        standing = in_force(rig, thread_id, note) if note else None
        if standing is not None:
            ours, who = standing._replace(rig=own, thread=thread_id), Identities(rig)
            if ours.as_allowed(thread_id, who.membership, who.own_names()) is None:
                raise MayNotFreeze(own)
        if not rig.repository.thaw(_wire(rig), thread_id):
            rig.tell(f'thread "{thread_id}" was not frozen')
    rig.announce("rig.thawed", thread=thread_id)
    return Thawed(thread_id)


def _wire(rig: Rig) -> Wire | None:
    return rig.repository.wire(rig.config.remote, rig.config.branch, pushing=False)


def _standing(rig: Rig, wire: Wire | None, thread_id: str, own: str, now_ms: int) -> FreezeNote | None:
    """The note that may be replaced: an expired one, an unreadable one, one that does not count, or our own."""
    note = rig.repository.ask_freeze(wire, thread_id) if wire else rig.repository.freezes().get(thread_id)
    standing = in_force(rig, thread_id, note) if note else None
    if standing is not None and standing.holds(now_ms) and standing.rig != own:
        raise ThreadFrozen(thread_id, standing)
    return note


class MayNotFreeze(UserError):
    """The membership gives this rig no right to hold a thread still."""

    def __init__(self, rig_id: str) -> None:
        super().__init__(
            f"relay: the membership does not let {rig_id} freeze or thaw threads of others; nothing was changed",
            hint="rig-bridge member list shows who may; a human member adds it: member add <rig> --freeze-minutes <n>",
        )
