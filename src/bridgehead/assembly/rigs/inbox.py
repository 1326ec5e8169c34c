"""Envelopes awaiting a reply: as pending items, and fenced so that an agent can be shown them (rigs §8, design
§5.5).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridgehead.assembly.rigs.clones import known_clones
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.assembly.rigs.views_cache import Inbox, cached_inbox
from bridgehead.contract.fencing import Fence
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import AnswerStatus, Part, PendingKind, PendingState
from bridgehead.contract.words import Trust
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError, FileError
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.inbox import waiting_envelopes
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.rig import Reviews, Rig
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.trust.verification_kinds import Verification, VerificationState
from bridgehead.rigs.views.listings import Notice
from bridgehead.rigs.views.result_format import stamped

ID_PREFIX = "r-"
MOST_ENVELOPES = 20
MOST_CHARACTERS = 60_000  # of one envelope; an agent that wants the rest can read the file
_TRUST = {
    VerificationState.VERIFIED: Trust.VERIFIED,
    VerificationState.UNVERIFIED: Trust.UNVERIFIED,
    VerificationState.BROKEN: Trust.UNTRUSTED,
}


def envelope_item_id(root: str, path: str) -> str:
    """Return the same id for the same envelope in the same clone, whoever asks."""
    digest = sha256(f"{root}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{ID_PREFIX}{digest}"


class FencedEnvelope(NamedTuple):
    """One envelope that waits: `id` is what `bridgehead answer` takes, `text` the whole file, fenced."""

    id: str
    notice: Notice
    text: str

    def block(self) -> str:
        turn = self.notice.turn
        return (
            f"{turn.type} in thread {turn.thread_id}, commit {turn.commit_sha}. "
            f"To answer it: bridgehead answer {self.id} --file <your answer>\n{self.text}"
        )


class EnvelopesForAgent(NamedTuple):
    """What waits for one rig, newest first, ready for a prompt."""

    rig_id: str
    preamble: str  # explains the marker; belongs before the first fenced text
    envelopes: Sequence[FencedEnvelope]
    left_out: int = 0  # older ones that wait too

    def prompt(self) -> str:
        """Everything in one text; the empty inbox is one sentence."""
        count = len(self.envelopes) + self.left_out
        if not count:
            return f"No envelope waits for rig {self.rig_id}.\n"
        opening = f"{count} {'envelope waits' if count == 1 else 'envelopes wait'} for rig {self.rig_id}."
        if self.left_out:
            opening += f" The newest {len(self.envelopes)} follow."
        return "\n\n".join([opening, self.preamble, *(fenced.block() for fenced in self.envelopes)]) + "\n"

    def json_object(self) -> dict[str, object]:
        items = [
            {
                "id": fenced.id,
                **fenced.notice.json_object(),
                "tldr": fenced.notice.turn.tldr or None,
                "text": fenced.text,
            }
            for fenced in self.envelopes
        ]
        return stamped("inbox", envelopes=items, left_out=self.left_out, prompt=self.prompt())


def envelopes_for_agent(
    rig: Rig,
    *,
    choose: Callable[[str], str] = secrets.choice,
    most: int = MOST_ENVELOPES,
) -> EnvelopesForAgent:
    """What waits for a rig (`make_rig` of assembly/rigs/rig.py), at most `most` of it.

    A clone without identity raises ConfigMissing; an envelope that vanishes meanwhile is left out with a warning.
    """
    waiting = [Notice(envelope.turn, verdict) for envelope, verdict in waiting_envelopes(rig)]
    fence = Fence(choose)
    fenced = [found for notice in waiting[:most] if (found := _fenced(rig, fence, notice))]
    return EnvelopesForAgent(rig.config.rig_id, fence.preamble, fenced, max(0, len(waiting) - most))


def _fenced(rig: Rig, fence: Fence, notice: Notice) -> FencedEnvelope | None:
    turn, verification = notice
    try:
        text = rig.repository.read_file(turn.path).decode("utf-8", "replace")
    except FileError as error:
        rig.tell(f"warning: {turn.path}: {error.message}; left out")
        return None
    if len(text) > MOST_CHARACTERS:
        text = (
            f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text) - MOST_CHARACTERS} more characters in the file]"
        )
    inside = fence.wrap(text, origin=f"rig {turn.sender}, {turn.path}", trust=_TRUST[verification.state])
    return FencedEnvelope(envelope_item_id(rig.repository.root, turn.path), notice, inside)


class PendingEnvelopes:
    """The inboxes of the current repository and of those the record has events of."""

    def __init__(
        self, here: Path, store: Store, warn: Callable[[str], None], reviews: Callable[[str], Reviews]
    ) -> None:
        self._here = here
        self._store = store
        self._warn = warn
        self._reviews = reviews

    def items(self) -> Sequence[PendingItem]:
        return [_item(rig, envelope, found) for rig in self._rigs() for envelope, found in self._inbox(rig)]

    def answer(self, item: PendingItem, answer: Answer) -> PendingItem:
        """Send the answer as a RESPONSE that names what it answers."""
        context = item.question.context
        failed = answer.status is not AnswerStatus.SUCCESS
        text = (answer.message if failed else answer.text) or ""
        send(
            make_rig(item.question.project, self._warn, self._reviews),
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
            return make_rig(root, self._warn)
        except BridgeheadError as error:
            self._warn(f"{root}: {error.message}")
            return None

    def _inbox(self, rig: Rig) -> Inbox:
        try:
            return cached_inbox(rig)
        except BridgeheadError as error:
            self._warn(f"{rig.repository.root}: {error.message}")
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
