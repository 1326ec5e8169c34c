"""What rigs owe one another, as the envelopes of a thread say it (rigs §8 inbox).

A question opens an obligation for each recipient. An ACK takes it on, perhaps with an
estimate; a RESPONSE, a RESULT, a human's DECISIONS or a refusal (status ❌) discharges
it; STATE never does. The end of the thread settles the rest. A state machine over
turns: what it returns depends on what stands where in history, not on the order of
reading.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from bridgehead.rigs.envelope.fields import StatusClass, status_class
from bridgehead.rigs.envelope.text import timestamp_ms
from bridgehead.rigs.threads.thread import Turn

ASKING_TYPES = frozenset({"REQUEST", "HANDOFF", "VERIFY", "DECISIONS"})
ANSWERING_TYPES = frozenset({"RESPONSE", "RESULT", "DECISIONS"})
UNNAMED_ANSWERS = frozenset({"RESPONSE", "RESULT"})  # may answer without saying what
DELIVERING_TYPES = frozenset({"RESPONSE", "RESULT", "RESOLUTION"})
CLOSING_TYPE = "RESOLUTION"
_SHORTEST_REFERENCE = 7
_BY = re.compile(
    r", by ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z)$"
)


class DebtState(StrEnum):
    OPEN = "open"
    TAKEN = "taken"
    DISCHARGED = "discharged"
    DECLINED = "declined"
    SETTLED = "settled"


class Obligation(NamedTuple):
    """One question to one rig, and what became of it."""

    asked: Turn
    debtor: str
    state: DebtState = DebtState.OPEN
    turn: Turn | None = None  # that brought it into this state

    @property
    def is_open(self) -> bool:
        return self.state in (DebtState.OPEN, DebtState.TAKEN)

    @property
    def due(self) -> str:
        """Return when it is to be done; empty if nobody said.

        The question may say so, and whoever takes it on may give an estimate; the
        earlier time counts.
        """
        times = [due_of(self.asked.status)]
        if self.turn is not None:
            times.append(due_of(self.turn.status))
        return min(filter(None, times), default="")

    def is_overdue(self, now_ms: int) -> bool:
        if not self.is_open or not self.due:
            return False
        due_ms = timestamp_ms(self.due)
        return due_ms is not None and due_ms < now_ms


def due_of(status: str) -> str:
    """Return the time at the end of a status, as `--by` writes it; empty if none."""
    found = _BY.search(status)
    return found[1] if found else ""


def with_due(status: str, moment: str) -> str:
    """Return a status that names a time."""
    return f"{status}, by {moment}"


def obligations(
    thread: Iterable[Turn],
    *,
    concerns: Callable[[str, str], bool] = lambda _debtor, _creditor: True,
    counts: Callable[[Turn], bool] = lambda _turn: True,
    settles: Callable[[Turn, Obligation], bool] = lambda _end, _owed: True,
    unseen: Callable[[str], Collection[str]] = lambda _path: (),
    is_closed: bool = False,
) -> list[Obligation]:
    """Return what the turns of one thread leave owed or settled, oldest first.

    `concerns` picks debtor and creditor. `counts` decides whether a turn really is
    by its sender, `settles` whether an end of the thread holds for an obligation.
    `unseen` returns, for the path of an answer, what came in while it was on its
    way. `is_closed` without a turn that ends the thread settles everything.
    """
    turns = _committed(thread)
    owed = _opened(turns, concerns)
    if not owed:
        return []
    debtors = {obligation.debtor for obligation in owed}
    answers = [
        turn for turn in turns if turn.sender in debtors and _effect(turn) is not None
    ]
    naming = [turn for turn in answers if _names_something(turn)]
    if naming:
        owed = _after_naming(owed, naming, counts)
    unnaming = [turn for turn in answers if not _names_something(turn)]
    owed = _after_unnaming(owed, unnaming, counts, unseen)
    ends = [turn for turn in turns if turn.type == CLOSING_TYPE]
    if not ends:
        return [_settled(obligation) for obligation in owed] if is_closed else owed
    counting_ends = [end for end in ends if counts(end)]
    return [_after_ends(obligation, counting_ends, settles) for obligation in owed]


def closings(thread: Iterable[Turn]) -> list[Turn]:
    """Return the turns that end a thread, oldest first; more than one is a conflict."""
    return _committed(turn for turn in thread if turn.type == CLOSING_TYPE)


def deliveries(thread: Sequence[Turn], rig_id: str) -> list[Turn]:
    """Return the answers and endings to a rig that no later turn of its own knows.

    Oldest first.
    """
    delivered = _committed(turn for turn in thread if _delivers_to(rig_id, turn))
    if not delivered:
        return []
    by_name = _TurnsByName(delivered)
    taken_up: set[str] = set()
    last_place = (-1, "")  # of the turns that take up all before them
    for turn in thread:
        if turn.sender != rig_id or turn.commit_sha is None:
            continue
        taken_up.update(answered.path for answered in by_name.named_by(turn))
        if not _names_something(turn):
            last_place = max(last_place, place(turn))
    return [
        turn
        for turn in delivered
        if place(turn) > last_place and turn.path not in taken_up
    ]


def _delivers_to(rig_id: str, turn: Turn) -> bool:
    return (
        turn.type in DELIVERING_TYPES
        and turn.sender != rig_id
        and rig_id in turn.recipients
    )


def _committed(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns that are in history, oldest first."""
    return sorted((turn for turn in turns if turn.commit_sha is not None), key=place)


def _opened(
    turns: Iterable[Turn], concerns: Callable[[str, str], bool]
) -> list[Obligation]:
    """Return an obligation for each recipient of each question."""
    opened: list[Obligation] = []
    for turn in turns:
        if turn.type not in ASKING_TYPES:
            continue
        for recipient in dict.fromkeys(turn.recipients):
            if recipient != turn.sender and concerns(recipient, turn.sender):
                opened.append(Obligation(turn, recipient))
    return opened


class _TurnsByName:
    """Finds the turns that another one names, by commit or by hash, among many."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = sorted(turns, key=lambda turn: turn.commit_sha or "")
        self._commits = [turn.commit_sha or "" for turn in self._turns]
        self._by_hash: dict[str, list[Turn]] = {}
        for turn in self._turns:
            self._by_hash.setdefault(turn.body_hash, []).append(turn)

    def named_by(self, answer: Turn) -> Iterator[Turn]:
        for reference in answer.references:
            if len(reference) >= _SHORTEST_REFERENCE:
                yield from self._with_commit(reference)
        if answer.in_reply_to:
            yield from self._by_hash.get(answer.in_reply_to, ())

    def _with_commit(self, reference: str) -> Iterator[Turn]:
        at = bisect_left(self._commits, reference)
        while at < len(self._commits) and self._commits[at].startswith(reference):
            yield self._turns[at]
            at += 1


def _names_something(turn: Turn) -> bool:
    return bool(turn.references or turn.in_reply_to)


def place(turn: Turn) -> tuple[int, str]:
    """Return where a turn stands in history; within one commit, by name."""
    return (turn.position or 0, turn.filename)


def _effect(turn: Turn) -> DebtState | None:
    """Return what a turn of a debtor can make of an obligation."""
    if turn.type == "STATE":
        return None
    if status_class(turn.status) is StatusClass.CANCELLED:
        return DebtState.DECLINED
    if turn.type in ANSWERING_TYPES:
        return DebtState.DISCHARGED
    return DebtState.TAKEN if turn.type == "ACK" else None


def _after_naming(
    owed: list[Obligation], answers: list[Turn], counts: Callable[[Turn], bool]
) -> list[Obligation]:
    """Carry out the turns that name a question, wherever they stand."""
    questions = {obligation.asked.path: obligation.asked for obligation in owed}
    by_name = _TurnsByName(questions.values())
    answers_to: dict[tuple[str, str], list[Turn]] = {}
    for turn in answers:
        for question in by_name.named_by(turn):
            answers_to.setdefault((question.path, turn.sender), []).append(turn)
    result: list[Obligation] = []
    for obligation in owed:
        key = (obligation.asked.path, obligation.debtor)
        result.append(_after_heaviest(obligation, answers_to.get(key, []), counts))
    return result


def _after_heaviest(
    obligation: Obligation, answers: list[Turn], counts: Callable[[Turn], bool]
) -> Obligation:
    """Carry out the answer with most weight that counts."""
    for turn in sorted(answers, key=_by_weight):
        if counts(turn):
            state = _effect(turn) or obligation.state
            return obligation._replace(state=state, turn=turn)
    return obligation


# An answer outweighs a refusal, and that an ACK.
_WEIGHT = (DebtState.DISCHARGED, DebtState.DECLINED, DebtState.TAKEN, None)


def _by_weight(turn: Turn) -> tuple[int, str, str, str]:
    weight = _WEIGHT.index(_effect(turn))
    return (weight, turn.date, turn.filename, turn.commit_sha or "")


def _after_unnaming(
    owed: list[Obligation],
    answers: list[Turn],
    counts: Callable[[Turn], bool],
    unseen: Callable[[str], Collection[str]],
) -> list[Obligation]:
    """Carry out the turns that name nothing, oldest first.

    Each is about the newest open question of one of its recipients before it.
    """
    result = list(owed)
    waiting = _WaitingQuestions(owed)
    for turn in answers:
        effect = _effect(turn)
        must_name = turn.type not in UNNAMED_ANSWERS
        if effect is None or (effect is DebtState.DISCHARGED and must_name):
            continue
        waiting.read_up_to(place(turn))
        index = waiting.meant_by(turn, unseen(turn.path))
        if index is None or not counts(turn):
            continue
        result[index] = owed[index]._replace(state=effect, turn=turn)
        if effect is not DebtState.TAKEN:
            waiting.remove(index)
    return result


class _WaitingQuestions:
    """The open questions before a place in history, as indices of obligations."""

    def __init__(self, owed: Sequence[Obligation]) -> None:
        self._owed = owed
        self._upcoming = deque(
            index for index, obligation in enumerate(owed) if obligation.is_open
        )
        self._by_debtor: dict[str, list[int]] = {}  # oldest first

    def read_up_to(self, here: tuple[int, str]) -> None:
        """Go on in history: what was asked before `here` waits now."""
        while self._upcoming and place(self._owed[self._upcoming[0]].asked) < here:
            index = self._upcoming.popleft()
            self._by_debtor.setdefault(self._owed[index].debtor, []).append(index)

    def meant_by(self, answer: Turn, unseen: Collection[str]) -> int | None:
        """Return the newest question that an answer can be about."""
        for index in reversed(self._by_debtor.get(answer.sender, [])):
            question = self._owed[index].asked
            if question.sender in answer.recipients and question.path not in unseen:
                return index
        return None

    def remove(self, index: int) -> None:
        self._by_debtor[self._owed[index].debtor].remove(index)


def _after_ends(
    obligation: Obligation,
    ends: Sequence[Turn],
    settles: Callable[[Turn, Obligation], bool],
) -> Obligation:
    """Settle an open obligation if one of the ends after it settles it."""
    if not obligation.is_open:
        return obligation
    for end in reversed(ends):
        if place(obligation.asked) < place(end) and settles(end, obligation):
            return _settled(obligation)
    return obligation


def _settled(obligation: Obligation) -> Obligation:
    if not obligation.is_open:
        return obligation
    return obligation._replace(state=DebtState.SETTLED)
