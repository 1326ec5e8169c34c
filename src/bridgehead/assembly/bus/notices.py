"""What the record tells people on the bus: notices of the parts, pending items as they
open and close (design §1).

The record is followed in a thread of its own. Envelopes awaiting a reply are computed,
so the inboxes are looked at whenever something was pulled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.pending import pending_list
from bridgehead.bus.interfaces import Notice
from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.record_words import PendingKind, PendingState
from bridgehead.control_plane.records import EventFilter, PendingFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")

PENDING: Final = "pending"
PULLED: Final = "rig.pulled"
WAITING: Final = "rig.waiting"
OVERDUE: Final = "rig.overdue"
FOLLOWED: Final = EventFilter(
    kinds=(
        "notice",
        "pending.opened",
        "pending.answered",
        "pending.withdrawn",
        PULLED,
        WAITING,
        OVERDUE,
    )
)
MAX_OPEN: Final = 20
RETRY_S: Final = 5.0
LONGEST: Final = 4000
"""Characters of a question that a notice carries."""

_NOTICE_KEYS: Final = ("kind", "id", "title", "status")
Notify = Callable[[Notice], object]


class RecordNotices:
    """Notices from the record."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._known_envelopes: set[str] | None = None

    def open_items(self) -> list[Notice]:
        """Pending items now, the newest last."""
        with self._assembly.store(read_only=True) as store:
            return [question_notice(item) for item in reversed(self._open(store))]

    def follow(self, notify: Notify) -> Callable[[], None]:
        """Hand over each new notice from a thread of its own, until the returned
        function is called.
        """
        stop = threading.Event()
        with self._assembly.store() as store:
            after = store.last_seq()
        thread = threading.Thread(
            target=self._keep_following,
            args=(after, stop, notify),
            name="bus-notices",
            daemon=True,
        )
        thread.start()

        def end() -> None:
            stop.set()
            thread.join(timeout=10)

        return end

    def _keep_following(
        self, after: int, stop: threading.Event, notify: Notify
    ) -> None:
        while not stop.is_set():
            try:
                with self._assembly.store(read_only=True) as store:
                    if self._known_envelopes is None:
                        self._new_envelopes(store)
                    for recorded in store.follow(after, stop=stop, where=FOLLOWED):
                        for notice in self._notices(store, recorded):
                            notify(notice)
                        after = recorded.seq
            except BridgeheadError as error:
                # The record may be away for a while (a server that restarts); nothing
                # is missed, `after` stays.
                _log.warning(
                    "notices are delayed, the record cannot be read: %s", error.message
                )
                stop.wait(RETRY_S)

    def _notices(self, store: Store, recorded: RecordedEvent) -> list[Notice]:
        event = recorded.event
        if event.kind == PULLED:
            return [question_notice(item) for item in self._new_envelopes(store)]
        if event.kind in (WAITING, OVERDUE):
            return _of_rig(event)
        if event.kind == "notice":
            kind, run_id, title, status = (
                str(event.data.get(key, "")) for key in _NOTICE_KEYS
            )
            if kind == PENDING:  # only an item of the record is a question
                _log.warning(
                    "a notice that poses as pending item %s is ignored", run_id
                )
                return []
            return [Notice(kind=kind, id=run_id, title=title, status=status)]
        item = store.pending_item(str(event.data["id"]))
        if event.kind == "pending.opened":
            return [question_notice(item)] if item.state is PendingState.OPEN else []
        return [_closed(item)]

    def _new_envelopes(self, store: Store) -> list[PendingItem]:
        found = [
            item
            for item in self._open(store)
            if item.question.kind is PendingKind.ENVELOPE
        ]
        new = [item for item in found if item.id not in (self._known_envelopes or ())]
        self._known_envelopes = {item.id for item in found}
        return new

    def _open(self, store: Store) -> list[PendingItem]:
        # Titles as they were asked: a number after one would change the digest with
        # every question of that title.
        return pending_list(self._assembly, store, _log.warning).items(
            PendingFilter(), limit=MAX_OPEN, numbered=False
        )


def _of_rig(event: Event) -> list[Notice]:
    """Answers that arrived, and answers that did not.

    The questions themselves are pending items.
    """
    thread = str(event.data.get("thread", ""))
    debtor = event.data.get("debtor")
    if event.kind == OVERDUE:
        return [
            Notice(
                kind="rig",
                id=thread,
                title=f"{debtor} is overdue in thread {thread}",
                status="needs_you",
            )
        ]
    if not event.data.get("answers"):
        return []
    return [
        Notice(
            kind="rig",
            id=thread,
            title=f"an answer arrived in thread {thread}",
            status="finished",
        )
    ]


def question_notice(item: PendingItem) -> Notice:
    """Return a pending item as participants are shown it."""
    asked = item.question
    text = (
        asked.text
        if len(asked.text) <= LONGEST
        else f"{asked.text[:LONGEST]}… (bridgehead pending show {item.id})"
    )
    # a file of this machine.
    told = {name: one for name, one in asked.details.items() if name != "response_file"}
    return _of_item(
        item, status="needs_you", choices=asked.offers, prompt=text, details=told
    )


def _closed(item: PendingItem) -> Notice:
    """Return what became of an item.

    The answer itself may be confidential and stays in the record.
    """
    return _of_item(
        item,
        status=str(item.state),
        by=item.answer.by if item.answer is not None else None,
    )


def _of_item(item: PendingItem, **more: Any) -> Notice:
    return Notice(
        kind=PENDING,
        id=item.id,
        title=f"{item.question.origin}: {item.question.title}",
        **more,
    )
