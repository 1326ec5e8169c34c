"""Order the turns of a thread, and choose default recipients (rigs §6, §8, §10)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bridgehead.rigs.envelope.fields import StatusClass, is_date, listed_status_class
from bridgehead.rigs.envelope.names import RigId, is_rig_id, normalise
from bridgehead.rigs.envelope.yaml_core import Value

if TYPE_CHECKING:
    from bridgehead.rigs.threads.freeze import Freeze

OrderKey: TypeAlias = tuple[str, bool, int, str, str]


class Turn(NamedTuple):
    """One envelope of a thread; fields that are not text in the file are empty here."""

    thread_id: str
    filename: str
    type: str
    sender: str
    to: str | tuple[str, ...]  # as written: one rig or a list
    date: str
    status: str
    tldr: str = ""
    body_hash: str = ""
    references: tuple[str, ...] = ()
    in_reply_to: str = ""
    commit_sha: str | None = None  # of the commit that added it, None while uncommitted
    position: int | None = None  # of that commit in history, oldest first

    @property
    def path(self) -> str:
        return f"{self.thread_id}/{self.filename}"

    @property
    def recipients(self) -> tuple[str, ...]:
        return self.to if isinstance(self.to, tuple) else (self.to,)

    @property
    def day(self) -> str:
        """The day it is dated, empty if the date has no such shape."""
        return self.date[:10] if is_date(self.date) else ""

    @property
    def status_class(self) -> StatusClass:
        return listed_status_class(self.status)

    def order_key(self) -> OrderKey:
        """Return what turns are sorted by: day, commit position, date text, filename.

        Uncommitted turns come last within their day.
        """
        return (
            self.day,
            self.position is None,
            self.position or 0,
            self.date,
            self.filename,
        )


def turn_of(
    thread_id: str,
    filename: str,
    frontmatter: Mapping[str, Value],
    *,
    commit_sha: str | None = None,
    position: int | None = None,
) -> Turn:
    """Take from frontmatter, valid or not, what ordering and listing need."""

    def text(name: str) -> str:
        value = frontmatter.get(name)
        return value if isinstance(value, str) else ""

    to = frontmatter.get("to")
    recipients: str | tuple[str, ...] = text("to")
    if isinstance(to, list):
        recipients = _texts(to)
    return Turn(
        thread_id=thread_id,
        filename=filename,
        type=text("type"),
        sender=text("from"),
        to=recipients,
        date=text("date"),
        status=text("status"),
        tldr=text("tldr"),
        body_hash=text("body_hash"),
        references=_texts(frontmatter.get("references")),
        in_reply_to=text("in_reply_to"),
        commit_sha=commit_sha,
        position=position,
    )


def _texts(value: Value) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def in_order(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns of a thread, oldest first."""
    return sorted(turns, key=Turn.order_key)


def latest(turns: Iterable[Turn]) -> Turn:
    """Return the newest turn; there must be one."""
    return max(turns, key=Turn.order_key)


class ThreadSummary(NamedTuple):
    """A thread as listings show it."""

    latest: Turn
    envelope_count: int
    is_closed: bool
    # ISO UTC with ms: commit time of the latest turn, or mtime while it is uncommitted.
    last_modified: str = ""
    dirty: bool = False
    frozen: "Freeze | None" = None
    unverified: int = 0
    heads: int = 1
    # Questions in it that this rig has to answer; None if nobody has asked.
    owe: int | None = None
    owed: int | None = None  # and those others have to answer to it
    unseen: int | None = None  # answers to it that nobody here has looked at

    @property
    def thread_id(self) -> str:
        return self.latest.thread_id


def newest_first(threads: Iterable[ThreadSummary]) -> list[ThreadSummary]:
    """Order threads by their latest turn, newest first, then by id."""
    by_id = sorted(threads, key=lambda thread: thread.thread_id)
    return sorted(by_id, key=lambda thread: thread.latest.order_key(), reverse=True)


def dirty_threads(paths: Sequence[str]) -> frozenset[str]:
    """Return the threads of changed paths, whose rows show dirty=true."""
    return frozenset(path.partition("/")[0] for path in paths)


def closing_recipient(
    own: RigId,
    thread: Iterable[Mapping[str, Value]],
    repository: Iterable[Mapping[str, Value]],
) -> RigId:
    """Return the rig named most often in the thread or the repository, or ourselves.

    Ties go to the lower id. `repository` is read only if the thread names nobody
    else.
    """
    counts = _count_others(own, thread) or _count_others(own, repository)
    return min(counts, key=lambda rig: (-counts[rig], rig), default=own)


def relay_recipient(own: RigId, thread: Iterable[Mapping[str, Value]]) -> RigId:
    """Return the rig named most often in the thread, or else ourselves.

    Ties go to the rig that was seen first.
    """
    counts = _count_others(own, thread)
    return max(counts, key=lambda rig: counts[rig], default=own)


def _count_others(
    own: RigId, frontmatters: Iterable[Mapping[str, Value]]
) -> dict[RigId, int]:
    """Count each `from` and each `to` once, in the order first seen."""
    counts: dict[RigId, int] = {}
    for frontmatter in frontmatters:
        to = frontmatter.get("to")
        recipients = to if isinstance(to, list) else [to]
        for name in (frontmatter.get("from"), *recipients):
            if not isinstance(name, str):
                continue
            rig = RigId(normalise(name))
            if rig != own and is_rig_id(rig):
                counts[rig] = counts.get(rig, 0) + 1
    return counts
