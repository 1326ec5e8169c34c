"""Stage B: one runtime, not the main author, challenges what all seats found without knowing whose it is (council
§14.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Intensity, TaskType
from bridgehead.council.calls import Answer, Call, CallKey, Result, Role, Seat, Step
from bridgehead.council.debate.call_batch import (
    Ask,
    CallBatch,
    Form,
    ReadReply,
    Tally,
    next_attempt,
)
from bridgehead.council.debate.first_round import ITEMS, items_of, make_ask
from bridgehead.council.debate.ledger import Log
from bridgehead.council.findings.evidence import EvidenceOutcome, check_evidence
from bridgehead.council.findings.joining import Comment, is_same_problem
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.prompts.debate import (
    Debated,
    advocate_prompt,
    council_integration_prompt,
    question_prompt,
    reminder_prompt,
    repair_prompt,
)
from bridgehead.council.prompts.fences import Safe
from bridgehead.council.prompts.packet_limit import FINDINGS, reduce_packet, shown_id
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.items import Draft, Intake, told, writable
from bridgehead.council.replies.reply import read_lists
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.request.domains import CROSS_DOMAIN, INTEGRATION
from bridgehead.council.request.plan import PROPOSING_MODES
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
    YOU,
    CouncilFinding,
    as_output,
    highest_number,
)

PREFERENCE: Final = ("claude", "codex", "gemini", "opencode", "openai")
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

ROUNDS: Final = {Intensity.QUICK: 1, Intensity.STANDARD: 2, Intensity.THOROUGH: 3}
_TAKE_BACK: Final = (NoteOutcome.DOWNGRADED, NoteOutcome.WITHDRAWN)
_NOTES: Final = Form(Answer.NOTES, read_lists("challenge_notes"))


def choose_coordinator(
    seats: Mapping[str, Seat], findings: Sequence[CouncilFinding], wanted: str | None
) -> Seat | None:
    """`seats` are the COMPLETED ones that can be asked; static and rigs are never among them."""
    if not seats:
        return None
    if wanted is not None and wanted in seats:
        return seats[wanted]
    # The family behind most findings; the first on ties.
    counts = Counter(
        source.seat.report.model_family
        for finding in findings
        for source in {source.seat.name: source for source in finding.sources}.values()
        if source.families
    )
    majority = counts.most_common(1)[0][0] if counts else None
    ordered = sorted(
        seats.values(),
        key=lambda seat: ((*PREFERENCE, seat.name).index(seat.name), seat.name),
    )
    return next((seat for seat in ordered if seat.model_family != majority), ordered[0])


def most_calls(intensity: Intensity) -> int:
    """Calls Stage B can need: its rounds, and a reminder for each round of the Devil's Advocate."""
    return ROUNDS[intensity] + (ROUNDS[intensity] + 1) // 2


class CrossChallenge:
    """The coordinator's rounds over the findings of Stage A. Feed it results until `is_done`."""

    def __init__(
        self,
        findings: Sequence[CouncilFinding],
        seat: Seat,
        task: BridgeInput,
        inputs: RunInputs,
        tally: Tally,
        log: Log,
        *,
        attempt: int = 1,
        settled: Sequence[CouncilFinding] = (),
    ) -> None:
        """`settled` are findings of an earlier run: late ones are held against them, they stay as they are."""
        self.findings = list(findings)
        self._beside = settled
        self._settled = [
            one for one in settled if one.cls is not FindingClass.WITHDRAWN
        ]
        self.notes: list[ChallengeNote] = []
        self.warnings: list[str] = []
        self.outcome = COMPLETED
        self.rounds = 0
        self.recommendation: dict[str, Any] | None = None
        self.contradictions: list[dict[str, Any]] = []
        self.is_done = False
        self._classified = tuple(findings)
        self._seat = seat
        self._task = task
        self._inputs = inputs
        self._tally = tally
        self._log = log
        self._seating = attempt
        material = inputs.material.for_seat(reads_files=seat.reads_files)
        self._context = PromptContext(task, material, inputs.secret)
        self._reminded: set[str] = set()
        self._batch: CallBatch | None = None
        self._then: Callable[[], None] = self._end
        self._calls: list[Call] = []

    def start(self) -> tuple[Call, ...]:
        """Put the first question of the Devil's Advocate."""
        self._ask_advocate(
            [one for one in self.findings if one.cls is not FindingClass.WITHDRAWN]
        )
        return self._drain()

    def received(self, result: Result) -> tuple[Call, ...]:
        """Take a result in; returns the next calls. Look at `is_done` afterwards."""
        if self._batch is None or self.is_done:
            return ()
        self._calls += self._batch.received(result)
        if self._batch.is_done:
            self._then()
        return self._drain()

    def give_up(self, reason: str) -> tuple[CallKey, ...]:
        """Stop now; what Stage A said stands."""
        abandoned = self._batch.give_up(reason) if self._batch is not None else ()
        self._fail()
        return abandoned

    @property
    def outstanding(self) -> tuple[CallKey, ...]:
        return (
            self._batch.outstanding
            if self._batch is not None and not self.is_done
            else ()
        )

    # -- Devil's Advocate

    def _ask_advocate(self, shown: Sequence[CouncilFinding]) -> None:
        self.rounds += 1
        asks = self._asks(Role.CHALLENGER, CROSS_DOMAIN, shown, advocate_prompt, _NOTES)
        self._put(asks, self._after_advocate)

    def _after_advocate(self) -> None:
        replies = self._replies()
        if not replies:
            self._fail()
            return
        self._take_notes(replies, {finding.id for finding in self.findings})
        shown = {finding_id for one in replies for finding_id in one.ask.shown_ids}
        missing = owed_notes([one for one in self.findings if one.id in shown])
        if missing:
            self._reminded = {finding.id for finding in missing}
            self._put([self._reminder(replies[-1], missing)], self._after_reminder)
        else:
            self._after_notes()

    def _after_reminder(self) -> None:
        self._take_notes(self._replies(), self._reminded)
        missing = owed_notes(self.findings)
        if missing:
            self.warnings.append(
                "da_challenge_missing:" + ",".join(finding.id for finding in missing)
            )
        self._after_notes()

    def _after_notes(self) -> None:
        intensity = self._task.intensity
        survivors = [
            one for one in self.findings if one.cls is not FindingClass.WITHDRAWN
        ]
        if self.rounds == 1 and intensity is not Intensity.QUICK and survivors:
            self.rounds += 1
            asks = self._asks(
                Role.INTEGRATION,
                INTEGRATION,
                survivors,
                council_integration_prompt,
                ITEMS,
            )
            self._put(asks, self._after_integration)
        else:
            self._end()

    def _take_notes(self, replies: Sequence[ReadReply], wanted: set[str]) -> None:
        known = {
            finding.id: place
            for place, finding in enumerate(self.findings)
            if finding.id in wanted
        }
        after = list(self.findings)
        for one in replies:
            for fields in one.value["challenge_notes"]:
                note = read_note(fields, known)
                if note is None:
                    self._log(
                        "warning", detail="note ignored: unknown finding or outcome"
                    )
                    continue
                place = known[note.finding_id]
                note = replace(note, cites_evidence=self._cites(note))
                note = guard_note(after[place], note)
                self.notes.append(note)
                self._log("challenge_note", **note.to_json())
                after[place] = self._named(apply_note(after[place], note))
            # What a mode asks for besides notes (council §15); nobody else's report has room for it.
            recommendation = one.value.get("recommendation")
            contradictions = one.value.get("contradictions")
            if self._task.mode in PROPOSING_MODES and isinstance(recommendation, dict):
                self.recommendation = writable(recommendation)
            if self._task.task_type is TaskType.RESEARCH and isinstance(
                contradictions, list
            ):
                self.contradictions += [
                    writable(one) for one in contradictions if isinstance(one, dict)
                ]
        self.findings = renamed_after_change(self.findings, after, self._beside)

    def _named(self, finding: CouncilFinding) -> CouncilFinding:
        """Return the finding with the name of the seat that lowered it."""
        if finding.lowered_by != COORDINATOR:
            return finding
        return replace(finding, lowered_by=self._seat.name)

    def _cites(self, note: ChallengeNote) -> bool:
        """Whether the note names a file and line, or quotes a text, that is there (K26)."""
        tree = self._inputs.tree
        texts = (note.response, note.challenge)
        return tree is not None and any(
            check_evidence(text, tree).outcome is EvidenceOutcome.PASSED
            for text in texts
        )

    # -- Integration Checker

    def _after_integration(self) -> None:
        replies = self._replies()
        if not replies:
            self.warnings.append("stage_b_integration_failed")
            self._end()
            return
        intake = Intake(self._task)
        entries = [entry for one in replies for _, entry in items_of(one.value)[0]]
        added = self._new_findings([intake.draft(entry) for entry in entries])
        self.findings += added
        if added and self._task.intensity is Intensity.THOROUGH:
            self._ask_advocate(added)
        else:
            self._end()

    def _new_findings(self, drafts: Sequence[Draft]) -> list[CouncilFinding]:
        """Integration findings that are not there already."""
        known = [
            Comment.of(as_output(finding))
            for finding in (*self._settled, *self.findings)
        ]
        added: list[CouncilFinding] = []
        number = highest_number(
            [*self._settled, *self.findings], FindingClass.INTEGRATION
        )
        for draft in drafts:
            about: dict[str, Any] = {
                "domains": (INTEGRATION,),
                "requirement_id": draft.requirement_id,
            }
            finding = CouncilFinding(
                cls=FindingClass.INTEGRATION, **told(draft), **about
            )
            candidate = Comment.of(as_output(finding))
            if any(
                is_same_problem(other, candidate, same_domain=False) for other in known
            ):
                self._log("warning", detail="integration finding repeats a known one")
                continue
            number += 1
            known.append(candidate)
            named = replace(
                finding, id=numbered_id(ID_PREFIX[FindingClass.INTEGRATION], number)
            )
            self._log("joined", **named.facts())
            added.append(named)
        return added

    # -- asking

    def _asks(
        self,
        role: Role,
        domain: str,
        shown: Sequence[CouncilFinding],
        build: Callable[[PromptContext, CallKey, Debated], Safe],
        form: Form,
    ) -> list[Ask]:
        packet = {
            "round": self.rounds,
            FINDINGS: [
                *(
                    {**shown_finding(finding), "settled": True}
                    for finding in self._settled
                ),
                *(shown_finding(finding) for finding in shown),
            ],
            "open_challenges": [],
            "synthesis": "",
        }
        reduced = reduce_packet(packet)
        asks: list[Ask] = []
        for number, shard in enumerate(reduced.packets, start=1):
            key = self._key(role, domain, shard=number)
            ids = tuple(map(shown_id, shard[FINDINGS]))
            prompt = build(
                self._context,
                key,
                Debated({FINDINGS: shard[FINDINGS]}, reduced.annotated),
            )
            asks.append(
                make_ask(self._seat, self._context, key, prompt, form, shown_ids=ids)
            )
        return asks

    def _reminder(self, spoken: ReadReply, missing: Sequence[CouncilFinding]) -> Ask:
        key = next_attempt(spoken.ask.call.key)
        ids = [finding.id for finding in missing]
        prompt = reminder_prompt(
            self._context, key, spoken.ask.prompt, ids, stage_b=True
        )
        return make_ask(self._seat, self._context, key, prompt, _NOTES)

    def _key(self, role: Role, domain: str, *, shard: int) -> CallKey:
        return CallKey(
            seat=self._seat.name,
            round=self.rounds,
            step=Step.STAGE_B,
            role=role,
            domain=domain,
            shard=shard,
            seating=self._seating,
        )

    def _put(self, asks: Sequence[Ask], then: Callable[[], None]) -> None:
        self._batch = CallBatch(
            asks, self._log, self._tally, partial(repair_prompt, self._context)
        )
        self._then = then
        self._calls += self._batch.start()

    def _replies(self) -> list[ReadReply]:
        return self._batch.in_order() if self._batch is not None else []

    def _drain(self) -> tuple[Call, ...]:
        calls = tuple(self._calls)
        self._calls = []
        return calls

    def _fail(self) -> None:
        """Half a challenge is none: what earlier rounds changed is taken back with them."""
        self.outcome = FAILED
        self.findings = list(self._classified)
        self.notes = []
        self.recommendation = None
        self.contradictions = []
        self.warnings.append("stage_b_failed")
        self._end()

    def _end(self) -> None:
        self.is_done = True


class FindingQuestion(CrossChallenge):
    """One more question about one finding, to its seat and the others; what they answer are notes as in Stage B."""

    _text = ""
    _record: Sequence[Mapping[str, Any]] = ()
    _families: Mapping[str, str] = {}

    def ask(
        self, text: str, record: Sequence[Mapping[str, Any]], seats: Sequence[Seat]
    ) -> tuple[Call, ...]:
        """Put the question to all seats at once; `record` is the argument so far."""
        self._text = text
        self._record = record
        self._families = {seat.name: seat.model_family for seat in seats}
        self.rounds += 1
        self._put([self._question(seat) for seat in seats], self._after_question)
        return self._drain()

    def _question(self, seat: Seat) -> Ask:
        finding = self.findings[0]
        inputs = self._inputs
        material = inputs.material.for_seat(reads_files=seat.reads_files)
        context = PromptContext(self._task, material, inputs.secret)
        key = msgspec.structs.replace(
            self._key(Role.CHALLENGER, CROSS_DOMAIN, shard=1), seat=seat.name
        )
        packet = Debated(
            {FINDINGS: [shown_finding(finding)], "argument": list(self._record)}
        )
        own_finding = seat.name in finding.seats
        prompt = question_prompt(
            context, key, packet, self._text, own_finding=own_finding
        )
        return make_ask(seat, context, key, prompt, _NOTES, shown_ids=(finding.id,))

    def _after_question(self) -> None:
        """A seat that stands by its finding is not overruled by another, nor half of the seats by one."""
        before = after = self.findings[0]
        told = list(self._read())
        takers = {
            self._families.get(one.by, one.by)
            for one in told
            if one.cites_evidence and one.outcome in _TAKE_BACK
        }
        self.notes = [guard_note(before, one, families=len(takers)) for one in told]
        stands = any(
            one.by in before.seats and one.outcome is NoteOutcome.CONFIRMED
            for one in self.notes
        )
        lowering = sum(one.outcome in _TAKE_BACK for one in self.notes)
        for note in self.notes:
            self._log("challenge_note", **note.to_json())
            outcome = note.outcome
            if outcome is NoteOutcome.WITHDRAWN and stands:
                outcome = NoteOutcome.DISPUTED
            elif outcome is NoteOutcome.DOWNGRADED and 2 * lowering < len(self.notes):
                outcome = NoteOutcome.CONFIRMED
            after = apply_note(after, replace(note, outcome=outcome))
        self.findings = renamed_after_change([before], [after], self._beside)
        self._end() if self.notes else self._fail()

    def _read(self) -> Iterator[ChallengeNote]:
        known = {self.findings[0].id}
        for one in self._replies():
            notes = [
                read_note(fields, known) for fields in one.value["challenge_notes"]
            ]
            if note := next(filter(None, notes), None):
                cites = self._cites(note)
                by = one.ask.call.key.seat
                yield replace(
                    note,
                    cites_evidence=cites,
                    challenge=self._text,
                    mechanism=None,
                    by=by,
                )

    def _fail(self) -> None:
        """The finding stays as it was, and the question stands unanswered."""
        finding_id = self._classified[0].id
        self.notes = [
            ChallengeNote(finding_id, NoteOutcome.CONFIRMED, self._text, by=YOU)
        ]
        self.warnings.append(f"question_unanswered:{finding_id}")
        self._end()


def shown_finding(finding: CouncilFinding) -> dict[str, Any]:
    """A finding as the coordinator sees it: labelled by id, without any name of a source."""
    return {
        "id": finding.id,
        "type": finding.type.value,
        "severity": finding.severity.value if finding.severity else None,
        "title": finding.title,
        "description": finding.description,
        "evidence": finding.evidence,
        "action": finding.action,
        "domains": list(finding.domains),
        "reported_by": len(finding.confirming_seats),
        "same_path": finding.shared_cli_path,
    }
