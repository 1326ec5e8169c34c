"""A reviewer made of numbers: finds, invents, challenges and gives in with known probabilities (council §21).

It measures what a council is worth without a model. Everything is drawn from seeds, so a run can be repeated; draws of
different reviewers are correlated by a common cause, because models that are wrong tend to be wrong together. Whether a
finding is true enters only through the rates of `Skill`: nobody here knows more than a reviewer could.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from bridgehead.contract.words import Severity
from bridgehead.council.calls import Answer, Call, CallUsage, Role
from bridgehead.council.runtimes.base import InProcess, Missing, SeatSetup
from bridgehead.council.runtimes.exchange import CallOutcome, RuntimeAnswer, objects_in
from bridgehead.council.runtimes.machine import Machine

_FINDING_LISTS: Final = ("previous_findings", "findings")
_ONE_LINE_ENTRY: Final = re.compile(r"(?P<id>\S+): (?P<title>.*) \((?P<severity>\w+)\)")
_SECTION_NAME: Final = re.compile(r'^Section "([^"]+)"', re.MULTILINE)
# What tells a challenge that found something from one that was only owed.
_SUBSTANCE: Final = "The guard is"
_SERIOUS: Final = (Severity.CRITICAL, Severity.HIGH)


@dataclass(frozen=True, slots=True)
class Telling:
    """One way to put a finding into words."""

    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a project where there is something to find, or something that only looks like it."""

    path: str
    line: int
    code: str
    domain: str
    severity: Severity
    tellings: tuple[Telling, ...]
    """How reviewers put it; no two sites share a title."""
    is_defect: bool = True

    @property
    def evidence(self) -> str:
        return f"{self.path}:{self.line} `{self.code}`"


@dataclass(frozen=True, slots=True)
class Skill:
    """How good a reviewer is, in probabilities."""

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
    """Of giving in to a challenge that gives no reason; one of substance is weighed by the rates above."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A finding of a packet and the site it is about."""

    id: str
    site: Site
    is_serious: bool


class SimulatedConnection(InProcess):
    """One reviewer on one project."""

    kind = "cli"
    runtime_name = "simulated"

    def __init__(
        self,
        sites: Iterable[Site],
        skill: Skill,
        *,
        name: str,
        seed: int,
        correlation: float = 0.0,
    ) -> None:
        self._sites = tuple(sites)
        self._skill = skill
        self._name = name
        self._seed = seed
        self._correlation = correlation
        self._by_title = {
            telling.title: site for site in self._sites for telling in site.tellings
        }
        self.calls = 0

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self | Missing:
        return Missing("no_connection", "a simulation is handed in, not found")

    def answer(self, call: Call) -> CallOutcome:
        self.calls += 1
        text = json.dumps(self._document(call))
        return RuntimeAnswer(text, model=self._name, usage=CallUsage())

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
            case Answer.EXAMINATION:
                return {"challenge_notes": self._notes(packet), "outputs": []}
            case Answer.DEFENCES:
                return {
                    "responses": self._responses(packet),
                    "challenge_notes": self._notes(packet),
                }
            case Answer.POSITIONS:
                return {"positions": []}
            case Answer.SECTIONS:
                return {"sections": self._sections(call)}
            case Answer.ITEMS:
                return {"outputs": self._items(call), "cross_domain_signals": []}

    # -- finding

    def findings(self, domain: str) -> list[dict[str, Any]]:
        """What it reports of a domain when it looks by itself."""
        seen = [
            site for site in self._sites if site.domain == domain and self._sees(site)
        ]
        return [self._item(site) for site in seen]

    def _items(self, call: Call) -> list[dict[str, Any]]:
        """Experts report in Round 1; nobody finds anything by reading others' findings."""
        is_first_look = call.key.role is Role.EXPERT and call.key.round == 1
        return self.findings(call.key.domain) if is_first_look else []

    def _sections(self, call: Call) -> list[dict[str, Any]]:
        """What each expert of a shared Round 1 reports: the same as in a call of its own."""
        names = dict.fromkeys(_SECTION_NAME.findall(call.prompt))
        return [{"domain": name, "outputs": self.findings(name)} for name in names]

    def _sees(self, site: Site) -> bool:
        rate = self._skill.recall if site.is_defect else self._skill.false_positives
        # Common cause: with probability rho all reviewers share one draw (misses and inventions alike).
        shared = self._draw("cause", site, everybody=True) < self._correlation
        return self._draw("sees", site, everybody=shared) < rate

    def _item(self, site: Site) -> dict[str, Any]:
        telling = site.tellings[int(self._draw("telling", site) * len(site.tellings))]
        return {
            "type": "finding",
            "severity": self._rated(site).value,
            "title": telling.title,
            "description": telling.description,
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
        """Serious findings are always challenged (council §9.4), the others where there is something to say."""
        return [
            {
                "target_finding_id": finding.id,
                "challenge_text": self._doubt(finding.site),
                "mechanism": "non-applicability",
            }
            for finding in self._known(packet)
            if finding.is_serious or self._has_substance(finding.site)
        ]

    def _doubt(self, site: Site) -> str:
        if self._has_substance(site):
            return f"{_SUBSTANCE} at {site.evidence}: the situation cannot occur."
        return "This holds only if the value can be chosen from outside, which nobody has shown."

    def _has_substance(self, site: Site) -> bool:
        rate = self._skill.doubts_true if site.is_defect else self._skill.doubts_false
        return self._draw("doubts", site) < rate

    def _keeps(self, site: Site) -> bool:
        """Whether a finding still looks right after a challenge of substance."""
        rate = self._skill.keeps_true if site.is_defect else self._skill.keeps_false
        return self._draw("keeps", site) < rate

    def _responses(self, packet: Mapping[str, Any]) -> list[dict[str, Any]]:
        texts: dict[str, str] = {}
        for challenge in _entries(packet, "open_challenges"):
            texts[str(challenge.get("target_finding_id"))] = str(
                challenge.get("challenge_text")
            )
        return [
            self._response(finding, texts[finding.id])
            for finding in self._known(packet)
            if finding.id in texts
        ]

    def _response(self, finding: _Known, challenge: str) -> dict[str, Any]:
        site = finding.site
        status, defense = (
            "confirmed",
            f"The value reaches {site.evidence} from the entry point, unchanged.",
        )
        if _SUBSTANCE in challenge:
            if not self._keeps(site):
                status, defense = (
                    "withdrawn",
                    f"Indeed, see {site.evidence}: it is handled there.",
                )
        elif self._draw("gives in", site) < self._skill.sycophancy:
            status, defense = "withdrawn", "You are right, I was mistaken."
        return {"finding_id": finding.id, "status": status, "defense": defense}

    def _rulings(self, packet: Mapping[str, Any], prompt: str) -> list[dict[str, Any]]:
        """A challenge of substance stands, answered or not; any other is taken back."""
        sites = {finding.id: finding.site for finding in self._known(packet)}
        rulings = []
        for challenge in _challenges_so_far(packet, prompt):
            site = sites.get(str(challenge.get("target_finding_id")))
            stands = site is not None and self._has_substance(site)
            rulings.append(
                {
                    "challenge_id": challenge.get("challenge_id"),
                    "ruling": "maintain" if stands else "withdraw",
                    "reason": "looked at the cited place again",
                }
            )
        return rulings

    def _notes(self, packet: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The Devil's Advocate answers its own doubts: nobody else is asked in Stage B."""
        return [
            {
                "finding_id": finding.id,
                "challenge": self._doubt(finding.site),
                "mechanism": "non-applicability",
                "response": f"looked at {finding.site.evidence}",
                "outcome": self._outcome(finding.site),
            }
            for finding in self._known(packet)
        ]

    def _outcome(self, site: Site) -> str:
        if not self._has_substance(site):
            return "confirmed"
        return "disputed" if self._keeps(site) else "withdrawn"

    # -- what it knows, and its dice

    def _known(self, packet: Mapping[str, Any]) -> list[_Known]:
        """The findings of a packet that are about a site, whatever the packet was reduced to."""
        return [
            _Known(str(entry.get("id")), site, str(entry.get("severity")) in _SERIOUS)
            for entry in _findings(packet)
            if (site := self._by_title.get(str(entry.get("title")))) is not None
        ]

    def _draw(self, purpose: str, site: Site, *, everybody: bool = False) -> float:
        """Evenly between 0 and 1, always the same for the same question."""
        who = "everybody" if everybody else self._name
        question = f"{self._seed}|{who}|{purpose}|{site.path}:{site.line}".encode()
        return (
            int.from_bytes(hashlib.blake2b(question, digest_size=6).digest(), "big")
            / 2**48
        )


def _packet(prompt: str) -> Mapping[str, Any]:
    """The state of the debate as the prompt carries it: the JSON line with the findings."""
    found = [
        value
        for value in objects_in(prompt)
        if any(name in value for name in _FINDING_LISTS)
    ]
    return found[-1] if found else {}


def _challenges_so_far(
    packet: Mapping[str, Any], prompt: str
) -> list[Mapping[str, Any]]:
    """Open ones from the packet, answered ones from the list the Challenger is shown beside it."""
    lists = [
        json.loads(line)
        for line in prompt.splitlines()
        if line.startswith('[{"challenge_id"')
    ]
    answered = [
        entry for listed in lists for entry in listed if isinstance(entry, dict)
    ]
    known = {
        entry.get("challenge_id"): entry
        for entry in [*answered, *_entries(packet, "open_challenges")]
    }
    return list(known.values())


def _findings(packet: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed: Sequence[Any] = next(
        (packet[name] for name in _FINDING_LISTS if name in packet), ()
    )
    entries: list[Mapping[str, Any]] = []
    for entry in listed:
        if isinstance(entry, dict):
            entries.append(entry)
        elif isinstance(entry, str) and (match := _ONE_LINE_ENTRY.fullmatch(entry)):
            entries.append(match.groupdict())
    return entries


def _entries(packet: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = packet.get(name)
    return (
        [entry for entry in listed if isinstance(entry, dict)]
        if isinstance(listed, list)
        else []
    )
