"""Envelopes awaiting a reply, as pending items: computed from the repositories when asked for (rigs §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bridgehead.assembly.envelope_ids import envelope_item_id
from bridgehead.assembly.rig_clones import known_clones
from bridgehead.assembly.rig_looks import Inbox, look_into_inbox
from bridgehead.assembly.rigs import make_rig
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.words import AnswerStatus, Part, PendingKind, PendingState
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError
from bridgehead.rigs.index_rows import ListedEnvelope
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.timestamps import iso_timestamp
from bridgehead.rigs.verification_kinds import Verification


class EnvelopesWaiting:
    """The inboxes of the current repository and of those the record has events of."""

    def __init__(self, here: Path, store: Store, tell: Callable[[str], None]) -> None:
        self._here = here
        self._store = store
        self._tell = tell

    def items(self) -> Sequence[PendingItem]:
        return [_item(rig, envelope, found) for rig in self._rigs() for envelope, found in self._inbox(rig)]

    def answer(self, item: PendingItem, answer: Answer) -> PendingItem:
        """Send the answer as a RESPONSE that names what it answers."""
        context = item.question.context
        failed = answer.status is not AnswerStatus.SUCCESS
        text = (answer.message if failed else answer.text) or ""
        send(
            make_rig(item.question.project, self._tell),
            SendRequest(
                "RESPONSE",
                context["thread"],
                [context["from"]],
                status=f"❌ {answer.status}" if failed else None,
                body=lambda: text,
                references=[context["commit"]],
            ),
        )
        return msgspec.structs.replace(item, state=PendingState.ANSWERED, answer=answer)

    def _rigs(self) -> list[Rig]:
        return [rig for clone in known_clones(self._here, self._store) if (rig := self._rig(clone.root))]

    def _rig(self, root: str) -> Rig | None:
        try:
            return make_rig(root, self._tell)
        except BridgeheadError as error:
            self._tell(f"{root}: {error.message}")
            return None

    def _inbox(self, rig: Rig) -> Inbox:
        try:
            return look_into_inbox(rig)
        except BridgeheadError as error:
            self._tell(f"{rig.repository.root}: {error.message}")
            return ()


def _item(rig: Rig, envelope: ListedEnvelope, verification: Verification) -> PendingItem:
    turn, root = envelope.turn, rig.repository.root
    question = Question(
        key=f"{root}:{turn.path}",
        kind=PendingKind.ENVELOPE,
        part=Part.RIGS,
        origin=f"rig {turn.sender}",
        title=f'{turn.type} {turn.thread_id} "{turn.tldr or turn.status}" ({verification.state})',
        prompt=rig.repository.read_file(turn.path).decode("utf-8", "replace"),
        project=root,
        context={
            "thread": turn.thread_id,
            "file": turn.filename,
            "from": turn.sender,
            "commit": turn.commit_sha,
            "verification": verification.json_object(),
        },
    )
    opened_at = iso_timestamp((envelope.committed_at or 0) * 1000)
    item_id = envelope_item_id(root, turn.path)
    return PendingItem(id=item_id, question=question, state=PendingState.OPEN, opened_at=opened_at)
