"""A seat with several models: each looks once by itself, then what they found is joined (council §12.1).

No debate rounds per model, for cost; `debate_merged` runs one debate round over the joined set with the first model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bridgehead.contract.ids import model_slugs
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Intensity, LocalCouncilType, severity_rank
from bridgehead.council.calls import Role, Step
from bridgehead.council.debate.answers import consolidated, settle
from bridgehead.council.debate.call_batch import CallBatch, ReadReply
from bridgehead.council.debate.first_round import enter_items, items_of, usual_failure
from bridgehead.council.debate.ledger import Entry, Ledger
from bridgehead.council.debate.seat_run import SeatRun
from bridgehead.council.findings.joining import Comment, Problem, join
from bridgehead.council.reporting.seat_report import (
    SeatFacts,
    completed_report,
    skipped_report,
)


class MultiModelRun(SeatRun):
    """Round 1 once per model, all in parallel, then a mini-synthesis."""

    _mode_of_round_1 = "multi-model"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._models = [model for model in self.seat.models if model is not None]
        self._used: list[str] = []
        self._merged = 0

    def _models_of_round_1(self) -> Sequence[str]:
        return self._models

    def _after_first_round(self) -> None:
        batch = self._first_answers()
        if not self._take_models(batch):
            self._finish(skipped_report(self.task, self._facts(), usual_failure(batch)))
            return
        # One round at most, whatever the intensity allows; quick has none.
        if (
            self.seat.debate_merged
            and self._run.ledger.live()
            and not self._shared
            and self.task.intensity is not Intensity.QUICK
        ):
            self._run.model = self._models[0]
            self._begin_round()
        else:
            self._end(None)

    def stop_reason(self) -> str | None:
        return "max_rounds"

    def _cut_short(self, reason: str) -> None:
        batch = self._settled_batch()
        if self._shared:
            batch = self._first_answers()
        if batch.asks[0].call.key.step is not Step.ANALYSIS:
            super()._cut_short(reason)
        elif self._take_models(batch):
            self._end(f"stopped: {reason}")
        else:
            self._finish(skipped_report(self.task, self._facts(), reason))

    def _take_models(self, batch: CallBatch) -> bool:
        """Each model's items under ids of its own, then joined across models; whether any model answered."""
        replies = batch.in_order()
        slugs = dict(zip(self._models, model_slugs(self._models), strict=True))
        raised: list[Entry] = []
        for model in self._models:
            mine = [one for one in replies if one.ask.call.key.model == model]
            if not any(one.ask.call.key.role is Role.EXPERT for one in mine):
                continue
            self._used.append(model)
            raised += self._raise(
                mine,
                Ledger(f"{self.seat.id_prefix}-{slugs[model]}-", None, self._log),
                model,
            )
        by_id = {entry.id: entry for entry in raised}
        for found in join(
            [Comment.of(entry.output) for entry in raised], same_domain=False
        ):
            members = [by_id[name] for name in found.ids]
            models = tuple(
                dict.fromkeys(entry.model for entry in members if entry.model)
            )
            if len(models) >= 2:
                self._merged += 1
                members = [self._joined(found, members, models)]
            for entry in members:
                self._run.ledger.adopt(entry)
                self._run.debate.doubt_failed_evidence([entry], 1)
        settle(self._run, batch)
        return bool(self._used)

    def _raise(
        self, replies: Iterable[ReadReply], ledger: Ledger, model: str
    ) -> list[Entry]:
        for one in replies:
            key = one.ask.call.key
            owner = one.owner
            title = self._run.title(one.owner)
            placed, listed = items_of(one.value)
            _, signals = enter_items(
                ledger,
                self._run.intake,
                placed,
                listed,
                owner,
                agent=title,
                round_number=1,
                model=model,
            )
            self._run.roster.pass_over(signals)
            if key.role is Role.EXPERT and key.domain not in self._run.covered:
                self._run.covered.append(key.domain)
        ledger.merge_duplicates()
        return ledger.live()

    def _joined(
        self, found: Problem, members: Sequence[Entry], models: tuple[str, ...]
    ) -> Entry:
        lead = members[0]
        severity = max((entry.output.severity for entry in members), key=severity_rank)
        lead.merged_from = [
            name for entry in members for name in (entry.id, *entry.merged_from)
        ]
        lead.model = None
        lead.output = msgspec.structs.replace(
            lead.output,
            id=f"{self.seat.id_prefix}-merged-{self._merged:03d}",
            type=found.type,
            severity=severity,
            confirmed_by_models=models,
            intra_bridge_model_confirmed=True,
        )
        self._log(
            "merge",
            kept=lead.id,
            discarded=list(found.ids),
            similarity=None,
            location=None,
        )
        return lead

    def _report(self, facts: SeatFacts) -> BridgeReport:
        kind = LocalCouncilType.MODEL_COUNCIL
        sources = ("role", "model") if len(self._used) > 1 else ("role",)
        found = replace(
            consolidated(self._run), local_council_type=kind, diversity_sources=sources
        )
        return completed_report(self.task, facts, found)

    def _facts(self, **more: Any) -> SeatFacts:
        extra = {
            "dispatch_mode": "multi-model",
            "models_configured": tuple(self._models),
            "models_used": tuple(self._used),
            "instances_spawned": len(self._models),
            "instances_completed": len(self._used),
            "intra_bridge_confirmed": self._merged,
        }
        return super()._facts(extra=extra, **more)
