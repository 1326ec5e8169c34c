"""The five-phase debate as a seat run: investigate, publish, challenge, join, final positions (council §17); who
carries how much weight in it, what is confirmed, what the verdict is.

Messages are carried by us, whether or not agents could write to each other: a round asks every reviewer once and shows
what the others left behind, without names. A quick debate has no such round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, Final

from bridgehead.contract.report import Output
from bridgehead.contract.words import Intensity, OutputState, Severity, Verdict
from bridgehead.council.calls import Answer, Step
from bridgehead.council.debate.answers import raise_items, settle, take_items
from bridgehead.council.debate.asks import debate_asks, packet_for
from bridgehead.council.debate.call_batch import BUDGET_REACHED, Ask, Form, ReadReply
from bridgehead.council.debate.first_round import (
    CHALLENGER,
    INTEGRATOR,
    covered_domains,
    expert_owner,
)
from bridgehead.council.debate.ledger import ChallengeState, Entry, Owner
from bridgehead.council.debate.seat_run import BUDGET, SeatRun
from bridgehead.council.findings.joining import Comment, is_same_problem
from bridgehead.council.prompts.debate import debate_round_prompt, final_position_prompt
from bridgehead.council.replies.items import as_line, as_text
from bridgehead.council.replies.reply import read_lists
from bridgehead.council.reporting.seat_report import SeatFacts
from bridgehead.council.request.plan import (
    DEFAULT,
    SECURITY_DOMAIN,
    SECURITY_ELEVATED,
    Preset,
)

ROUNDS: Final = {Intensity.QUICK: 0, Intensity.STANDARD: 3, Intensity.THOROUGH: 5}
HIGH_FAIL_AT: Final = 3
MEDIUM_CONCERNS_AT: Final = 2
FOR_MESSAGES: Final = Form(Answer.CHALLENGES, read_lists("messages", "outputs"))
FOR_POSITIONS: Final = Form(
    Answer.POSITIONS, read_lists("positions", optional=("merges",))
)


class Stance(StrEnum):
    SUPPORT = "support"
    OPPOSE = "oppose"
    ABSTAIN = "abstain"


def task_budget(intensity: Intensity, reviewers: int) -> int:
    """How many calls a debate may make altogether."""
    if intensity is Intensity.QUICK:
        return reviewers + 5
    calls_each = 3 if intensity is Intensity.STANDARD else 5
    return calls_each * reviewers + 10


def support_share(
    stances: Mapping[str, Stance],
    advocate: str,
    reviewers: Collection[str],
    preset: Preset,
) -> Fraction | None:
    """Weight of the supporters among those who took a position (K34); None when nobody did."""
    others = sum(1 for name in reviewers if name != advocate)
    each = (1 - preset.da_weight) / others if others else Fraction(0)

    def weight(wanted: Stance) -> Fraction:
        named = [name for name, stance in stances.items() if stance is wanted]
        return sum(
            (preset.da_weight if name == advocate else each for name in named),
            Fraction(0),
        )

    supporting = weight(Stance.SUPPORT)
    opposing = weight(Stance.OPPOSE)
    return supporting / (supporting + opposing) if supporting + opposing else None


def final_state(
    share: Fraction | None, threshold: Fraction, *, origin_round: int
) -> OutputState:
    """Confirmed or discovered with enough support, else disputed."""
    if share is None or share < threshold:
        return OutputState.DISPUTED
    return OutputState.DISCOVERED if origin_round >= 2 else OutputState.CONFIRMED


def debate_verdict(outputs: Iterable[Output], preset: Preset) -> Verdict:
    """The verdict of a standalone debate; inside a seat table 11.1 applies (K35)."""
    listed = list(outputs)
    held = [output for output in listed if output.status is not OutputState.DISPUTED]
    disputed = [output for output in listed if output.status is OutputState.DISPUTED]
    count = Counter(output.severity for output in held)
    by_security = preset is SECURITY_ELEVATED and any(
        output.domain == SECURITY_DOMAIN and output.severity is not None
        for output in held
    )
    if count[Severity.CRITICAL] or count[Severity.HIGH] >= HIGH_FAIL_AT or by_security:
        return Verdict.FAIL
    serious = any(
        output.severity in (Severity.CRITICAL, Severity.HIGH) for output in disputed
    )
    if count[Severity.HIGH] or count[Severity.MEDIUM] >= MEDIUM_CONCERNS_AT or serious:
        return Verdict.CONCERNS
    return Verdict.PASS


class FivePhaseRun(SeatRun):
    """A seat whose reviewers debate published findings and then vote with weights."""

    def __init__(self, *args: Any, preset: Preset = DEFAULT, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._preset = preset
        self._supporters: dict[str, set[Owner]] = {}
        self._stances: dict[str, dict[str, Stance]] = {}
        self._agreed: set[tuple[str, str, Owner]] = set()

    # -- phases 1 and 2: everybody alone, then everything is published

    def _after_first_round(self) -> None:
        run = self._run
        batch = self._settled_batch()
        if not covered_domains(batch):
            super()._after_first_round()
            return
        take_items(run, batch.in_order())
        run.roster.leave_unexplored()  # the panel is fixed when the findings are published
        settle(run, batch)
        if not run.ledger.live():
            self._end("nothing_found")
        else:
            self._next_phase()

    def _next_phase(self) -> None:
        rounds = ROUNDS[self.task.intensity]
        planned = self._tally.calls + len(self._reviewers())
        may_ask = planned + len(self._reviewers()) <= task_budget(
            self.task.intensity, len(self._reviewers())
        )
        may_ask = may_ask and self._budget.refusal(2 * len(self._reviewers())) is None
        if self._run.debate_round < rounds and may_ask:
            self._run.begin_round()
            self._log_dispatch(mode="coordinator")
            self._ask(
                [
                    ask
                    for owner in self._reviewers()
                    for ask in self._message_asks(owner)
                ],
                self._after_messages,
            )
        else:
            self._begin_positions("max_rounds" if self._run.debate_round else None)

    # -- phase 3: messages

    def _after_messages(self) -> None:
        run = self._run
        batch = self._settled_batch()
        replies = batch.in_order()
        self._take_messages(replies)
        settle(run, batch)
        quiet = not run.debate.changes.total()
        run.debate.finish_round(run.round, "convergence" if quiet else None)
        if quiet:
            self._begin_positions("convergence")
        else:
            self._next_phase()

    def _take_messages(self, replies: Sequence[ReadReply]) -> None:
        """Challenges before answers, so that nobody answers what was not said yet."""
        run = self._run
        asked = [challenge.id for challenge in run.debate.open_challenges()]
        for one in replies:
            owner = one.owner
            for message in _messages(one, "challenge", "cross-challenge"):
                self._take_challenge(owner, message)
            for message in _messages(one, "corroboration"):
                entry = self._run.ledger.survivor(message.get("finding_id"))
                if (
                    entry is not None
                    and entry.owner != owner
                    and as_text(message.get("text"))
                ):
                    self._supporters.setdefault(entry.id, set()).add(owner)
            for message in _messages(one, "merge-proposal"):
                self._agree(
                    owner,
                    as_line(message.get("finding_id")),
                    as_line(message.get("other_id")),
                )
        for one in replies:
            answers = [
                _as_response(message)
                for message in _messages(one, "defense", "withdrawal")
            ]
            run.debate.take_responses(one.owner, answers, asked, run.round)
            raise_items(run, one)

    def _take_challenge(self, owner: Owner, message: Mapping[str, Any]) -> None:
        entry = self._run.ledger.survivor(message.get("finding_id"))
        if entry is None or entry.owner == owner:
            return
        fields = {
            "target_finding_id": entry.id,
            "challenge_text": message.get("text"),
            "mechanism": message.get("mechanism"),
        }
        taken = self._run.debate.take_challenges([fields], self._run.round, by=owner)
        self._run.debate.changes["challenged"] += taken

    # -- phases 4 and 5: joining, final positions

    def _begin_positions(self, stop: str | None) -> None:
        self._ending = stop
        if self._budget.refusal(len(self._reviewers())) is not None:
            self._warn(BUDGET_REACHED)
            self._decide()
            self._end(BUDGET)
            return
        asks = [
            ask for owner in self._reviewers() for ask in self._position_asks(owner)
        ]
        self._ask(asks, self._after_positions)

    def _after_positions(self) -> None:
        batch = self._settled_batch()
        for one in batch.in_order():
            self._take_positions(one.owner, one.value)
        settle(self._run, batch)
        # Pairs the matcher finds and both owners agree on become one finding.
        for entry, other in self._merge_candidates():
            owners = {entry.owner, other.owner}
            first, second = sorted((entry.id, other.id))
            if (
                entry.is_live
                and other.is_live
                and all((first, second, owner) in self._agreed for owner in owners)
            ):
                self._run.ledger.join(entry, other)
        self._decide()
        self._end(self._ending)

    def _take_positions(self, owner: Owner, said: Mapping[str, Any]) -> None:
        for fields in said["positions"]:
            entry = self._run.ledger.survivor(fields.get("finding_id"))
            stance = next(
                (
                    one
                    for one in Stance
                    if one == as_line(fields.get("position")).casefold()
                ),
                None,
            )
            if entry is not None and stance is not None:
                self._stances.setdefault(entry.id, {})[owner.name] = stance
        for fields in said["merges"]:
            if fields.get("agree") is True:
                self._agree(
                    owner,
                    as_line(fields.get("finding_id")),
                    as_line(fields.get("other_id")),
                )

    def _agree(self, owner: Owner, one: str, other: str) -> None:
        if one and other and one != other:
            first, second = sorted((one, other))
            self._agreed.add((first, second, owner))

    def _decide(self) -> None:
        """Turn positions into states; what lacks support is disputed, with the count as the open doubt."""
        reviewers = [owner.name for owner in self._reviewers()]
        for entry in self._run.ledger.live():
            stances = dict(self._stances.get(entry.id, {}))
            stances.setdefault(entry.owner.name, Stance.SUPPORT)
            for owner in self._supporters.get(entry.id, ()):
                stances.setdefault(owner.name, Stance.SUPPORT)
            share = support_share(stances, CHALLENGER.name, reviewers, self._preset)
            threshold = self._preset.threshold(entry.output.domain)
            state = final_state(share, threshold, origin_round=entry.state.origin_round)
            self._settle_state(entry, state, float(share or 0), float(threshold))

    def _settle_state(
        self, entry: Entry, state: OutputState, share: float, threshold: float
    ) -> None:
        if state is OutputState.DISPUTED:
            text = f"Support of {share:.3f} is below the threshold of {threshold:.2f}"
            self._run.debate.doubt(entry, text, self._run.round)
            return
        # Votes settle what reviewers said against it; evidence that is not there stays not there (Q5).
        for challenge_id in entry.state.unresolved:
            if not self._run.debate.challenges[challenge_id].by_code:
                entry.state.challenges[challenge_id] = ChallengeState.DEFENDED

    def _merge_candidates(self) -> Iterator[tuple[Entry, Entry]]:
        live = self._run.ledger.live()
        candidates = [(entry, Comment.of(entry.output)) for entry in live]
        for (one, first), (other, second) in combinations(candidates, 2):
            if is_same_problem(first, second, same_domain=False):
                yield one, other

    # -- asking

    def _reviewers(self) -> list[Owner]:
        return [*map(expert_owner, self._run.roster.active), INTEGRATOR, CHALLENGER]

    def _message_asks(self, owner: Owner) -> list[Ask]:
        build = partial(
            debate_round_prompt,
            role_title=self._run.title(owner),
            own_ids=self._own_ids(owner),
        )
        return debate_asks(
            self._run, owner, Step.CHALLENGE, self._packet(), build, FOR_MESSAGES
        )

    def _position_asks(self, owner: Owner) -> list[Ask]:
        title = self._run.title(owner)
        own_ids = self._own_ids(owner)
        pairs = [
            (one.id, other.id)
            for one, other in self._merge_candidates()
            if owner in (one.owner, other.owner)
        ]
        build = partial(
            final_position_prompt, role_title=title, own_ids=own_ids, merges=pairs
        )
        return debate_asks(
            self._run, owner, Step.POSITION, self._packet(), build, FOR_POSITIONS
        )

    def _packet(self) -> dict[str, Any]:
        return anonymous(
            packet_for(
                self._run, self._run.ledger.live(), self._run.debate.open_challenges()
            )
        )

    def _own_ids(self, owner: Owner) -> list[str]:
        return [entry.id for entry in self._run.ledger.live() if entry.owner == owner]

    # -- the end

    def _cut_short(self, reason: str) -> None:
        batch = self._settled_batch()
        step = next((ask.call.key.step for ask in batch.asks), Step.ANALYSIS)
        if step is Step.ANALYSIS:
            super()._cut_short(reason)
            return
        if step is Step.POSITION:
            for one in batch.in_order():
                self._take_positions(one.owner, one.value)
        else:
            self._take_messages(batch.in_order())
        settle(self._run, batch)
        self._decide()
        self._end(f"stopped: {reason}")

    def _facts(self, **more: Any) -> SeatFacts:
        mode = "agent-teams" if self.seat.messaging else "plain"
        extra = {"dispatch_mode": mode, "agents_spawned": len(self._reviewers())}
        return super()._facts(extra=extra, **more)


def anonymous(packet: dict[str, Any]) -> dict[str, Any]:
    """A packet whose findings do not say who wrote them."""
    shown = [
        {key: value for key, value in entry.items() if key != "agent"}
        for entry in packet["previous_findings"]
    ]
    return {**packet, "previous_findings": shown}


def _messages(one: ReadReply, *kinds: str) -> list[Mapping[str, Any]]:
    return [
        message
        for message in one.value["messages"]
        if as_line(message.get("kind")).casefold() in kinds
    ]


def _as_response(message: Mapping[str, Any]) -> dict[str, Any]:
    withdrawn = as_line(message.get("kind")).casefold() == "withdrawal"
    return {
        "finding_id": message.get("finding_id"),
        "status": "withdrawn" if withdrawn else "confirmed",
        "defense": message.get("text"),
    }
