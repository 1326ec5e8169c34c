"""What `inbox` prints, and the shape in which a single envelope is announced (rigs §8, §12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.result_format import LINE_PREFIX, stamped
from bridgehead.rigs.terminal import PLAIN, Style

if TYPE_CHECKING:
    from bridgehead.rigs.thread import Turn
    from bridgehead.rigs.verification_kinds import Verification


class Notice(NamedTuple):
    """An envelope that somebody should hear of."""

    turn: Turn
    verification: Verification

    def json_object(self) -> dict[str, object]:
        turn = self.turn
        return {
            "thread_id": turn.thread_id,
            "filename": turn.filename,
            "type": turn.type,
            "from": turn.sender,
            "to": turn.to if isinstance(turn.to, str) else list(turn.to),
            "status_class": str(turn.status_class),
            "commit_sha": turn.commit_sha,
            "verification": self.verification.json_object(),
        }


class Inbox(NamedTuple):
    """What waits for this rig, newest first."""

    waiting: Sequence[Notice]

    def lines(self, *, style: Style = PLAIN) -> Iterator[str]:
        yield f"{LINE_PREFIX}inbox waiting={len(self.waiting)}"
        for turn, verification in self.waiting:
            yield (
                f"thread={turn.thread_id} type={style.message_type(turn.type)} from={style.value(turn.sender)} "
                f"last={turn.day or '-'} file={style.value(turn.filename)} verification={verification.state}"
            )

    def json_object(self) -> dict[str, object]:
        items = [{**notice.json_object(), "tldr": notice.turn.tldr or None} for notice in self.waiting]
        return stamped("inbox", envelopes=items)
