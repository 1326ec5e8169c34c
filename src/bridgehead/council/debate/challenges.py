"""The rules of a debate: who may challenge what, what counts as an answer, what a ruling does (council §9.4, §9.7).

`Debate` is fed with parsed replies and changes the ledger; it knows nothing of prompts, calls or rounds to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.contract.ids import CHALLENGE_PREFIX, numbered_id
from bridgehead.contract.words import Severity, severity_rank
from bridgehead.council.calls import Role
from bridgehead.council.debate.ledger import (
    Entry,
    Ledger,
    Log,
    Owner,
    Ruling,
    is_serious,
)
from bridgehead.council.findings.evidence import EvidenceOutcome
from bridgehead.council.findings.taking_back import objection_to_taking_back
from bridgehead.council.findings.wording import tokens
from bridgehead.council.replies.items import Intake, as_line, as_text, parse_severity

MECHANISMS: Final = frozenset(
    {"missing-assumption", "alternative-explanation", "non-applicability"}
)
NOBODY_ANSWERED: Final = "this challenge was not answered"
CODE: Final = "code"
"""Raises a challenge where no agent does: a citation that is not there, a vote that was lost."""
_RULED: Final = {
    Ruling.MAINTAIN: "the doubt remains",
    Ruling.WITHDRAW: "the doubt is taken back",
    Ruling.ESCALATE: "the doubt is graver now",
}
_ANSWERED: Final = {"defend": "", "revise": "revised: ", "withdraw": "withdrawn: "}
_ONE_STEP_UP: Final = dict(
    zip(Severity, [*list(Severity)[1:], Severity.CRITICAL], strict=True)
)


@dataclass(slots=True)
class Challenge:
    """A doubt about one finding, raised by an agent or by the evidence check (Q5)."""

    id: str
    target: str
    text: str
    mechanism: str
    severity: Severity | None
    round: int
    by: str
    answers: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, step: str, by: str, text: str, round_number: int) -> None:
        self.told.append({"step": step, "by": by, "text": text, "round": round_number})

    @property
    def by_code(self) -> bool:
        return self.by == CODE


class Debate:
    """Challenges, answers and rulings over the items of one ledger."""

    def __init__(
        self, ledger: Ledger, intake: Intake, log: Log, *, withdrawal_guard: bool = True
    ) -> None:
        self.ledger = ledger
        self.challenges: dict[str, Challenge] = {}
        self.rounds_finished = 0
        self.changes: Counter[str] = Counter()
        """What the present round produced: `new`, `revised`, `withdrawn`."""
        self._intake = intake
        self._log = log
        self._guarded = withdrawal_guard

    # -- challenges

    def doubt_failed_evidence(
        self, entries: Iterable[Entry], round_number: int
    ) -> None:
        """One challenge for each item whose citation is not there, whatever its severity (Q5)."""
        for entry in entries:
            if entry.check.outcome is EvidenceOutcome.FAILED:
                places = ", ".join(
                    f"{reference.path} ({reference.reason})"
                    for reference in entry.check.references
                    if reference.outcome is EvidenceOutcome.FAILED
                )
                text = (
                    "The cited evidence was not found by a check of the files: "
                    f"{places}"
                )
                self._issue(
                    entry, text, "missing-assumption", None, round_number, by=CODE
                )

    def doubt(self, entry: Entry, text: str, round_number: int) -> None:
        """A challenge nobody can answer any more; the item ends as disputed."""
        self._issue(entry, text, "missing-assumption", None, round_number, by=CODE)

    def take_challenges(
        self, raised: Sequence[Mapping[str, Any]], round_number: int, *, by: Owner
    ) -> int:
        """Accept the valid challenges of a reply; the others are logged. Returns how many counted."""
        accepted = 0
        for entry_fields in raised:
            refusal = self._take_challenge(entry_fields, round_number, by)
            accepted += refusal is None
            if refusal is not None:
                target = as_line(entry_fields.get("target_finding_id"))
                self._log(
                    "warning",
                    detail=f"invalid_challenge: {refusal}: {target[:80]}",
                    round=round_number,
                )
        return accepted

    def _take_challenge(
        self, fields: Mapping[str, Any], round_number: int, by: Owner
    ) -> str | None:
        entry = self.ledger.survivor(fields.get("target_finding_id"))
        text = as_text(fields.get("challenge_text"))
        mechanism = as_line(fields.get("mechanism")).casefold()
        if entry is None:
            return "unknown finding"
        if entry.owner.role is by.role is Role.CHALLENGER:
            return "its own finding"
        if entry.state.withdrawn:
            return "withdrawn finding"
        if text is None or mechanism not in MECHANISMS:
            return "no mechanism"
        severity = parse_severity(fields.get("proposed_severity"))
        self._issue(entry, text, mechanism, severity, round_number, by=by.name)
        return None

    def _issue(
        self,
        entry: Entry,
        text: str,
        mechanism: str,
        severity: Severity | None,
        round_number: int,
        *,
        by: str,
    ) -> None:
        challenge_id = numbered_id(CHALLENGE_PREFIX, len(self.challenges) + 1)
        challenge = Challenge(
            challenge_id,
            entry.id,
            text,
            mechanism,
            severity or entry.output.severity,
            round_number,
            by,
        )
        self.challenges[challenge_id] = challenge
        challenge.tell("challenge", by, text, round_number)
        before = self._status(entry)
        entry.state.challenge(challenge_id)
        entry.unchallenged = entry.unchallenged and challenge.by_code
        self._log(
            "challenge",
            challenge_id=challenge_id,
            target_finding_id=entry.id,
            round=round_number,
            text=text,
            mechanism=mechanism,
            by=by,
            to=entry.owner.name,
        )
        self._note_state(entry, before, round_number)

    def owed(self, shown_ids: Iterable[str]) -> list[Entry]:
        """Serious items, not the Challenger's own, that it was shown and has never challenged."""
        challenged = {
            self.target_of(challenge).id
            for challenge in self.challenges.values()
            if not challenge.by_code
        }
        shown = {
            entry.id: entry
            for entry in map(self.ledger.survivor, shown_ids)
            if entry is not None
        }
        return [
            entry
            for entry in shown.values()
            if entry.is_live
            and is_serious(entry)
            and entry.owner.role is not Role.CHALLENGER
            and entry.id not in challenged
        ]

    # -- rulings

    def take_rulings(
        self, rulings: Sequence[Mapping[str, Any]], round_number: int
    ) -> None:
        """Apply what the Challenger makes of the answers; rulings on unknown or final challenges are ignored."""
        for fields in rulings:
            challenge = self.challenges.get(as_line(fields.get("challenge_id")))
            spelled = as_line(fields.get("ruling")).casefold()
            ruling = next((one for one in Ruling if one.value == spelled), None)
            if challenge is None or ruling is None:
                self._log(
                    "warning",
                    detail="ruling ignored: unknown challenge or word",
                    round=round_number,
                )
                continue
            self._rule(challenge, ruling, as_text(fields.get("reason")), round_number)

    def _rule(
        self,
        challenge: Challenge,
        ruling: Ruling,
        reason: str | None,
        round_number: int,
    ) -> None:
        entry = self.target_of(challenge)
        before = self._status(entry)
        if not entry.state.rule(challenge.id, ruling):
            return
        if ruling is Ruling.ESCALATE:
            # Escalating strengthens the challenge, never the finding (K13).
            challenge.severity = (
                _ONE_STEP_UP[challenge.severity] if challenge.severity else None
            )
            challenge.text += f"\nEscalated: {reason}" if reason else ""
        said = ": ".join(filter(None, [_RULED[ruling], reason]))
        challenge.tell("ruling", Role.CHALLENGER.value, said, round_number)
        self._log(
            "ruling",
            challenge_id=challenge.id,
            target_finding_id=entry.id,
            round=round_number,
            ruling=ruling.value,
        )
        self._note_state(entry, before, round_number)

    # -- answers

    def take_responses(
        self,
        owner: Owner,
        responses: Sequence[Mapping[str, Any]],
        asked: Sequence[str],
        round_number: int,
    ) -> None:
        """Apply an owner's answers to the challenges it was shown (`asked`); what it left out is no response."""
        answered: set[str] = set()
        for fields in responses:
            entry = self.ledger.survivor(fields.get("finding_id") or fields.get("id"))
            if (
                entry is None
                or entry.owner != owner
                or not entry.is_live
                or entry.id in answered
            ):
                continue
            answered.add(entry.id)
            mine = [
                self.challenges[key] for key in entry.state.unresolved if key in asked
            ]
            before = self._status(entry)
            stance = self._respond(entry, mine, fields)
            self._log_responses(entry, mine, stance, round_number)
            self._note_state(entry, before, round_number)
        for key in asked:
            entry = self.target_of(self.challenges[key])
            if entry.owner == owner and entry.id not in answered:
                self._log_responses(
                    entry, [self.challenges[key]], "no_response", round_number
                )

    def _respond(
        self, entry: Entry, mine: Sequence[Challenge], fields: Mapping[str, Any]
    ) -> str:
        reason = as_text(fields.get("defense")) or as_text(fields.get("reason")) or ""
        match as_line(fields.get("status")).casefold():
            case "withdrawn":
                return self._withdraw(entry, mine, reason)
            case "revised":
                return self._revise(entry, mine, reason, fields)
            case "confirmed":
                return self._defend(entry, mine, reason)
            case _:
                return "no_response"

    def _defend(self, entry: Entry, mine: Sequence[Challenge], reason: str) -> str:
        met = [challenge for challenge in mine if self._meets(challenge, reason)]
        for challenge in met:
            entry.state.defend(challenge.id)
            challenge.answers.append(reason)
        return "defend" if met else "no_response"

    def _revise(
        self,
        entry: Entry,
        mine: Sequence[Challenge],
        reason: str,
        fields: Mapping[str, Any],
    ) -> str:
        changes = self._intake.changes(entry.output, fields)
        given = changes.get("severity")
        lowers = given is not None and given.rank < severity_rank(entry.output.severity)
        if lowers and not self._may_take_back(entry, reason, mine):
            del changes["severity"]
            if not changes:  # like a withdrawal on a polite word
                return "no_response"
        elif lowers:
            entry.lowered_from = entry.lowered_from or entry.output.severity
        if not changes:
            return self._defend(entry, mine, reason)
        self.ledger.revise(entry, changes)
        still_unproven = entry.check.outcome is EvidenceOutcome.FAILED
        settled = [
            challenge
            for challenge in mine
            if not (challenge.by_code and still_unproven)
        ]
        entry.state.revise(*(challenge.id for challenge in settled))
        for challenge in settled:
            challenge.answers.append(reason or ", ".join(sorted(changes)))
        self.changes["revised"] += 1
        return "revise"

    def _withdraw(self, entry: Entry, mine: Sequence[Challenge], reason: str) -> str:
        why = reason or (mine[0].text if mine else "")
        if not why or not self._may_take_back(entry, reason, mine):
            # A serious finding must not vanish on a polite word (Q3); it ends as disputed instead.
            return "no_response"
        entry.state.withdraw()
        entry.withdrawal_reason = why
        entry.withdrawn_for = mine[0].id if mine else None
        for challenge in mine:
            challenge.answers.append(reason or "withdrawn")
        self.changes["withdrawn"] += 1
        return "withdraw"

    def _meets(self, challenge: Challenge, reason: str) -> bool:
        """A defense brings a word the challenge lacks; against failed evidence, evidence that is there."""
        if challenge.by_code:
            return self.ledger.check(reason).outcome is EvidenceOutcome.PASSED
        return bool(tokens(reason) - tokens(challenge.text))

    def _may_take_back(
        self, entry: Entry, reason: str, mine: Sequence[Challenge]
    ) -> bool:
        """Return whether an owner may withdraw or lower its own item."""
        if not self._guarded or not is_serious(entry):
            return True
        proven = self._is_proven(reason, mine)
        return objection_to_taking_back(cites_evidence=proven) is None

    def _is_proven(self, reason: str, mine: Sequence[Challenge]) -> bool:
        if any(challenge.by_code for challenge in mine):
            return True
        cited = [reason, *(challenge.text for challenge in mine)]
        return any(
            self.ledger.check(text).outcome is EvidenceOutcome.PASSED for text in cited
        )

    # -- where the debate stands

    def open_challenges(self) -> list[Challenge]:
        """Challenges against live items that are open, maintained or escalated, oldest first."""
        unresolved = {
            key for entry in self.ledger.live() for key in entry.state.unresolved
        }
        return [
            challenge for key, challenge in self.challenges.items() if key in unresolved
        ]

    def open_for(self, owner: Owner) -> list[Challenge]:
        return [
            challenge
            for challenge in self.open_challenges()
            if self.target_of(challenge).owner == owner
        ]

    @property
    def awaits_ruling(self) -> bool:
        """Whether an answer was given that the Challenger has not ruled on."""
        answered = ("defended", "revised")
        return any(
            state in answered
            for entry in self.ledger.live()
            for state in entry.state.challenges.values()
        )

    @property
    def all_resolved(self) -> bool:
        return not any(entry.state.unresolved for entry in self.ledger.live())

    def history(self) -> list[dict[str, Any]]:
        """Every challenge by an agent against a live item, with its state and the last answer."""
        return [
            {
                "challenge_id": challenge.id,
                "target_finding_id": entry.id,
                "challenge_text": challenge.text,
                "state": entry.state.challenges[challenge.id].value,
                "answer": challenge.answers[-1] if challenge.answers else None,
            }
            for challenge in self.challenges.values()
            if (entry := self.target_of(challenge)).is_live
        ]

    def unresolved_text(self, entry: Entry) -> str:
        """The challenges left over at the end, oldest first (council §9.7)."""
        # A merged item brought challenges along, so the order is that in which they were raised.
        unresolved = entry.state.unresolved
        left = [
            challenge for key, challenge in self.challenges.items() if key in unresolved
        ]
        return "\n".join(
            challenge.text if challenge.answers else f"(unanswered) {challenge.text}"
            for challenge in left
        )

    def argument(self, entry: Entry) -> tuple[dict[str, Any], ...]:
        """All that was said about an item; a challenge that nobody answered says so."""
        steps: list[dict[str, Any]] = []
        for challenge in (self.challenges[key] for key in entry.state.challenges):
            steps += challenge.told
            if (
                not (challenge.answers or challenge.by_code)
                and challenge.id in entry.state.unresolved
            ):
                steps.append(
                    {
                        "step": "unanswered",
                        "by": entry.owner.name,
                        "text": NOBODY_ANSWERED,
                    }
                )
        return tuple(steps)

    def finish_round(self, round_number: int, stop_reason: str | None) -> None:
        self.rounds_finished += 1
        self._log(
            "round_complete",
            round=round_number,
            new=self.changes["new"],
            revised=self.changes["revised"],
            withdrawn=self.changes["withdrawn"],
            open_challenges=len(self.open_challenges()),
            **({"stop_reason": stop_reason} if stop_reason else {}),
        )

    def target_of(self, challenge: Challenge) -> Entry:
        """The item a challenge is directed at, after merges."""
        entry = self.ledger.survivor(challenge.target)
        if entry is None:
            raise AssertionError(f"challenge {challenge.id} has no target")
        return entry

    def shown(self, challenge: Challenge) -> dict[str, Any]:
        """A challenge as packets show it."""
        entry = self.target_of(challenge)
        return {
            "challenge_id": challenge.id,
            "target_finding_id": entry.id,
            "challenge_text": challenge.text,
            "directed_at_domain": entry.output.domain,
        }

    def _status(self, entry: Entry) -> str | None:
        return entry.state.status(self.rounds_finished)

    def _note_state(self, entry: Entry, before: str | None, round_number: int) -> None:
        after = self._status(entry)
        if after != before:
            self._log(
                "state",
                id=entry.id,
                **{"from": before, "to": after},
                round=round_number,
            )

    def _log_responses(
        self,
        entry: Entry,
        challenges: Sequence[Challenge],
        stance: str,
        round_number: int,
    ) -> None:
        for challenge in challenges:
            if stance in _ANSWERED and challenge.answers:
                said = f"{_ANSWERED[stance]}{challenge.answers[-1]}"
                challenge.tell("defence", entry.owner.name, said, round_number)
            self._log(
                "response",
                challenge_id=challenge.id,
                target_finding_id=entry.id,
                round=round_number,
                stance=stance,
            )
