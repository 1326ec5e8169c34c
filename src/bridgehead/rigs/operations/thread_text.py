"""What `thread` prints: made from the envelopes once, and given again while it is still true (rigs §8 thread)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bridgehead.rigs.answer_files import WORTH_KEEPING, AnswerFile
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.wanted_thread import wanted_thread
from bridgehead.rigs.terminal import PLAIN, EncodedText, Style
from bridgehead.rigs.work_tree_state import state_of

if TYPE_CHECKING:
    from bridgehead.rigs.operations.thread import ShownThread


def thread_text(rig: Rig, typed: str | None, *, as_json: bool = False, style: Style = PLAIN) -> Iterable[str]:
    """The whole of a thread, in pieces; only the plain form is kept."""
    thread_id = wanted_thread(rig, typed)
    survey = rig.repository.survey(thread_id)
    state = state_of(survey, rig.repository.stamp, time.time_ns())
    kept = AnswerFile(rig.repository.private_dir, f"{thread_id}.{'json' if as_json else 'txt'}")
    found = kept.find(state) if style == PLAIN else None
    if found is not None:
        for sentence in found.told:
            rig.tell(sentence)
        return EncodedText(found.encoded)
    from bridgehead.rigs.operations.thread import thread

    told = rig.overhear()
    shown = thread(rig, thread_id, survey)
    pieces = iter([_json(shown)]) if as_json else _blocks(shown, style)
    if style == PLAIN and shown.is_self_contained and shown.total >= WORTH_KEEPING:
        return kept.keeping(state, pieces, told)
    return pieces


def _json(shown: ShownThread) -> str:
    from json import dumps

    from bridgehead.rigs.thread_view import thread_object

    document = thread_object(shown.thread_id, shown.envelopes, shown.divergences)
    return dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _blocks(shown: ShownThread, style: Style) -> Iterator[str]:
    from bridgehead.rigs.thread_view import thread_blocks

    return thread_blocks(shown.thread_id, shown.envelopes, shown.total, style=style)
