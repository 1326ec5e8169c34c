"""What concerns this rig: what it owes, what it is owed, what was delivered and not seen (rigs §8 inbox)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bridgehead.rigs.envelope.fields import MEMBERS_THREAD
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue, tell_left_out
from bridgehead.rigs.operations.identities import Identities
from bridgehead.rigs.operations.thread import (
    is_kept_out,
    listed_verifier,
    place_of,
    subjects_of_listed,
)
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.crossings import Crossings, Seen
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.obligations import (
    CLOSING_TYPE,
    Obligation,
    closings,
    deliveries,
    obligations,
    place,
)
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.membership import Role
from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    Verification,
    VerificationState,
)
from bridgehead.rigs.views.listings import Debt, Inbox, Notice

_AT_ONCE = 5000  # turns that are held in memory


class Desk(NamedTuple):
    """Everything that concerns one rig, newest first; what is kept out of its threads is not in it."""

    owes: Sequence[Debt]
    owed: Sequence[Debt]
    delivered: Sequence[Notice]  # and not seen
    # Debts of rigs that this one, a human's, answers for: its own once they are overdue.
    entrusted: Sequence[Debt]
    conflicts: Sequence[tuple[Turn, ...]]  # threads that were closed more than once

    def escalated(self, now_ms: int) -> list[Debt]:
        return [debt for debt in self.entrusted if debt.owed.is_overdue(now_ms)]


def inbox(rig: Rig) -> Inbox:
    """The desk of this rig, with when the remote was last looked at and who was heard of when."""
    known = catalogue(rig)
    found = desk(rig, known)
    now = rig.now_ms()
    looked_at = rig.repository.last_fetch_ms()
    looked = iso_timestamp(looked_at) if looked_at is not None else None
    return Inbox(
        *found._replace(entrusted=found.escalated(now)),
        looked,
        lambda: last_heard(known),
        now,
    )


def listed_debts(
    known: Catalogue, debts: Sequence[Debt]
) -> list[tuple[ListedEnvelope, Verification]]:
    """The questions of debts with everything the index knows about them."""
    threads = dict.fromkeys(debt.asked.turn.thread_id for debt in debts)
    by_path = {
        envelope.path: envelope
        for name in threads
        for envelope in known.listing(name).envelopes
    }
    return [(by_path[debt.asked.turn.path], debt.asked.verification) for debt in debts]


def desk(rig: Rig, known: Catalogue | None = None) -> Desk:
    """Work out what concerns this rig from one look at the bridge."""
    own = str(rig.config.rig_id)
    private_dir = rig.repository.private_dir
    known = known or catalogue(rig)
    tell_left_out(rig, known.survey)
    identities = Identities(rig)
    members = identities.membership.members
    wards = frozenset(member.rig for member in members if member.human == own)
    observers = frozenset(
        member.rig for member in members if member.role is Role.OBSERVER
    )
    unseen = Crossings(private_dir).with_turn
    seen = Seen(private_dir)

    def concerns(debtor: str, creditor: str) -> bool:
        return (own in (debtor, creditor) or debtor in wards) and observers.isdisjoint(
            (debtor, creditor)
        )

    def owed_in(thread: list[Turn], judge: _Judge | None = None) -> list[Obligation]:
        is_closed = known.is_closed(thread[0].thread_id)
        if judge is None:
            return obligations(
                thread, concerns=concerns, unseen=unseen, is_closed=is_closed
            )
        return obligations(
            thread,
            concerns=concerns,
            counts=judge.counts,
            settles=judge.settles,
            unseen=unseen,
            is_closed=is_closed,
        )

    naming = known.thread_ids(naming=(own, *wards))
    debts: list[Debt] = []
    delivered: list[Notice] = []
    conflicts: list[tuple[Turn, ...]] = []
    for threads in _threads(known, naming):
        owing = [(thread, owed) for thread in threads if (owed := owed_in(thread))]
        arrived = [
            turn
            for thread in threads
            for turn in unseen_deliveries(seen, known, thread, own)
        ]
        ends = [(thread, tuple(closings(thread))) for thread in threads]
        again = [
            end
            for thread, end in ends
            if len(end) > 1 and any(own in (t.sender, *t.recipients) for t in thread)
        ]
        judge = _Judge(rig, known, identities)
        judge.look_at(
            [
                *arrived,
                *(turn for thread, owed in owing for turn in _concerned(thread, owed)),
            ]
        )
        waiting = [
            judge.debt(one)
            for thread, owed in owing
            for one in (
                owed_in(thread, judge)
                if thread[0].thread_id in judge.doubtful
                else owed
            )
            if one.is_open and judge.is_shown(one.asked)
        ]
        debts += waiting
        delivered += [judge.notice(turn) for turn in arrived if judge.is_shown(turn)]
        conflicts += again
        for thread in threads:
            known.let_go(thread[0].thread_id)
    if seen.is_new:
        seen.begin()
    return Desk(
        _newest_first(debt for debt in debts if debt.owed.debtor == own),
        _newest_first(debt for debt in debts if debt.owed.asked.sender == own),
        sorted(delivered, key=lambda notice: notice.turn.order_key(), reverse=True),
        _newest_first(debt for debt in debts if debt.owed.debtor in wards),
        conflicts,
    )


def _threads(known: Catalogue, names: Iterable[str]) -> Iterator[list[list[Turn]]]:
    """Yield the turns of threads, so many threads at a time as are held in memory together.

    In no order: what waits is sorted once it is found, which in most threads is nothing.
    """
    some: list[list[Turn]] = []
    for name in names:
        if name != MEMBERS_THREAD and (listed := known.listing(name).envelopes):
            some.append([envelope.turn for envelope in listed])
        if sum(map(len, some)) >= _AT_ONCE:
            yield some
            some = []
    yield some


def unseen_deliveries(
    seen: Seen, known: Catalogue, thread: Sequence[Turn], own: str
) -> list[Turn]:
    """Answers to this rig that none of its turns takes up and that nobody here has looked at.

    At the first look in a clone, what lies in closed threads before their end counts as seen, then and later.
    """
    found = deliveries(thread, own)
    if found and seen.is_new and known.is_closed(found[0].thread_id):
        end = max(map(place, closings(thread)), default=place(found[-1]))
        seen.paths.update({turn.path: None for turn in found if place(turn) < end})
    return [turn for turn in found if turn.path not in seen.paths]


def last_heard(known: Catalogue) -> dict[str, str]:
    """When each rig last wrote, as its commits say, by name."""
    heard: dict[str, int] = {}
    for envelope in known.envelopes():
        sender = envelope.turn.sender
        at = envelope.committed_at
        if at is not None and at > heard.get(sender, -1):
            heard[sender] = at
    return {sender: iso_timestamp(heard[sender] * 1000) for sender in sorted(heard)}


class _Judge:
    """Verdicts on the turns that matter, asked for once each. Most are unsigned, and nothing can speak against them."""

    def __init__(self, rig: Rig, known: Catalogue, identities: Identities) -> None:
        self._rig = rig
        self._known = known
        self._identities = identities
        self._verdicts: dict[str, Verification] = {}
        self._listed: dict[str, ListedEnvelope] = {}  # those that had to be looked at
        self.doubtful: set[str] = set()  # threads that hold one of them

    def look_at(self, turns: Iterable[Turn]) -> None:
        wanted = {
            turn.path: turn.thread_id
            for turn in turns
            if turn.path not in self._verdicts
        }
        everything = (
            self._identities.judges_unsigned or self._identities.keyring.knows_anybody
        )
        listed = [
            envelope
            for name in dict.fromkeys(wanted.values())
            for envelope in self._known.listing(name).envelopes
            if (everything or envelope.signed or envelope.is_relay or envelope.findings)
            and envelope.path in wanted
        ]
        verifier = listed_verifier(self._rig, self._known, listed, self._identities)
        verdicts = verifier.judge(subjects_of_listed(self._rig, listed))
        self._verdicts |= dict.fromkeys(wanted, _NOTHING_AGAINST)
        for envelope, found in zip(listed, verdicts, strict=True):
            self._verdicts[envelope.path] = found
            self._listed[envelope.path] = envelope
            self.doubtful.add(envelope.turn.thread_id)

    def is_shown(self, turn: Turn) -> bool:
        """What came by a clone or a pull by hand met no gate: it is judged here at the latest."""
        listed = self._listed.get(turn.path)
        return listed is None or not is_kept_out(
            self._known, listed, self._verdicts[turn.path]
        )

    def counts(self, turn: Turn) -> bool:
        """Tell whether a turn can settle anything: shown, and signed where that name has a key."""
        if turn.path not in self._listed:
            return True
        found = self._verdicts[turn.path]
        if not self.is_shown(turn) or Kind.RELAY_UNATTESTED in found.kinds:
            return False
        place = place_of(self._listed[turn.path])
        verified = found.state is VerificationState.VERIFIED
        return verified or not self._identities.keyring.must_sign(turn.sender, place)

    def settles(self, end: Turn, owed: Obligation) -> bool:
        """Tell whether the end of a thread settles this: what a member with a key asked, no stranger ends.

        Whoever was asked may end it as they may answer it.
        """
        asked = self._listed.get(owed.asked.path)
        if end.path not in self._listed or asked is None:
            return True
        is_verified = self._verdicts[end.path].state is VerificationState.VERIFIED
        if is_verified or end.sender == owed.debtor:
            return True
        if not self._identities.keyring.must_sign(asked.turn.sender, place_of(asked)):
            return True
        self._rig.tell_once(
            f"warning: {end.path} settles nothing that {owed.asked.sender} asked: "
            f"{owed.asked.sender} has a key, and "
            f"this RESOLUTION of {end.sender} is not verified"
        )
        return False

    def notice(self, turn: Turn) -> Notice:
        return Notice(turn, self._verdicts[turn.path])

    def debt(self, one: Obligation) -> Debt:
        return Debt(self.notice(one.asked), one)


def _concerned(thread: Sequence[Turn], owed: Sequence[Obligation]) -> Iterator[Turn]:
    """The turns on which it depends what is owed: the questions, what their recipients said, and the end."""
    asked = {one.asked.path for one in owed}
    debtors = {one.debtor for one in owed}
    for turn in thread:
        if turn.commit_sha is not None and (
            turn.sender in debtors or turn.type == CLOSING_TYPE or turn.path in asked
        ):
            yield turn


_NOTHING_AGAINST = Verification(VerificationState.UNVERIFIED)


def _newest_first(debts: Iterable[Debt]) -> list[Debt]:
    by_thread = sorted(debts, key=lambda debt: debt.asked.turn.thread_id)
    return sorted(by_thread, key=lambda debt: debt.asked.turn.order_key(), reverse=True)
