"""Envelopes that wait for this rig, fenced so that they can be put before an agent (design §5.5).

What another rig wrote stands only inside the fence; around it are words of ours and values whose shape was checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridgehead.assembly.envelope_ids import envelope_item_id
from bridgehead.contract.fencing import Fence
from bridgehead.contract.words import Trust
from bridgehead.errors import FileError
from bridgehead.rigs.inbox_view import Notice
from bridgehead.rigs.operations.inbox import waiting_envelopes
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.result_format import stamped
from bridgehead.rigs.verification_kinds import VerificationState

MOST_ENVELOPES = 20
MOST_CHARACTERS = 60_000  # of one envelope; an agent that wants the rest can read the file

_TRUST = {
    VerificationState.VERIFIED: Trust.VERIFIED,
    VerificationState.UNVERIFIED: Trust.UNVERIFIED,
    VerificationState.BROKEN: Trust.UNTRUSTED,
}


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
    """What waits for a rig (`make_rig` of assembly/rigs.py), at most `most` of it.

    A clone without identity raises ConfigMissing; an envelope that vanishes meanwhile is left out, and told.
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
