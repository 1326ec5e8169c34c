"""Stage B of a council whose roles share calls (council §14.3): Challenger and Integration Checker in one call over
the findings of all seats, then one answer of each seat that owns a finding in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from bridgehead.contract.ids import id_sort_key, numbered_id
from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import Severity
from bridgehead.council.calls import Answer, Call, CallKey, Role, Seat, Step
from bridgehead.council.debate.call_batch import (
    BUDGET_REACHED,
    Ask,
    Form,
    ReadReply,
)
from bridgehead.council.debate.first_round import items_of, make_ask
from bridgehead.council.findings.evidence import EvidenceOutcome, check_evidence
from bridgehead.council.findings.fingerprint import with_identity
from bridgehead.council.findings.joining import Comment, is_same_problem
from bridgehead.council.prompts.debate import Debated
from bridgehead.council.prompts.packet_limit import (
    CHALLENGES,
    FINDINGS,
    reduce_packet,
    shown_id,
)
from bridgehead.council.prompts.sections import (
    CalledIn,
    defence_prompt,
    examination_prompt,
)
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.items import Intake, as_line, told
from bridgehead.council.replies.reply import read_lists, read_sections
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.request.domains import CROSS_DOMAIN, Expert
from bridgehead.council.synthesis.cross_challenge import (
    SKIPPED,
    CrossChallenge,
    shown_finding,
)
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
    apply_note,
    guard_note,
    owed_notes,
    read_note,
    renamed_after_change,
)
from bridgehead.council.synthesis.finding import (
    COORDINATOR,
    ID_PREFIX,
    CouncilFinding,
    SeatReport,
    Source,
    as_output,
    highest_number,
)
from bridgehead.council.synthesis.rulings import (
    SEVERAL,
    OwnerAnswer,
    apply_ruling,
    is_open,
    read_answer,
    reason_in,
    rule,
    seats_against,
)

# LOW and INFO stand in no row of a verdict table (council §11.1, §14.4), and no outcome
# raises a severity: for them alone no call is made. MEDIUM counts where one seat is
# left, and is what a reader acts on next.
_WORTH_A_CALL: Final = frozenset({Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM})
# LOW is shown where a call is made anyway: what is wrong should not stay in the list.
_SHOWN: Final = _WORTH_A_CALL | {Severity.LOW}
_EXAMINATION: Final = Form(
    Answer.EXAMINATION, read_lists("challenge_notes", optional=("outputs",))
)
_DEFENCES: Final = Form(
    Answer.DEFENCES, read_lists("responses", "challenge_notes", optional=("sections",))
)

MayAsk = Callable[[int], bool]
"""Whether so many calls may still be made."""


def to_challenge(findings: Sequence[CouncilFinding]) -> list[CouncilFinding]:
    """Return what the coordinator is shown: nothing if no answer could change a verdict."""
    standing = [one for one in findings if one.cls is not FindingClass.WITHDRAWN]
    if not any(one.severity in _WORTH_A_CALL for one in standing):
        return []
    return [one for one in standing if one.severity in _SHOWN]


class SharedChallenge(CrossChallenge):
    """One challenge of everything, then the answers of those concerned."""

    _askable: Mapping[str, Seat]
    _may_ask: MayAsk
    _shown: set[str]
    _spoken: dict[str, ChallengeNote]
    """What the coordinator says, by finding."""
    _open: dict[str, ChallengeNote]
    """Those notes that would change a finding."""
    _is_answering = False

    def among(
        self,
        askable: Mapping[str, Seat],
        may_ask: MayAsk,
        reports: Sequence[SeatReport],
        called_in: Mapping[str, Sequence[CalledIn]],
    ) -> None:
        """Name the seats that can be heard, the budget, and the experts they call for."""
        self.amended: dict[str, BridgeReport] = {}
        """Reports of seats whose further experts found something or looked in vain."""
        self.heard_experts: set[str] = set()
        self._reports = {one.name: one for one in reports}
        self._called_in = called_in
        self._askable = askable
        self._may_ask = may_ask
        self._shown = set()
        self._spoken = {}
        self._open = {}

    def start(self) -> tuple[Call, ...]:
        """Put the question of Challenger and Integration Checker."""
        shown = to_challenge(self.findings)
        if shown:
            self.rounds += 1
            asks = self._asks(
                Role.CHALLENGER, CROSS_DOMAIN, shown, examination_prompt, _EXAMINATION
            )
            self._put(asks, self._after_examination)
        else:
            self._ask_seats()
        calls = self._drain()
        if not calls:
            self.outcome = SKIPPED
        return calls

    def give_up(self, reason: str) -> tuple[CallKey, ...]:
        """Stop now; a challenge whose owners were not heard is a dispute."""
        if not self._is_answering or self._batch is None:
            return super().give_up(reason)
        abandoned = self._batch.give_up(reason)
        self._settle(heard=False)
        return abandoned

    # -- the challenge

    def _after_examination(self) -> None:
        replies = self._replies()
        if not replies:
            self._fail()
            return
        for one in replies:
            self._shown.update(one.ask.shown_ids)
        self._take_challenges(replies)
        missing = owed_notes([one for one in self.findings if one.id in self._shown])
        unchallenged = [one.id for one in missing if one.id not in self._open]
        if unchallenged:
            self.warnings.append("da_challenge_missing:" + ",".join(unchallenged))
        intake = Intake(self._task)
        entries = [entry for one in replies for _, entry in items_of(one.value)[0]]
        self.findings += self._new_findings([intake.draft(entry) for entry in entries])
        self._ask_seats()

    def _take_challenges(self, replies: Sequence[ReadReply]) -> None:
        """Apply what confirms a finding; what would change it waits for the owners."""
        places = {one.id: place for place, one in enumerate(self.findings)}
        for one in replies:
            for fields in one.value["challenge_notes"]:
                wanted = self._shown & places.keys() - self._spoken.keys()
                note = read_note(fields, wanted)
                if note is None:
                    self._log(
                        "warning", detail="note ignored: unknown finding or outcome"
                    )
                    continue
                note = replace(note, cites_evidence=self._cites(note))
                self._spoken[note.finding_id] = note
                finding = self.findings[places[note.finding_id]]
                if is_open(note, finding):
                    self._open[note.finding_id] = note
                    continue
                self.findings[places[note.finding_id]] = apply_note(finding, note)
                self._keep(note)

    def _keep(self, *notes: ChallengeNote) -> None:
        for note in notes:
            self.notes.append(note)
            self._log("challenge_note", **note.to_json())

    # -- the answers

    def _ask_seats(self) -> None:
        """Hear every seat once: owners on challenges, the others where their word can tip it."""
        asks: list[Ask] = []
        for name, seat in self._askable.items():
            mine = [
                one
                for one in self.findings
                if one.id in self._open and name in one.seats
            ]
            others = [one for one in self.findings if self._may_tip(name, one)]
            if mine or others or self._called_in.get(name):
                asks += self._answer_asks(seat, mine, others)
        if not asks:
            self._settle(heard=True)
        elif not self._may_ask(len(asks)):
            self.warnings.append(BUDGET_REACHED)
            self._settle(heard=False)
        else:
            self.rounds += 1
            self._is_answering = True
            self.heard_experts = {
                name for name in self._askable if self._called_in.get(name)
            }
            self._put(asks, self._after_answers)

    def _may_tip(self, name: str, finding: CouncilFinding) -> bool:
        """Return whether a seat that did not report a finding can change what becomes of it.

        The coordinator has spoken already, and one voice alone decides nothing.
        """
        is_strange = name not in finding.seats and name != self._seat.name
        if not is_strange or finding.id not in self._shown:
            return False
        strangers = [
            one
            for one in self._askable
            if one not in finding.seats and one != self._seat.name
        ]
        doubted = 1 if finding.id in self._open else 0
        return len(strangers) + doubted >= SEVERAL

    def _answer_asks(
        self,
        seat: Seat,
        mine: Sequence[CouncilFinding],
        others: Sequence[CouncilFinding],
    ) -> list[Ask]:
        material = self._inputs.material.for_seat(reads_files=seat.reads_files)
        context = PromptContext(self._task, material, self._inputs.secret)
        packet = {
            FINDINGS: [shown_finding(finding) for finding in (*mine, *others)],
            CHALLENGES: [_shown_challenge(self._open[one.id]) for one in mine],
            "synthesis": "",
        }
        reduced = reduce_packet(packet)
        asks: list[Ask] = []
        for number, shard in enumerate(reduced.packets, start=1):
            key = CallKey(
                seat=seat.name,
                round=self.rounds + 1,
                step=Step.STAGE_B,
                role=Role.EXPERTS,
                domain=CROSS_DOMAIN,
                shard=number,
                seating=self._seating,
            )
            shown = {name: shard[name] for name in (FINDINGS, CHALLENGES)}
            # Further experts are asked once, with the first part.
            late = self._called_in.get(seat.name, ()) if number == 1 else ()
            debated = Debated(shown, reduced.annotated)
            prompt = defence_prompt(context, key, debated, late)
            ids = tuple(map(shown_id, shard[FINDINGS]))
            asks.append(make_ask(seat, context, key, prompt, _DEFENCES, shown_ids=ids))
        return asks

    def _after_answers(self) -> None:
        self._settle(heard=True)

    def _settle(self, *, heard: bool) -> None:
        """Rule on every finding with what was said about it."""
        replies = self._replies() if self._is_answering else []
        before = list(self.findings)
        after = list(self.findings)
        for place, finding in enumerate(before):
            note = self._spoken.get(finding.id)
            answers = self._answers(finding, replies)
            opinions = self._opinions(finding, replies)
            ruling = rule(
                finding,
                note,
                answers,
                opinions,
                heard=heard or not self._can_be_heard(finding),
                guarded=self._inputs.withdrawal_guard,
                by_owner=self._seat.name in finding.seats,
            )
            if note is not None:
                self._keep(*(one.as_note(note) for one in answers))
            doubts = [
                one for one in opinions if one.outcome is not NoteOutcome.CONFIRMED
            ]
            self._keep(*doubts)
            if ruling is None:
                continue
            spoken = opinions if note is None else [note, *opinions]
            families = self._families(seats_against(answers, spoken))
            ruling = guard_note(finding, ruling, families=len(families))
            if ruling.by == COORDINATOR:
                self._keep(ruling)
            elif finding.id in self._open:
                self._keep(self._open[finding.id])
            after[place] = self._named(apply_ruling(finding, ruling, answers))
        self.findings = renamed_after_change(before, after, self._beside)
        for one in replies:
            self._take_late(one)
        self._end()

    def _families(self, names: Sequence[str]) -> frozenset[str]:
        """Return the model families of these seats; the coordinator is one of them."""
        seats = [
            self._seat if name == COORDINATOR else self._askable[name] for name in names
        ]
        return frozenset(seat.model_family for seat in seats)

    def _take_late(self, reply: ReadReply) -> None:
        """Take what the further experts of a seat found into its report and the council's."""
        name = reply.ask.call.key.seat
        experts = {
            one.expert.domain: one.expert for one in self._called_in.get(name, ())
        }
        found = read_sections(list(experts))({"sections": reply.value["sections"]})
        if found is None or name not in self._reports:
            return
        seat = self._reports[name]
        report = self.amended.get(name, seat.report)
        looked = tuple(
            domain
            for domain in found.value.by_domain
            if domain not in found.value.refused and not reply.partial
        )
        outputs = list(report.outputs)
        for domain, items in found.value.by_domain.items():
            for _, entry in items.entries:
                output = self._late_output(report, outputs, entry, experts[domain])
                if self._add_single(Source(seat, output)):
                    outputs.append(output)
        self.amended[name] = msgspec.structs.replace(
            report,
            outputs=tuple(outputs),
            domains_covered=(*report.domains_covered, *looked),
            unexplored_domains=tuple(
                one for one in report.unexplored_domains if one not in looked
            ),
        )

    def _late_output(
        self,
        report: BridgeReport,
        outputs: Sequence[Output],
        entry: Mapping[str, Any],
        expert: Expert,
    ) -> Output:
        """Return an item of a further expert under the next id of its seat."""
        taken = [id_sort_key(one.id) for one in (*outputs, *report.withdrawn_outputs)]
        prefix = self._askable[report.bridge].id_prefix
        last = max((key[1] for key in taken if key[0] == prefix), default=0)
        output = (
            Intake(self._task)
            .draft(entry)
            .output(
                numbered_id(prefix, last + 1),
                domain=expert.domain,
                agent=expert.role,
                origin_round=self.rounds,
            )
        )
        return with_identity(output, self._inputs.tree, self._inputs.renames)

    def _add_single(self, source: Source) -> bool:
        """Add a finding of one seat unless it is known; returns whether it was added."""
        output = source.output
        candidate = Comment.of(output)
        known = [Comment.of(as_output(one)) for one in (*self._settled, *self.findings)]
        if any(is_same_problem(one, candidate, same_domain=False) for one in known):
            self._log(
                "warning", detail="finding of a further expert repeats a known one"
            )
            return False
        everything = [*self._beside, *self.findings]
        number = highest_number(everything, FindingClass.SINGLE) + 1
        finding = CouncilFinding(
            cls=FindingClass.SINGLE,
            **told(output),
            domains=(output.domain,),
            sources=(source,),
            id=numbered_id(ID_PREFIX[FindingClass.SINGLE], number),
        )
        self.findings.append(finding)
        self._log("joined", **finding.facts())
        return True

    def _can_be_heard(self, finding: CouncilFinding) -> bool:
        """Return whether one of its owners takes prompts; analysers and rigs do not."""
        return any(name in self._askable for name in finding.seats)

    def _answers(
        self, finding: CouncilFinding, replies: Sequence[ReadReply]
    ) -> list[OwnerAnswer]:
        """Return what its owners say about the challenge; the first word of each counts."""
        answers: dict[str, OwnerAnswer] = {}
        for one in replies:
            seat = one.ask.call.key.seat
            if finding.id not in self._open or seat not in finding.seats:
                continue
            for fields in one.value["responses"]:
                if as_line(fields.get("finding_id")) != finding.id:
                    continue
                cites = self._is_there(reason_in(fields))
                answer = read_answer(fields, finding, seat, cites_evidence=cites)
                if answer is not None:
                    answers.setdefault(seat, answer)
        return list(answers.values())

    def _opinions(
        self, finding: CouncilFinding, replies: Sequence[ReadReply]
    ) -> list[ChallengeNote]:
        """Return what the seats that did not report it say of it; saying nothing confirms."""
        opinions: dict[str, ChallengeNote] = {}
        for one in replies:
            seat = one.ask.call.key.seat
            if finding.id not in one.ask.shown_ids or seat in finding.seats:
                continue
            for fields in one.value["challenge_notes"]:
                note = read_note(fields, {finding.id})
                if note is not None:
                    cites = self._cites(note)
                    spoken = replace(
                        note, cites_evidence=cites, by=seat, challenger=seat
                    )
                    opinions.setdefault(seat, spoken)
            silent = ChallengeNote(finding.id, NoteOutcome.CONFIRMED, by=seat)
            opinions.setdefault(seat, silent)
        return list(opinions.values())

    def _is_there(self, text: str) -> bool:
        """Return whether a text cites a place or quotes a line that is there."""
        tree = self._inputs.tree
        if tree is None:
            return False
        return check_evidence(text, tree).outcome is EvidenceOutcome.PASSED


def _shown_challenge(note: ChallengeNote) -> dict[str, Any]:
    """Return a challenge as the owner of its finding sees it."""
    would_be = note.outcome.value
    if note.new_severity is not None:
        would_be = f"{would_be} to {note.new_severity}"
    text = "\n".join(filter(None, [note.challenge, note.response]))
    return {
        "challenge_id": note.finding_id,
        "target_finding_id": note.finding_id,
        "challenge_text": text,
        "proposed_outcome": would_be,
    }
