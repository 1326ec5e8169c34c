"""One list of everything that waits for someone, and one way to answer it.

Most items are in the record. Some are computed by their part when asked for (envelopes
awaiting a reply, rigs §8); those come from a `ComputedItems` source, which also knows
what answering means. Where a part keeps the answer itself (a flow's response file), it
is handed over before the record gets it: the part's own rule of one answer decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.clones import known_clones
from bridgehead.contract.doors import (
    Decision,
    Door,
    Evidence,
    asks_for_person,
    decide_door,
)
from bridgehead.contract.pending import Answer, PendingItem, Question, refusal
from bridgehead.contract.record_words import PendingKind, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import AlreadyAnswered, UserError
from bridgehead.host.secrets_scan import with_secrets_masked

NO_EVIDENCE: Final = Evidence()


class ComputedItems(Protocol):
    """Items that a part works out from its own state instead of keeping them in the
    record.
    """

    def items(self) -> Sequence[PendingItem]:
        """Return what waits now, the newest first."""
        ...

    def answer(self, item: PendingItem, answer: Answer) -> PendingItem:
        """Carry out the answer; the item as it is afterwards."""
        ...


class UnfitAnswer(UserError):
    """An answer that does not fit its question."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(
            f"{item_id} was not answered: {reason}",
            hint=f"`bridgehead pending {item_id}` shows the question",
        )


class ClosedDoor(UserError):
    """An answer came by a door that the question is not open to."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason, hint=decision.hint or None)


class PendingList:
    """The record's pending items together with the computed ones."""

    def __init__(
        self,
        store: Store,
        *,
        computed: Sequence[ComputedItems] = (),
        takers: Mapping[PendingKind, Callable[[PendingItem, Answer], None]]
        | None = None,
    ) -> None:
        self._store = store
        self._computed = computed
        self._takers = takers or {}

    def items(
        self, where: PendingFilter, *, limit: int, numbered: bool = True
    ) -> list[PendingItem]:
        """Return the items, the latest asked first.

        If `numbered`, no two have the same title. Computed items are open by nature.
        """
        found = list(self._store.pending(where, limit=limit))
        found += [item for item in self._computed_items() if where.admits(item)]
        found.sort(key=lambda item: item.opened_at, reverse=True)
        latest = found[:limit]
        return told_apart(latest) if numbered else latest

    def _computed_items(self) -> Iterator[PendingItem]:
        for source in self._computed:
            yield from source.items()

    def find(self, reference: str) -> PendingItem:
        """Return the item a person means by an id or its unambiguous ending."""
        for item in self._computed_items():
            if item.id == reference:
                return item
        return self._store.find_pending(reference)

    def answer(
        self,
        reference: str,
        answer: Answer,
        door: Door,
        evidence: Evidence = NO_EVIDENCE,
        *,
        asked: Question | None = None,
    ) -> PendingItem:
        """Answer once, by a door that the question is open to.

        Whoever comes second is told who was first. With `asked` the answer counts
        for this wording of the question only.
        """
        item = self.find(reference)
        if council_of(item) is not None:
            answer = _without_secrets(answer)
        for_person = asks_for_person(item.question)
        decision = decide_door(door, for_person, evidence, item.id)
        if not decision.allowed:
            raise ClosedDoor(decision)
        if item.state is PendingState.ANSWERED and item.answer is not None:
            raise AlreadyAnswered(item.id, by=item.answer.by, at=item.answer.at)
        if reason := refusal(item.question, answer):
            raise UnfitAnswer(item.id, reason)
        for source in self._computed:
            if any(own.id == item.id for own in source.items()):
                return source.answer(item, answer)
        # Before a part gets it: what the record refuses must change nothing anywhere.
        self._store.refuse_answer(item, answer)
        self._give_to_part(item, answer)
        return self._store.answer_pending(item.id, answer, asked=asked)

    def _give_to_part(self, item: PendingItem, answer: Answer) -> None:
        """Hand the answer to the part that keeps it.

        One that was first there may not be in the record yet.
        """
        take = self._takers.get(item.question.kind)
        if take is None:
            return
        try:
            take(item, answer)
        except AlreadyAnswered as error:
            first = self.find(item.id).answer
            raise AlreadyAnswered(
                item.id, by=first.by if first else None, at=first.at if first else None
            ) from error


def _without_secrets(answer: Answer) -> Answer:
    """Return what the host of a council says as it may be kept."""
    text = with_secrets_masked(answer.text)[0] if answer.text else answer.text
    message = with_secrets_masked(answer.message)[0] if answer.message else None
    return replace(answer, text=text, message=message)


def told_apart(items: Sequence[PendingItem]) -> list[PendingItem]:
    """Return the items, those with one title numbered in the order in which they were
    asked.
    """
    alike = Counter(item.question.title for item in items)
    number = Counter[str]()
    named: list[PendingItem] = []
    for item in reversed(items):
        title = item.question.title
        number[title] += 1
        if alike[title] > 1:
            question = replace(
                item.question, title=f"{title} ({number[title]} of {alike[title]})"
            )
            item = replace(item, question=question)
        named.append(item)
    return named[::-1]


def grouped(items: Sequence[PendingItem]) -> list[tuple[str | None, list[PendingItem]]]:
    """Return what is one thing to do, in the order of its newest part: all a council
    asks, with its id; others alone.
    """
    groups: dict[str, tuple[str | None, list[PendingItem]]] = {}
    for item in items:
        council = council_of(item)
        groups.setdefault(council or item.id, (council, []))[1].append(item)
    return [
        (council if len(parts) > 1 else None, parts)
        for council, parts in groups.values()
    ]


def council_of(item: PendingItem) -> str | None:
    """Return the council an item belongs to: a seat of it halted, or asks the agent
    that holds it.
    """
    run_id = item.question.run_id or ""
    if item.question.kind is PendingKind.HALTED_RUNTIME:
        return run_id or None
    return run_id.removeprefix("council-") if run_id.startswith("council-") else None


def _answer_flow(item: PendingItem, answer: Answer) -> None:
    from bridgehead.assembly.flows.recording import answer_flow

    answer_flow(item, answer)


def pending_list(
    assembly: Assembly, store: Store, warn: Callable[[str], None]
) -> PendingList:
    """Return everything that waits for someone: the record's items and what the parts
    compute.

    `warn` gets warnings.
    """
    project = assembly.places.project
    computed: list[ComputedItems] = []
    if known_clones(project, store):
        from bridgehead.assembly.rigs.inbox import PendingEnvelopes

        computed.append(PendingEnvelopes(project, store, warn, CouncilReviews))
    return PendingList(
        store, computed=computed, takers={PendingKind.FLOW_REQUEST: _answer_flow}
    )
