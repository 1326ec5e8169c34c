"""Flows connected to the record: what happens in them becomes events, what they ask becomes pending items.

The flow's own journal and files decide; the record is told afterwards and is never needed for a flow to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.flows.announcer import FlowEvent, OpenRequest

if TYPE_CHECKING:
    from bridgehead.contract.pending import Answer, PendingItem
    from bridgehead.control_plane.stores.base import Store


class RecordingAnnouncer:
    """Opens the record when there is something to say; trouble with it is one warning, never an error."""

    def __init__(self, root: Path, warn: Callable[[str], None]) -> None:
        self._root = root
        self._warn = warn

    def happened(self, event: FlowEvent) -> None:
        from bridgehead.flows.projection import event_of

        self._with_store(lambda store: store.append([event_of(event)]))

    def asked(self, request: OpenRequest) -> None:
        from bridgehead.flows.projection import question_of

        self._with_store(lambda store: store.open_pending(question_of(request)))

    def settled(self, request_id: str, status: str) -> None:
        self._with_store(lambda store: _withdraw(store, request_id, status))

    def _with_store(self, work: Callable[[Store], object]) -> None:
        from bridgehead.assembly.application import Assembly
        from bridgehead.errors import BridgeheadError

        try:
            with Assembly(self._root).store() as store:
                work(store)
        except BridgeheadError as error:
            self._warn(f"not recorded: {error.message}")


def answer_flow(item: PendingItem, answer: Answer) -> None:
    """Write the response of a flow's request; the flow's own rule of one answer decides."""
    from bridgehead.flows.operations.respond import respond
    from bridgehead.flows.projection import response_to

    respond(response_to(item.question, answer))


def _withdraw(store: Store, request_id: str, status: str) -> None:
    """Close the item of a request that wants no answer any more; an answered one stays as it is."""
    from bridgehead.contract.words import PendingKind
    from bridgehead.control_plane.records import PendingFilter

    open_requests = store.pending(PendingFilter(kinds=(PendingKind.FLOW_REQUEST,)), limit=10_000)
    for item in open_requests:
        if item.question.key == request_id:
            store.withdraw_pending(item.id, reason=f"the flow settled it: {status}")
