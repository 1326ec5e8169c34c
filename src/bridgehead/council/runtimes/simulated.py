"""A reviewer made of numbers: finds, invents, challenges and gives in with known probabilities (council §21).

It measures what a council is worth without a model. Everything is drawn from seeds, so a run can be repeated; draws of
different reviewers are correlated by a common cause, because models that are wrong tend to be wrong together.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from bridgehead.contract.words import Severity
from bridgehead.council.calls import Answer, Call, CallUsage, Role
from bridgehead.council.runtimes.base import InProcess, Missing, SeatSetup
from bridgehead.council.runtimes.exchange import Answered, Outcome
from bridgehead.council.runtimes.json_lines import objects_in
from bridgehead.council.runtimes.machine import Machine

_FINDING_LISTS: Final = ("previous_findings", "findings")
_ONE_LINE_ENTRY: Final = re.compile(r"(?P<id>\S+): (?P<title>.*) \((?P<severity>\w+)\)")
# What tells a challenge that found something from one that was only owed.
_SUBSTANCE: Final = "The guard is"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a project where there is something to find, or something that only looks like it."""

    path: str
    line: int
    code: str
    domain: str
    severity: Severity
    wordings: tuple[str, ...]
    """Titles under which it is reported; no two sites share one."""
    is_defect: bool = True

    @property
    def evidence(self) -> str:
        return f"{self.path}:{self.line} `{self.code}`"


@dataclass(frozen=True, slots=True)
class Skill:
    """How good a reviewer is; all but `severity_noise` are probabilities."""

    recall: float = 0.45
    false_positives: float = 0.10
    """Of reporting a place that only looks like a defect."""
    severity_noise: float = 0.0
    """Of being one step off."""
    keeps_true: float = 0.95
    keeps_false: float = 0.30
    """Of defending one's finding against a challenge of substance."""
    doubts_true: float = 0.15
    doubts_false: float = 0.60
    """Of finding a challenge of substance."""
    sycophancy: float = 0.0
    """Of giving in without any reason."""


class SimulatedConnection(InProcess):
    """One reviewer on one project."""

    kind = "cli"
    runtime_name = "simulated"

    def __init__(
        self, sites: Iterable[Site], skill: Skill, *, name: str, seed: int, correlation: float = 0.0
    ) -> None:
        self._sites = tuple(sites)
        self._skill = skill
        self._name = name
        self._seed = seed
        self._correlation = correlation
        self._by_wording = {wording: site for site in self._sites for wording in site.wordings}
        self.calls = 0

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        return Missing("no_connection", "a simulation is handed in, not found")

    def answer(self, call: Call) -> Outcome:
        self.calls += 1
        text = json.dumps(self._document(call))
        return Answered(text, model=self._name, usage=CallUsage())

    def _document(self, call: Call) -> Mapping[str, Any]:
        packet = _packet(call.prompt)
        match call.answer:
            case Answer.CHALLENGES:
                return {
                    "rulings": self._rulings(packet, call.prompt),
                    "challenges": self._challenges(packet),
                    "outputs": [],
                }
            case Answer.RESPONSES:
                return {"responses": self._responses(packet), "outputs": []}
            case Answer.RULINGS:
                return {"rulings": self._rulings(packet, call.prompt)}
            case Answer.NOTES:
                return {"challenge_notes": self._notes(packet)}
            case Answer.POSITIONS:
                return {"positions": []}
            case Answer.ITEMS:
                return {"outputs": self._items(call), "cross_domain_signals": []}

    # -- finding

    def _items(self, call: Call) -> list[dict[str, Any]]:
        """Experts report in Round 1; nobody finds anything by reading others' findings."""
        if call.key.role is not Role.EXPERT or call.key.round != 1:
            return []
        seen = [site for site in self._sites if site.domain == call.key.domain and self._sees(site)]
        return [self._item(site) for site in seen]

    def _sees(self, site: Site) -> bool:
        rate = self._skill.recall if site.is_defect else self._skill.false_positives
        # Common cause: with probability rho all reviewers share one draw (misses and inventions alike).
        shared = self._draw("cause", site, everybody=True) < self._correlation
        return self._draw("sees", site, everybody=shared) < rate

    def _item(self, site: Site) -> dict[str, Any]:
        wording = site.wordings[int(self._draw("wording", site) * len(site.wordings))]
        return {
            "type": "finding",
            "severity": self._rated(site).value,
            "title": wording,
            "description": f"{wording}: `{site.code}` in {site.path}, line {site.line}.",
            "evidence": site.evidence,
            "action": "change it",
        }

    def _rated(self, site: Site) -> Severity:
        if self._draw("noise", site) >= self._skill.severity_noise:
            return site.severity
        steps = list(Severity)
        moved = steps.index(site.severity) + (1 if self._draw("up", site) < 0.5 else -1)
        return steps[min(max(moved, 0), len(steps) - 1)]

    # -- challenging, answering, ruling

    def _challenges(self, packet: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "target_finding_id": finding_id,
                "challenge_text": self._doubt(site),
                "mechanism": "non-applicability",
            }
            for finding_id, site in self._known(packet)
        ]

    def _doubt(self, site: Site) -> str:
        if self._has_substance(site):
            return f"{_SUBSTANCE} at {site.evidence}: the situation cannot occur."
        return "This holds only if the value can be chosen from outside, which nobody has shown."

    def _has_substance(self, site: Site) -> bool:
        rate = self._skill.doubts_true if site.is_defect else self._skill.doubts_false
        return self._draw("doubts", site) < rate

    def _responses(self, packet: Mapping[str, Any]) -> list[dict[str, Any]]:
        texts: dict[str, str] = {}
        for challenge in _entries(packet, "open_challenges"):
            texts[str(challenge.get("target_finding_id"))] = str(challenge.get("challenge_text"))
        return [
            self._response(finding_id, site, texts[finding_id])
            for finding_id, site in self._known(packet)
            if finding_id in texts
        ]

    def _response(self, finding_id: str, site: Site, challenge: str) -> dict[str, Any]:
        if self._draw("gives in", site) < self._skill.sycophancy:
            return {
                "finding_id": finding_id,
                "status": "withdrawn",
                "defense": "You are right, I was mistaken.",
            }
        keeps = self._skill.keeps_true if site.is_defect else self._skill.keeps_false
        if _SUBSTANCE in challenge and self._draw("keeps", site) >= keeps:
            reason = f"Indeed, see {site.evidence}: it is handled there."
            return {"finding_id": finding_id, "status": "withdrawn", "defense": reason}
        defense = f"The caller passes it on unchecked: {site.evidence} is reached from the entry point."
        return {"finding_id": finding_id, "status": "confirmed", "defense": defense}

    def _rulings(self, packet: Mapping[str, Any], prompt: str) -> list[dict[str, Any]]:
        """A challenge without substance is taken back, answered or not."""
        sites = dict(self._known(packet))
        return [
            {
                "challenge_id": challenge.get("challenge_id"),
                "ruling": "maintain" if self._stands(sites, challenge) else "withdraw",
                "reason": "looked at the cited place again",
            }
            for challenge in _challenges_so_far(packet, prompt)
        ]

    def _stands(self, sites: Mapping[str, Site], challenge: Mapping[str, Any]) -> bool:
        site = sites.get(str(challenge.get("target_finding_id")))
        return site is not None and not site.is_defect and self._has_substance(site)

    def _notes(self, packet: Mapping[str, Any]) -> list[dict[str, Any]]:
        notes = []
        for finding_id, site in self._known(packet):
            # A true finding can be doubted with substance, but no evidence disproves it.
            doubted = "disputed" if site.is_defect else "withdrawn"
            outcome = doubted if self._has_substance(site) else "confirmed"
            notes.append(
                {
                    "finding_id": finding_id,
                    "challenge": self._doubt(site),
                    "mechanism": "non-applicability",
                    "response": f"looked at {site.evidence}",
                    "outcome": outcome,
                }
            )
        return notes

    # -- what it knows, and its dice

    def _known(self, packet: Mapping[str, Any]) -> list[tuple[str, Site]]:
        """The findings of a packet that are about a site, whatever the packet was reduced to."""
        found = []
        for entry in _findings(packet):
            site = self._by_wording.get(str(entry.get("title")))
            if site is not None:
                found.append((str(entry.get("id")), site))
        return found

    def _draw(self, purpose: str, site: Site, *, everybody: bool = False) -> float:
        who = "everybody" if everybody else self._name
        return random.Random(f"{self._seed}|{who}|{purpose}|{site.path}:{site.line}").random()


def _packet(prompt: str) -> Mapping[str, Any]:
    """The state of the debate as the prompt carries it: the JSON line with the findings."""
    found = [value for value in objects_in(prompt) if any(name in value for name in _FINDING_LISTS)]
    return found[-1] if found else {}


def _challenges_so_far(packet: Mapping[str, Any], prompt: str) -> list[Mapping[str, Any]]:
    """Open ones from the packet, answered ones from the list the Challenger is shown beside it."""
    lists = [json.loads(line) for line in prompt.splitlines() if line.startswith('[{"challenge_id"')]
    answered = [entry for listed in lists for entry in listed if isinstance(entry, dict)]
    known = {entry.get("challenge_id"): entry for entry in [*answered, *_entries(packet, "open_challenges")]}
    return list(known.values())


def _findings(packet: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed: Sequence[Any] = next((packet[name] for name in _FINDING_LISTS if name in packet), ())
    entries: list[Mapping[str, Any]] = []
    for entry in listed:
        if isinstance(entry, dict):
            entries.append(entry)
        elif isinstance(entry, str) and (match := _ONE_LINE_ENTRY.fullmatch(entry)):
            entries.append(match.groupdict())
    return entries


def _entries(packet: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = packet.get(name)
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
