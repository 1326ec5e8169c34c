"""What `status`, `thread` and `inbox` print: lines for people, one object for `--json` (rigs §7, §8, §11, §12)."""

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
        """What this rig owes and is owed, and where that is listed; empty if there is nothing of the kind."""
        kinds = ("owe", "owed", "unseen")
        owe, owed, unseen = (
            sum(getattr(thread, kind) or 0 for thread in self.threads) for kind in kinds
        )
        arrived = f"; {unseen} delivered and not seen" if unseen else ""
        counts = f"this rig owes {plural(owe, 'answer')} and is owed {owed}{arrived}"
        return (
            f"{counts}; rig-bridge inbox --owed lists them"
            if owe or owed or unseen
            else ""
        )

    def lines(self, *, wide: bool = False, style: Style = PLAIN) -> Iterator[str]:
        unpushed = len(self.unpushed_commits)
        painted = style.paint(str(unpushed), YELLOW if unpushed else None)
        counts = (
            f"open={self.open} closed={self.closed} dirty={len(self.dirty_files)} "
            f"unpushed={painted}"
        )
        yield f"{LINE_PREFIX}status {counts}"
        for thread in self.threads:
            yield " ".join(
                [
                    *_columns(thread, style),
                    *(_wide_columns(thread, style) if wide else ()),
                ]
            )

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
    newest = {name: getattr(turn, name) for name in ("filename", "type", "date")}
    return {
        "thread_id": thread.thread_id,
        "envelope_count": thread.envelope_count,
        "is_closed": thread.is_closed,
        "status_class": str(thread.latest.status_class),
        "last_modified": thread.last_modified,
        "latest_envelope": newest
        | {
            "from": turn.sender,
            "to": turn.to if isinstance(turn.to, str) else list(turn.to),
        },
        "last": thread.latest.day,
        "dirty": thread.dirty,
        "frozen": thread.frozen.json_object() if thread.frozen else None,
        "unverified": thread.unverified,
        **(
            {}
            if thread.owe is None
            else {"owe": thread.owe, "owed": thread.owed, "unseen": thread.unseen}
        ),
    }


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
    """Yield one block of text per envelope, given oldest first; they can be printed as they come."""
    on_terminal = style.escape_controls
    # Of ten thousand, most are piped: the reference's form.
    show = style.value if on_terminal else str
    names = (*_SHOWN_FIELDS, "tldr") if on_terminal else _SHOWN_FIELDS
    for number, (filename, frontmatter, body, _, _) in enumerate(envelopes, 1):
        kind = style.message_type(_text("type", frontmatter.get("type")))
        file = style.value(filename)
        if on_terminal:  # set in, so that no body can pass for the next envelope
            body = "".join(
                f"  {line}\n"
                for line in style.text(body).removesuffix("\n").split("\n")
            )
        yield (
            f"{LINE_PREFIX}thread {thread_id} envelope={number} of {total} "
            f"type={kind} file={file}\n"
            f"---\n{_shown_fields(frontmatter, names, show)}---\n{body}{SEPARATOR}\n"
        )


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
    return "".join(
        [
            f"{name}: {show(text)}\n"
            for name in names
            if (text := _text(name, frontmatter.get(name)))
        ]
    )


def _text(name: str, value: "Value") -> str:
    if isinstance(value, str):
        return value
    if name == "to" and isinstance(value, list):
        return ",".join(item for item in value if isinstance(item, str))
    return UNKNOWN_TYPE if name == "type" else ""


def closed_again(ends: Sequence[Turn]) -> str:
    """What is said of a thread with more than one end."""
    return (
        f"thread {ends[0].thread_id} was closed more than once: "
        f"{', '.join(turn.filename for turn in ends)}"
    )


class Debt(NamedTuple):
    """A question with what is owed on it."""

    asked: "Notice"
    owed: "Obligation"

    def json_object(self, now_ms: int) -> dict[str, object]:
        one = self.owed
        return {
            **self.asked.json_object(),
            "tldr": self.asked.turn.tldr or None,
            "debtor": one.debtor,
            "state": str(one.state),
            "due": one.due or None,
            "overdue": one.is_overdue(now_ms),
        }

    def line(self, now_ms: int, style: Style) -> str:
        one = self.owed
        notes = [f"state={one.state}"] if one.turn is not None else []
        notes += [f"by={one.due}"] if one.due else []
        notes += ["overdue=true"] if one.is_overdue(now_ms) else []
        return " ".join([self.asked.line(style), *notes])


class Inbox(NamedTuple):
    """What concerns this rig, newest first."""

    owes: Sequence[Debt]
    owed: Sequence[Debt] = ()
    delivered: "Sequence[Notice]" = ()
    escalated: Sequence[Debt] = ()
    conflicts: Sequence[tuple[Turn, ...]] = ()
    remote_seen_at: str | None = None
    last_heard: Callable[[], Mapping[str, str]] = (
        dict  # only documents say it, and it takes reading every thread
    )
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
            who = f"escalated=true debtor={style.value(debt.owed.debtor)}"
            yield f"{debt.line(self.now_ms, style)} {who}{debt.asked.summary(style)}"
        for debt in self.owed if with_owed else ():
            yield (
                f"{debt.line(self.now_ms, style)} "
                f"owed_by={style.value(debt.owed.debtor)}{debt.asked.summary(style)}"
            )

    def remarks(self, *, with_owed: bool = False) -> Iterator[str]:
        """What a reader should know beside the rows."""
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
        def debts(listed: Sequence[Debt]) -> list[dict[str, object]]:
            return [debt.json_object(self.now_ms) for debt in listed]

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
            envelopes=[*debts(self.owes), *delivered],
            owed=debts(self.owed),
            escalated=debts(self.escalated),
            conflicts=conflicts,
            remote_seen_at=self.remote_seen_at,
            rigs=[
                {"rig_id": rig, "last_heard": at}
                for rig, at in self.last_heard().items()
            ],
        )


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
        """What ends a row: the sender's one line about it."""
        import json

        return (
            f" tldr={style.text(json.dumps(self.turn.tldr, ensure_ascii=False))}"
            if self.turn.tldr
            else ""
        )
