"""Collect what a rig owes, is owed, and has not seen yet (rigs §8 inbox)."""

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

_MOST_TURNS = 5000  # in memory at the same time


class InboxContents(NamedTuple):
    """Everything that concerns one rig, newest first, without what is in quarantine."""

    owes: Sequence[Debt]
    owed: Sequence[Debt]
    delivered: Sequence[Notice]  # and not seen
    # Debts of the rigs a human's rig answers for: its own once they are overdue.
    entrusted: Sequence[Debt]
    conflicts: Sequence[tuple[Turn, ...]]  # threads that were closed more than once

    def escalated(self, now_ms: int) -> list[Debt]:
        """Return the entrusted debts that are overdue."""
        return [debt for debt in self.entrusted if debt.owed.is_overdue(now_ms)]


def inbox(rig: Rig) -> Inbox:
    """Return what concerns this rig, and how recent our knowledge of the others is."""
    known = catalogue(rig)
    contents = inbox_contents(rig, known)
    now = rig.now_ms()
    fetched_ms = rig.repository.last_fetch_ms()
    return Inbox(
        owes=contents.owes,
        owed=contents.owed,
        delivered=contents.delivered,
        escalated=contents.escalated(now),
        conflicts=contents.conflicts,
        remote_seen_at=None if fetched_ms is None else iso_timestamp(fetched_ms),
        last_heard=lambda: last_heard(known),
        now_ms=now,
    )


def listed_debts(
    known: Catalogue, debts: Sequence[Debt]
) -> list[tuple[ListedEnvelope, Verification]]:
    """Return the questions of debts with everything the index knows about them."""
    by_path: dict[str, ListedEnvelope] = {}
    for thread_id in dict.fromkeys(debt.asked.turn.thread_id for debt in debts):
        for envelope in known.listing(thread_id).envelopes:
            by_path[envelope.path] = envelope
    return [(by_path[debt.asked.turn.path], debt.asked.verification) for debt in debts]


def inbox_contents(rig: Rig, known: Catalogue | None = None) -> InboxContents:
    """Return what concerns this rig, from one look at the bridge."""
    known = known or catalogue(rig)
    tell_left_out(rig, known.survey)
    builder = InboxBuilder(rig, known)
    for threads in _batches(known, known.thread_ids(naming=builder.rigs)):
        builder.add(threads)
        for turns in threads:
            known.let_go(turns[0].thread_id)
    return builder.finish()


class _ThreadMatters(NamedTuple):
    """What one thread holds for a rig if every turn is by whom it says."""

    turns: Sequence[Turn]
    obligations: Sequence[Obligation]
    delivered: Sequence[Turn]  # and not seen

    @property
    def thread_id(self) -> str:
        return self.turns[0].thread_id

    def deciding_turns(self) -> Iterator[Turn]:
        """Yield the questions, what their recipients wrote, and the ends."""
        questions = {obligation.asked.path for obligation in self.obligations}
        debtors = {obligation.debtor for obligation in self.obligations}
        if not questions:
            return
        for turn in self.turns:
            decides = (
                turn.sender in debtors
                or turn.type == CLOSING_TYPE
                or turn.path in questions
            )
            if decides and turn.commit_sha is not None:
                yield turn


class InboxBuilder:
    """Collects what concerns one rig, a few threads at a time."""

    def __init__(self, rig: Rig, known: Catalogue) -> None:
        self._rig = rig
        self._known = known
        self._own = str(rig.config.rig_id)
        self._identities = Identities(rig)
        members = self._identities.membership.members
        self._entrusted = frozenset(
            member.rig for member in members if member.human == self._own
        )
        self._observers = frozenset(
            member.rig for member in members if member.role is Role.OBSERVER
        )
        private_dir = rig.repository.private_dir
        self._crossings = Crossings(private_dir)
        self._seen = Seen(private_dir)
        self._debts: list[Debt] = []
        self._delivered: list[Notice] = []
        self._conflicts: list[tuple[Turn, ...]] = []

    @property
    def rigs(self) -> tuple[str, ...]:
        """The rigs whose threads matter: this one, and those it answers for."""
        return (self._own, *self._entrusted)

    def add(self, threads: Sequence[Sequence[Turn]]) -> None:
        """Add what some threads hold for this rig; signatures are checked together."""
        found = [self._matters(turns) for turns in threads]
        judge = _Judge(self._rig, self._known, self._identities)
        judge.look_at(_turns_to_judge(found))
        for matters in found:
            self._debts += self._open_debts(matters, judge)
            self._delivered += [
                judge.notice(turn) for turn in matters.delivered if judge.is_shown(turn)
            ]
            ends = tuple(closings(matters.turns))
            if len(ends) > 1 and self._takes_part(matters.turns):
                self._conflicts.append(ends)

    def finish(self) -> InboxContents:
        """Return everything that was added, newest first."""
        if self._seen.is_new:
            self._seen.begin()
        debts = _newest_first(self._debts)
        delivered = sorted(
            self._delivered, key=lambda notice: notice.turn.order_key(), reverse=True
        )
        return InboxContents(
            owes=[debt for debt in debts if debt.owed.debtor == self._own],
            owed=[debt for debt in debts if debt.owed.asked.sender == self._own],
            delivered=delivered,
            entrusted=[debt for debt in debts if debt.owed.debtor in self._entrusted],
            conflicts=self._conflicts,
        )

    def _matters(self, turns: Sequence[Turn]) -> _ThreadMatters:
        return _ThreadMatters(
            turns,
            obligations(
                turns,
                concerns=self._concerns,
                unseen=self._crossings.with_turn,
                is_closed=self._known.is_closed(turns[0].thread_id),
            ),
            unseen_deliveries(self._seen, self._known, turns, self._own),
        )

    def _open_debts(self, matters: _ThreadMatters, judge: "_Judge") -> list[Debt]:
        """Return what is open in a thread once the verdicts on its turns are known."""
        found = matters.obligations
        if matters.thread_id in judge.doubtful:
            found = obligations(
                matters.turns,
                concerns=self._concerns,
                counts=judge.counts,
                settles=judge.settles,
                unseen=self._crossings.with_turn,
                is_closed=self._known.is_closed(matters.thread_id),
            )
        return [
            Debt(judge.notice(obligation.asked), obligation)
            for obligation in found
            if obligation.is_open and judge.is_shown(obligation.asked)
        ]

    def _concerns(self, debtor: str, creditor: str) -> bool:
        if debtor in self._observers or creditor in self._observers:
            return False
        return self._own in (debtor, creditor) or debtor in self._entrusted

    def _takes_part(self, turns: Iterable[Turn]) -> bool:
        return any(self._own in (turn.sender, *turn.recipients) for turn in turns)


def _turns_to_judge(threads: Sequence[_ThreadMatters]) -> list[Turn]:
    """Return the turns on which it depends what is owed and shown."""
    turns: list[Turn] = []
    for matters in threads:
        turns += matters.delivered
    for matters in threads:
        turns += matters.deciding_turns()
    return turns


def _batches(known: Catalogue, names: Iterable[str]) -> Iterator[list[list[Turn]]]:
    """Yield the turns of threads, as many threads at a time as fit into memory.

    In no order: the contents are sorted at the end, and most threads hold nothing.
    """
    batch: list[list[Turn]] = []
    size = 0
    for name in names:
        if name == MEMBERS_THREAD:
            continue
        turns = [envelope.turn for envelope in known.listing(name).envelopes]
        if not turns:
            continue
        batch.append(turns)
        size += len(turns)
        if size >= _MOST_TURNS:
            yield batch
            batch = []
            size = 0
    yield batch


def unseen_deliveries(
    seen: Seen, known: Catalogue, thread: Sequence[Turn], own: str
) -> list[Turn]:
    """Return the answers to this rig that it has neither taken up nor looked at.

    At the first look in a clone, what lies in closed threads before their end counts
    as seen, then and later.
    """
    found = deliveries(thread, own)
    if found and seen.is_new and known.is_closed(found[0].thread_id):
        end = max(map(place, closings(thread)), default=place(found[-1]))
        seen.paths.update({turn.path: None for turn in found if place(turn) < end})
    return [turn for turn in found if turn.path not in seen.paths]


def last_heard(known: Catalogue) -> dict[str, str]:
    """Return when each rig last wrote, as its commits say, by name."""
    heard: dict[str, int] = {}
    for envelope in known.envelopes():
        sender = envelope.turn.sender
        at = envelope.committed_at
        if at is not None and at > heard.get(sender, -1):
            heard[sender] = at
    return {sender: iso_timestamp(heard[sender] * 1000) for sender in sorted(heard)}


class _Judge:
    """Asks once for the verdict on each turn that matters.

    Most turns are unsigned, and nothing can speak against them.
    """

    def __init__(self, rig: Rig, known: Catalogue, identities: Identities) -> None:
        self._rig = rig
        self._known = known
        self._identities = identities
        self._verdicts: dict[str, Verification] = {}
        self._listed: dict[str, ListedEnvelope] = {}  # those that had to be looked at
        self.doubtful: set[str] = set()  # threads that hold one of them

    def look_at(self, turns: Sequence[Turn]) -> None:
        """Find the verdicts on turns."""
        listed = self._in_need_of_a_look(turns)
        verifier = listed_verifier(self._rig, self._known, listed, self._identities)
        verdicts = verifier.judge(subjects_of_listed(self._rig, listed))
        for turn in turns:
            self._verdicts[turn.path] = _NOTHING_AGAINST
        for envelope, verdict in zip(listed, verdicts, strict=True):
            self._verdicts[envelope.path] = verdict
            self._listed[envelope.path] = envelope
            self.doubtful.add(envelope.turn.thread_id)

    def _in_need_of_a_look(self, turns: Sequence[Turn]) -> list[ListedEnvelope]:
        """Return the envelopes of those turns that something may speak against."""
        identities = self._identities
        all_may_be_bad = identities.judges_unsigned or identities.keyring.knows_anybody
        paths = {turn.path for turn in turns}
        found: list[ListedEnvelope] = []
        for thread_id in dict.fromkeys(turn.thread_id for turn in turns):
            for envelope in self._known.listing(thread_id).envelopes:
                may_be_bad = (
                    all_may_be_bad
                    or envelope.signed
                    or envelope.is_relay
                    or envelope.findings
                )
                if may_be_bad and envelope.path in paths:
                    found.append(envelope)
        return found

    def is_shown(self, turn: Turn) -> bool:
        """Return whether a turn is shown.

        What came by a clone or a pull by hand met no gate: it is judged here at
        the latest.
        """
        listed = self._listed.get(turn.path)
        return listed is None or not is_kept_out(
            self._known, listed, self._verdicts[turn.path]
        )

    def counts(self, turn: Turn) -> bool:
        """Return whether a turn can settle anything.

        It must be shown, and signed where that name has a key.
        """
        listed = self._listed.get(turn.path)
        if listed is None:
            return True
        verdict = self._verdicts[turn.path]
        if not self.is_shown(turn) or Kind.RELAY_UNATTESTED in verdict.kinds:
            return False
        if verdict.state is VerificationState.VERIFIED:
            return True
        return not self._identities.keyring.must_sign(turn.sender, place_of(listed))

    def settles(self, end: Turn, owed: Obligation) -> bool:
        """Return whether the end of a thread settles an obligation.

        A stranger cannot end what a member with a key asked, but a debtor can.
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
        """Return a turn with the verdict on it."""
        return Notice(turn, self._verdicts[turn.path])


_NOTHING_AGAINST = Verification(VerificationState.UNVERIFIED)


def _newest_first(debts: Iterable[Debt]) -> list[Debt]:
    by_thread = sorted(debts, key=lambda debt: debt.asked.turn.thread_id)
    return sorted(by_thread, key=lambda debt: debt.asked.turn.order_key(), reverse=True)
