"""What `status` prints: a header and one row per thread, or one object (rigs §7, §8, §11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridgehead.rigs.result_format import LINE_PREFIX, stamped, word
from bridgehead.rigs.terminal import PLAIN, RED, YELLOW, Style
from bridgehead.rigs.thread import ThreadSummary, Turn


class Status(NamedTuple):
    """All threads of a bridge, newest first, and what is not shared yet."""

    threads: Sequence[ThreadSummary]
    dirty_files: Sequence[str]  # porcelain lines, trimmed
    unpushed_commits: Sequence[str]  # `<sha7> <subject>`

    @property
    def closed(self) -> int:
        return sum(thread.is_closed for thread in self.threads)

    @property
    def open(self) -> int:
        return len(self.threads) - self.closed

    def lines(self, *, wide: bool = False, style: Style = PLAIN) -> Iterator[str]:
        unpushed = len(self.unpushed_commits)
        painted = style.paint(str(unpushed), YELLOW if unpushed else None)
        counts = f"open={self.open} closed={self.closed} dirty={len(self.dirty_files)} unpushed={painted}"
        yield f"{LINE_PREFIX}status {counts}"
        for thread in self.threads:
            yield " ".join([*_columns(thread, style), *(_wide_columns(thread, style) if wide else ())])

    def json_object(self) -> dict[str, object]:
        return stamped(
            "status",
            threads=[thread_item(thread) for thread in self.threads],
            dirty_files=list(self.dirty_files),
            unpushed_commits=list(self.unpushed_commits),
            open=self.open,
            closed=self.closed,
        )


def _columns(thread: ThreadSummary, style: Style) -> Iterator[str]:
    turn = thread.latest
    yield f"thread={thread.thread_id}"
    yield f"last={turn.day or '-'}"
    yield f"status={style.status_class(turn.status_class)}"
    yield f"type={style.value(turn.type)}"
    yield f"dirty={style.paint(word(thread.dirty), RED if thread.dirty else None)}"


def _wide_columns(thread: ThreadSummary, style: Style) -> Iterator[str]:
    turn = thread.latest
    yield f"from={style.value(turn.sender)}"
    yield f"to={style.value(','.join(turn.recipients))}"
    yield f"closed={word(thread.is_closed)}"
    yield f"envelopes={thread.envelope_count}"
    yield f"body_hash={style.value(turn.body_hash) or '-'}"
    if thread.heads > 1:
        yield f"heads={thread.heads}"


def thread_item(thread: ThreadSummary) -> dict[str, object]:
    """Return an item of `threads[]`."""
    return {
        "thread_id": thread.thread_id,
        "envelope_count": thread.envelope_count,
        "is_closed": thread.is_closed,
        "status_class": str(thread.latest.status_class),
        "last_modified": thread.last_modified,
        "latest_envelope": _latest_item(thread.latest),
        "last": thread.latest.day,
        "dirty": thread.dirty,
        "frozen": thread.frozen.json_object() if thread.frozen else None,
        "unverified": thread.unverified,
    }


def _latest_item(turn: Turn) -> dict[str, object]:
    to = turn.to if isinstance(turn.to, str) else list(turn.to)
    return {"filename": turn.filename, "type": turn.type, "date": turn.date, "from": turn.sender, "to": to}
