"""What rigs owe one another, as the envelopes of a thread say it (rigs §8 inbox).

A question opens an obligation for each recipient. An ACK takes it on, perhaps with an estimate; a RESPONSE, a RESULT, a
human's DECISIONS or a refusal (status ❌) discharges it; STATE never does. The end of the thread settles the rest.
A state machine over turns: what it returns depends on what stands where in history, not on the order of reading.
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
_SHORTEST = 7  # of a reference
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
        """When it is to be done: by the question or, where it was taken on, by the estimate; empty if nobody said."""
        said = [
            due_of(turn.status) for turn in (self.asked, self.turn) if turn is not None
        ]
        return min(filter(None, said), default="")

    def is_overdue(self, now_ms: int) -> bool:
        due = timestamp_ms(self.due) if self.is_open and self.due else None
        return due is not None and due < now_ms


def due_of(status: str) -> str:
    """Return the time a status names at its end, as `--by` writes it; empty if it names none."""
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
    """Return what the turns of one thread leave owed and settled, oldest question first.

    `concerns` picks debtor and creditor; `counts` tells whether a turn really is by whom it says, `settles` whether the
    end that somebody put to the thread is one for this obligation, too. `unseen` names, for
    the path of an answer, what came in while it was on its way. `is_closed` without a turn that says so settles all.
    """
    turns = sorted((turn for turn in thread if turn.commit_sha is not None), key=place)
    owed = [
        Obligation(turn, debtor)
        for turn in turns
        if turn.type in ASKING_TYPES
        for debtor in dict.fromkeys(turn.recipients)
        if debtor != turn.sender and concerns(debtor, turn.sender)
    ]
    if not owed:
        return []
    debtors = {one.debtor for one in owed}
    said = [
        (turn, effect)
        for turn in turns
        if turn.sender in debtors and (effect := _effect(turn)) is not None
    ]
    if named := [turn for turn, _ in said if _names_something(turn)]:
        owed = _after_naming(owed, named, counts)
    owed = _after_the_rest(
        owed, [one for one in said if not _names_something(one[0])], counts, unseen
    )
    ends = [turn for turn in turns if turn.type == CLOSING_TYPE and counts(turn)]
    if ends:
        owed = [_after_the_end(one, ends, settles) for one in owed]
    elif is_closed and not any(turn.type == CLOSING_TYPE for turn in turns):
        owed = [_settled(one) for one in owed]
    return owed


def closings(thread: Iterable[Turn]) -> list[Turn]:
    """Return the turns that end a thread, oldest first; more than one is a conflict."""
    return sorted(
        (
            turn
            for turn in thread
            if turn.type == CLOSING_TYPE and turn.commit_sha is not None
        ),
        key=place,
    )


def deliveries(thread: Sequence[Turn], rig_id: str) -> list[Turn]:
    """Return the answers and endings others addressed to a rig that no later turn of its own knows, oldest first."""
    found = [
        turn
        for turn in thread
        if turn.type in DELIVERING_TYPES
        and turn.commit_sha is not None
        and turn.sender != rig_id
        and rig_id in turn.recipients
    ]
    if not found:
        return []
    own = [
        turn for turn in thread if turn.sender == rig_id and turn.commit_sha is not None
    ]
    last = max(
        (place(turn) for turn in own if not _names_something(turn)), default=(-1, "")
    )
    named = _Named(found)
    known = {turn.path for answer in own for turn in named.by(answer)}
    return sorted(
        (turn for turn in found if place(turn) > last and turn.path not in known),
        key=place,
    )


class _Named:
    """Finds the turns that another one names, by commit or by hash, among many."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = sorted(turns, key=lambda turn: turn.commit_sha or "")
        self._commits = [turn.commit_sha or "" for turn in self._turns]
        self._by_hash: dict[str, list[Turn]] = {}
        for turn in self._turns:
            self._by_hash.setdefault(turn.body_hash, []).append(turn)

    def by(self, answer: Turn) -> Iterator[Turn]:
        for reference in answer.references:
            at = (
                bisect_left(self._commits, reference)
                if len(reference) >= _SHORTEST
                else len(self._commits)
            )
            while at < len(self._commits) and self._commits[at].startswith(reference):
                yield self._turns[at]
                at += 1
        if answer.in_reply_to:
            yield from self._by_hash.get(answer.in_reply_to, ())


def _names_something(turn: Turn) -> bool:
    return bool(turn.references or turn.in_reply_to)


def place(turn: Turn) -> tuple[int, str]:
    """Where a turn stands in history; of one commit, by name."""
    return (turn.position or 0, turn.filename)


def _effect(turn: Turn) -> DebtState | None:
    """What a turn of a debtor can do to an obligation."""
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
    """Carry out the turns that name a question, wherever they stand: an answer outweighs a refusal, that an ACK."""
    asked = {one.asked.path: one.asked for one in owed}
    named = _Named(asked.values())
    about: dict[tuple[str, str], list[Turn]] = {}
    for turn in answers:
        for question in named.by(turn):
            about.setdefault((question.path, turn.sender), []).append(turn)
    return [
        _after_all(one, about.get((one.asked.path, one.debtor), ()), counts)
        for one in owed
    ]


def _after_all(
    one: Obligation, answers: Sequence[Turn], counts: Callable[[Turn], bool]
) -> Obligation:
    for turn in sorted(
        answers,
        key=lambda turn: (
            _WEIGHT.index(_effect(turn)),
            turn.date,
            turn.filename,
            turn.commit_sha,
        ),
    ):
        if counts(turn):
            return one._replace(state=_effect(turn) or one.state, turn=turn)
    return one


_WEIGHT = (DebtState.DISCHARGED, DebtState.DECLINED, DebtState.TAKEN, None)


def _after_the_rest(
    owed: list[Obligation],
    answers: list[tuple[Turn, DebtState]],
    counts: Callable[[Turn], bool],
    unseen: Callable[[str], Collection[str]],
) -> list[Obligation]:
    """Carry out the turns that name nothing: each is about the newest open question of a recipient before it."""
    result = list(owed)
    waiting: dict[str, list[int]] = {}  # by debtor, oldest first
    upcoming = deque(
        (place(one.asked), at) for at, one in enumerate(owed) if one.is_open
    )
    for turn, effect in answers:
        if turn.type not in UNNAMED_ANSWERS and effect is DebtState.DISCHARGED:
            continue
        here = place(turn)
        while upcoming and upcoming[0][0] < here:
            at = upcoming.popleft()[1]
            waiting.setdefault(owed[at].debtor, []).append(at)
        crossed = unseen(turn.path)
        mine = waiting.get(turn.sender, [])
        for at in reversed(mine):
            asked = result[at].asked
            if asked.sender in turn.recipients and not (
                crossed and asked.path in crossed
            ):
                if counts(turn):
                    result[at] = Obligation(asked, turn.sender, effect, turn)
                    if effect is not DebtState.TAKEN:
                        mine.remove(at)
                break
    return result


def _after_the_end(
    one: Obligation,
    ends: Sequence[Turn],
    settles: Callable[[Turn, Obligation], bool],
) -> Obligation:
    for end in reversed(ends):
        if place(one.asked) < place(end) and one.is_open and settles(end, one):
            return _settled(one)
    return one


def _settled(one: Obligation) -> Obligation:
    return one._replace(state=DebtState.SETTLED) if one.is_open else one
