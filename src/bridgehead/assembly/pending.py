"""One list of everything that waits for someone, and one way to answer it.

Most items are in the record. Some are computed by their part when asked for (envelopes awaiting a reply, rigs §8);
those come from a `ComputedItems` source, which also knows what answering means. Where a part keeps the answer itself
(a flow's response file), a carrier hands it over before the record is told: the part's own rule of one answer decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bridgehead.assembly.application import Assembly
from bridgehead.contract.pending import Answer, PendingItem, refusal
from bridgehead.contract.words import PendingKind, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import AlreadyAnswered, UserError


class ComputedItems(Protocol):
    """Items that a part works out from its own state instead of keeping them in the record."""

    def items(self) -> Sequence[PendingItem]:
        """What waits now, the newest first."""
        ...

    def answer(self, item: PendingItem, answer: Answer) -> PendingItem:
        """Carry out the answer; the item as it is afterwards."""
        ...


class UnfitAnswer(UserError):
    """An answer that does not fit its question."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(
            f"{item_id} was not answered: {reason}", hint=f"bridgehead pending shows what {item_id} asks"
        )


class PendingList:
    """The record's pending items together with the computed ones."""

    def __init__(
        self,
        store: Store,
        *,
        computed: Sequence[ComputedItems] = (),
        carriers: Mapping[PendingKind, Callable[[PendingItem, Answer], None]] | None = None,
    ) -> None:
        self._store = store
        self._computed = computed
        self._carriers = carriers or {}

    def items(self, where: PendingFilter, *, limit: int) -> list[PendingItem]:
        """The latest asked first. Computed items are open by nature."""
        kept = self._store.pending(where, limit=limit)
        computed = [item for source in self._computed for item in source.items() if where.admits(item)]
        return sorted([*kept, *computed], key=lambda item: item.opened_at, reverse=True)[:limit]

    def find(self, reference: str) -> PendingItem:
        """The item a person means by an id or its unambiguous ending."""
        for source in self._computed:
            for item in source.items():
                if item.id == reference:
                    return item
        return self._store.find_pending(reference)

    def answer(self, reference: str, answer: Answer) -> PendingItem:
        """Answer once. Whoever comes second is told who was first."""
        item = self.find(reference)
        if item.state is PendingState.ANSWERED and item.answer is not None:
            raise AlreadyAnswered(item.id, by=item.answer.by, at=item.answer.at)
        if reason := refusal(item.question, answer):
            raise UnfitAnswer(item.id, reason)
        for source in self._computed:
            if any(own.id == item.id for own in source.items()):
                return source.answer(item, answer)
        self._carry(item, answer)
        return self._store.answer_pending(item.id, answer)

    def _carry(self, item: PendingItem, answer: Answer) -> None:
        """Hand the answer to the part that keeps it; one that was first there may not be in the record yet."""
        carry = self._carriers.get(item.question.kind)
        if carry is None:
            return
        try:
            carry(item, answer)
        except AlreadyAnswered as error:
            first = self.find(item.id).answer
            raise AlreadyAnswered(
                item.id, by=first.by if first else None, at=first.at if first else None
            ) from error


def pending_list(assembly: Assembly, store: Store, tell: Callable[[str], None]) -> PendingList:
    """Everything that waits for someone: the record's items and what the parts compute. `tell` gets warnings."""
    from bridgehead.assembly.flows.recording import answer_flow
    from bridgehead.assembly.rigs.inbox import PendingEnvelopes

    return PendingList(
        store,
        computed=(PendingEnvelopes(assembly.places.project, store, tell),),
        carriers={PendingKind.FLOW_REQUEST: answer_flow},
    )
