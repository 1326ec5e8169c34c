"""Format what `status`, `thread` and `inbox` print (rigs §7, §8, §11, §12).

There are lines for people, and one object for `--json`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import plural
from bridgehead.rigs.threads.thread import ThreadSummary, Turn
from bridgehead.rigs.views.result_format import LINE_PREFIX, stamped, word
from bridgehead.rigs.views.terminal import PLAIN, RED, YELLOW, Style

if TYPE_CHECKING:
    from bridgehead.rigs.envelope.yaml_core import Value
    from bridgehead.rigs.threads.causality import Divergence
    from bridgehead.rigs.threads.obligations import Obligation
    from bridgehead.rigs.trust.verification_kinds import Verification

SEPARATOR = "=" * 27
UNKNOWN_TYPE = "(unknown)"  # the reference's word for a type that is missing or no text
_SHOWN_FIELDS = ("from", "to", "date", "type", "status", "body_hash")


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

    def debts(self) -> str:
        """Return what this rig owes and is owed in words; empty if that is nothing."""
        owe = sum(thread.owe or 0 for thread in self.threads)
        owed = sum(thread.owed or 0 for thread in self.threads)
        unseen = sum(thread.unseen or 0 for thread in self.threads)
        if not owe and not owed and not unseen:
            return ""
        counts = f"this rig owes {plural(owe, 'answer')} and is owed {owed}"
        if unseen:
            counts += f"; {unseen} delivered and not seen"
        return f"{counts}; rig-bridge inbox --owed lists them"

    def lines(self, *, wide: bool = False, style: Style = PLAIN) -> Iterator[str]:
        unpushed = len(self.unpushed_commits)
        painted = style.paint(str(unpushed), YELLOW if unpushed else None)
        counts = (
            f"open={self.open} closed={self.closed} dirty={len(self.dirty_files)} "
            f"unpushed={painted}"
        )
        yield f"{LINE_PREFIX}status {counts}"
        for thread in self.threads:
            columns = list(_columns(thread, style))
            if wide:
                columns += _wide_columns(thread, style)
            yield " ".join(columns)

    def json_object(self) -> dict[str, object]:
        return stamped(
            "status",
            threads=[thread_item(thread) for thread in self.threads],
            dirty_files=list(self.dirty_files),
            unpushed_commits=list(self.unpushed_commits),
            open=self.open,
            closed=self.closed,
        )


def thread_item(thread: ThreadSummary) -> dict[str, object]:
    """Return an item of `threads[]`."""
    turn = thread.latest
    item: dict[str, object] = {
        "thread_id": thread.thread_id,
        "envelope_count": thread.envelope_count,
        "is_closed": thread.is_closed,
        "status_class": str(turn.status_class),
        "last_modified": thread.last_modified,
        "latest_envelope": {
            "filename": turn.filename,
            "type": turn.type,
            "date": turn.date,
            "from": turn.sender,
            "to": turn.to if isinstance(turn.to, str) else list(turn.to),
        },
        "last": turn.day,
        "dirty": thread.dirty,
        "frozen": thread.frozen.json_object() if thread.frozen else None,
        "unverified": thread.unverified,
    }
    if thread.owe is not None:
        item["owe"] = thread.owe
        item["owed"] = thread.owed
        item["unseen"] = thread.unseen
    return item


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


class ShownEnvelope(NamedTuple):
    """An envelope as a reader sees it."""

    filename: str
    frontmatter: "Mapping[str, Value]"
    body: str
    commit_sha: str | None
    verification: "Verification"

    def json_object(self) -> dict[str, object]:
        return {
            "frontmatter": dict(self.frontmatter),
            "body": self.body,
            "filename": self.filename,
            "commit_sha": self.commit_sha,
            "verification": self.verification.json_object(),
        }


def thread_blocks(
    thread_id: str,
    envelopes: Iterable[ShownEnvelope],
    total: int,
    *,
    style: Style = PLAIN,
) -> Iterator[str]:
    """Yield one block of text per envelope; they are given oldest first."""
    for number, envelope in enumerate(envelopes, 1):
        frontmatter = envelope.frontmatter
        message_type = style.message_type(_text("type", frontmatter.get("type")))
        if style.escape_controls:
            fields = _shown_fields(frontmatter, (*_SHOWN_FIELDS, "tldr"), style.value)
            body = _indented(style.text(envelope.body))
        else:  # piped: the reference's form
            fields = _shown_fields(frontmatter, _SHOWN_FIELDS, str)
            body = envelope.body
        yield (
            f"{LINE_PREFIX}thread {thread_id} envelope={number} of {total} "
            f"type={message_type} file={style.value(envelope.filename)}\n"
            f"---\n{fields}---\n{body}{SEPARATOR}\n"
        )


def _indented(body: str) -> str:
    """Indent a body, so that it cannot be taken for the next envelope."""
    lines = body.removesuffix("\n").split("\n")
    return "".join(f"  {line}\n" for line in lines)


def thread_object(
    thread_id: str,
    envelopes: Iterable[ShownEnvelope],
    divergences: "Sequence[Divergence]",
) -> dict[str, object]:
    """Return the object of `thread --json`."""
    items = [envelope.json_object() for envelope in envelopes]
    return stamped(
        "thread",
        thread_id=thread_id,
        envelope_count=len(items),
        envelopes=items,
        divergences=[divergence.json_object() for divergence in divergences],
    )


def _shown_fields(
    frontmatter: "Mapping[str, Value]", names: Iterable[str], show: Callable[[str], str]
) -> str:
    lines: list[str] = []
    for name in names:
        text = _text(name, frontmatter.get(name))
        if text:
            lines.append(f"{name}: {show(text)}\n")
    return "".join(lines)


def _text(name: str, value: "Value") -> str:
    if isinstance(value, str):
        return value
    if name == "to" and isinstance(value, list):
        return ",".join(item for item in value if isinstance(item, str))
    return UNKNOWN_TYPE if name == "type" else ""


def closed_again(ends: Sequence[Turn]) -> str:
    """Return the remark about a thread with more than one end."""
    filenames = ", ".join(turn.filename for turn in ends)
    return f"thread {ends[0].thread_id} was closed more than once: {filenames}"


class Debt(NamedTuple):
    """A question with what is owed on it."""

    asked: "Notice"
    owed: "Obligation"

    def json_object(self, now_ms: int) -> dict[str, object]:
        return {
            **self.asked.json_object(),
            "tldr": self.asked.turn.tldr or None,
            "debtor": self.owed.debtor,
            "state": str(self.owed.state),
            "due": self.owed.due or None,
            "overdue": self.owed.is_overdue(now_ms),
        }

    def line(self, now_ms: int, style: Style) -> str:
        columns = [self.asked.line(style)]
        if self.owed.turn is not None:
            columns.append(f"state={self.owed.state}")
        if self.owed.due:
            columns.append(f"by={self.owed.due}")
        if self.owed.is_overdue(now_ms):
            columns.append("overdue=true")
        return " ".join(columns)


class Inbox(NamedTuple):
    """What concerns this rig, newest first."""

    owes: Sequence[Debt]
    owed: Sequence[Debt] = ()
    delivered: "Sequence[Notice]" = ()
    escalated: Sequence[Debt] = ()
    conflicts: Sequence[tuple[Turn, ...]] = ()
    remote_seen_at: str | None = None
    # When each rig last wrote: a call, because it reads every thread.
    last_heard: Callable[[], Mapping[str, str]] = dict
    now_ms: int = 0

    @property
    def waiting(self) -> int:
        """How many rows there are: to answer, to look at, and to see to."""
        return len(self.owes) + len(self.delivered) + len(self.escalated)

    def lines(self, *, style: Style = PLAIN, with_owed: bool = False) -> Iterator[str]:
        yield f"{LINE_PREFIX}inbox waiting={self.waiting}"
        for debt in self.owes:
            yield f"{debt.line(self.now_ms, style)}{debt.asked.summary(style)}"
        for notice in self.delivered:
            yield f"{notice.line(style)} state=delivered{notice.summary(style)}"
        for debt in self.escalated:
            debtor = f"escalated=true debtor={style.value(debt.owed.debtor)}"
            yield f"{debt.line(self.now_ms, style)} {debtor}{debt.asked.summary(style)}"
        if not with_owed:
            return
        for debt in self.owed:
            debtor = f"owed_by={style.value(debt.owed.debtor)}"
            yield f"{debt.line(self.now_ms, style)} {debtor}{debt.asked.summary(style)}"

    def remarks(self, *, with_owed: bool = False) -> Iterator[str]:
        """Yield what a reader should know besides the rows."""
        if self.owed and not with_owed:
            yield (
                f"others owe this rig {plural(len(self.owed), 'answer')}; rig-bridge "
                "inbox --owed lists them"
            )
        yield from map(closed_again, self.conflicts)
        yield (
            f"last fetched from the remote: {self.remote_seen_at or 'never'}; "
            "rig-bridge sync --auto fetches again"
        )

    def json_object(self) -> dict[str, object]:
        delivered = [
            {
                **notice.json_object(),
                "tldr": notice.turn.tldr or None,
                "state": "delivered",
            }
            for notice in self.delivered
        ]
        conflicts = [
            {"thread_id": ends[0].thread_id, "files": [turn.filename for turn in ends]}
            for ends in self.conflicts
        ]
        return stamped(
            "inbox",
            envelopes=[*self._objects(self.owes), *delivered],
            owed=self._objects(self.owed),
            escalated=self._objects(self.escalated),
            conflicts=conflicts,
            remote_seen_at=self.remote_seen_at,
            rigs=[
                {"rig_id": rig, "last_heard": at}
                for rig, at in self.last_heard().items()
            ],
        )

    def _objects(self, debts: Sequence[Debt]) -> list[dict[str, object]]:
        return [debt.json_object(self.now_ms) for debt in debts]


class Notice(NamedTuple):
    """An envelope that somebody should hear of."""

    turn: Turn
    verification: "Verification"

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

    def line(self, style: Style) -> str:
        turn = self.turn
        return (
            f"thread={turn.thread_id} type={style.message_type(turn.type)} "
            f"from={style.value(turn.sender)} "
            f"last={turn.day or '-'} file={style.value(turn.filename)} "
            f"verification={self.verification.state}"
        )

    def summary(self, style: Style) -> str:
        """Return the end of a row: the sender's one line about it, if there is one."""
        import json

        if not self.turn.tldr:
            return ""
        tldr = json.dumps(self.turn.tldr, ensure_ascii=False)
        return f" tldr={style.text(tldr)}"
