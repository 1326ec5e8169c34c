"""What is worked out between two steps of a debate: conflicts, gaps, and each role's context packet (council §9.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import severity_rank
from bridgehead.council.debate.challenges import Debate
from bridgehead.council.debate.ledger import Entry, Owner, speaks_of
from bridgehead.council.debate.roster import Signal
from bridgehead.council.findings.joining import Comment, is_same_problem
from bridgehead.council.findings.references import (
    Relation,
    find_references,
    is_same_file,
    relate,
)
from bridgehead.council.prompts.packet_limit import characters_omitted
from bridgehead.errors import plural

CONFLICT_STEPS: Final = 2
MOST_CONFLICTS: Final = 20
MOST_CONFLICT_CHARACTERS: Final = 600
MOST_HISTORY: Final = 100
MOST_ANSWER_CHARACTERS: Final = 1_500


@dataclass(frozen=True, slots=True)
class Conflict:
    """A finding of another domain that an owner must hear about; `own_id` is the owner's item it touches, if any."""

    owner: Owner
    own_id: str | None
    other_id: str
    reason: str


def find_conflicts(live: Sequence[Entry]) -> list[Conflict]:
    """Items of different domains about one place or in the same words that cannot both be right; both owners hear."""
    compared = [
        (
            entry,
            Comment.of(entry.output),
        )
        for entry in live
    ]
    conflicts: list[Conflict] = []
    for (one, one_comment), (other, other_comment) in combinations(compared, 2):
        if one.output.domain == other.output.domain or not _disagree(one, other):
            continue
        nearby = (
            relate(one_comment.references, other_comment.references)
            is Relation.SAME_LINES
        )
        if (
            nearby
            or is_same_problem(one_comment, other_comment, same_domain=False)
            or _same_requirement(one, other)
        ):
            conflicts.append(
                Conflict(one.owner, one.id, other.id, "rated or judged differently")
            )
            conflicts.append(
                Conflict(other.owner, other.id, one.id, "rated or judged differently")
            )
    return conflicts


def passed_on_conflicts(
    signals: Iterable[Signal], owners: dict[str, Owner]
) -> list[Conflict]:
    """Signals for a domain that sits already, as conflict entries for its expert."""
    return [
        Conflict(owners[signal.domain], None, signal.trigger_id, signal.reason)
        for signal in signals
        if signal.domain in owners and signal.trigger_id is not None
    ]


def find_gaps(
    task: BridgeInput, scope_files: Sequence[str], entries: Sequence[Entry]
) -> list[str]:
    """Requirements and explicitly named files that no item speaks of."""
    requirements = [
        requirement.id
        for requirement in task.requirements
        if not any(speaks_of(entry, requirement.id) for entry in entries)
    ]
    cited = {
        ref.path
        for entry in entries
        for ref in find_references(entry.output.evidence or "")
    }
    files = [
        path
        for path in scope_files
        if not any(is_same_file(path, other) for other in cited)
    ]
    return requirements + files


def synthesis_text(
    round_number: int, findings: int, challenged: int, added: int, gaps: Sequence[str]
) -> str:
    """One sentence per fact: `Round 1: 5 findings. 2 challenged. 1 new domain added. Gap: R-3.`"""
    sentences = [
        f"Round {round_number}: {plural(findings, 'finding')}.",
        f"{challenged} challenged.",
        f"{plural(added, 'new domain')} added." if added else "",
        *(f"Gap: {gap}." for gap in gaps),
    ]
    return " ".join(filter(None, sentences))


def conflict_entries(
    conflicts: Sequence[Conflict], debate: Debate
) -> list[dict[str, Any]]:
    """Conflicts as an expert is told of them: the other finding without its author."""
    told: list[dict[str, Any]] = []
    for conflict in conflicts[:MOST_CONFLICTS]:
        other = debate.ledger[conflict.other_id].output
        told.append(
            {
                "your_finding_id": conflict.own_id,
                "other_domain": other.domain,
                "other_severity": other.severity.value if other.severity else None,
                "other_title": other.title,
                "other_description": cut_text(
                    other.description, MOST_CONFLICT_CHARACTERS
                ),
                "other_evidence": cut_text(
                    other.evidence or "", MOST_CONFLICT_CHARACTERS
                ),
                "reason": conflict.reason,
            }
        )
    if len(conflicts) > MOST_CONFLICTS:
        told.append(
            {"omitted": f"[... {len(conflicts) - MOST_CONFLICTS} conflicts omitted]"}
        )
    return told


def history_entries(debate: Debate) -> list[dict[str, Any]]:
    """The newest challenges and answers, each cut to a length one can read, with a mark where something is missing."""
    history = debate.history()
    kept = [
        {
            **entry,
            "answer": entry["answer"]
            and cut_text(entry["answer"], MOST_ANSWER_CHARACTERS),
        }
        for entry in history[-MOST_HISTORY:]
    ]
    if len(history) > MOST_HISTORY:
        kept.insert(
            0,
            {
                "omitted": f"[... {len(history) - MOST_HISTORY} older challenges omitted]"
            },
        )
    return kept


def cut_text(text: str, most: int) -> str:
    return (
        text
        if len(text) <= most
        else text[:most] + characters_omitted(len(text) - most)
    )


def _disagree(one: Entry, other: Entry) -> bool:
    apart = abs(
        severity_rank(one.output.severity) - severity_rank(other.output.severity)
    )
    rated = one.output.severity is not None and other.output.severity is not None
    return (rated and apart >= CONFLICT_STEPS) or _same_requirement(one, other)


def _same_requirement(one: Entry, other: Entry) -> bool:
    """One says met, the other unmet, of the same requirement."""
    named = isinstance(one.output.requirement_id, str)
    return (
        named
        and one.output.requirement_id == other.output.requirement_id
        and (one.output.met is True) != (other.output.met is True)
    )
